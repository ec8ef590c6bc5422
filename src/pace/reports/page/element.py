"""HTML that cannot forget to escape: text is escaped, only elements are taken as they are."""

from __future__ import annotations

from html import escape

VOID = frozenset({"img", "link", "meta"})  # elements without content or end


class Html(str):
    """Text that is markup already. Made by `element` and `joined`, and of our own files."""

    __slots__ = ()


def element(name: str, /, *content: str, **attributes: str | bool | None) -> Html:
    """`<name key="value">content</name>`.

    `class_` is class and `data_sort` is data-sort; True is a bare attribute, None and False none.
    """
    words = [name]
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            words.append(key)
        elif isinstance(value, str):
            words.append(f'{key}="{escape(value)}"')
    start = f"<{' '.join(words)}>"
    return Html(start if name in VOID else f"{start}{joined(*content)}</{name}>")


def joined(*content: str) -> Html:
    """Pieces one after another, those that are plain text escaped."""
    return Html("".join(c if isinstance(c, Html) else escape(c) for c in content))
