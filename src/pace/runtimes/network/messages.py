"""What the server and a node say to each other: words of fixed kinds and at most one frame of ours.

    ask for the upload   upload      {job}
    the upload           its reply   {code: "ok", name, payload}  or  {code}
    the return           return      {job, payload, roll}
    acknowledgement      its reply   nothing  or  {code}

The payload is a frame as it would lie in a file, the roll (see `jobs.roll`) says who was in. An
acknowledgement is empty: a receiver gives no feedback.
"""

from __future__ import annotations

from collections.abc import Mapping

UPLOAD, RETURN = "upload", "return"  # kinds of messages
KINDS = {"job": str, "code": str, "name": str, "payload": bytes, "roll": bytes}

Words = dict[str, str | bytes]


def known(words: Mapping[str, object]) -> Words:
    """Those of the kinds we know; anything else is as if it had not been sent."""
    return {key: words[key] for key, kind in KINDS.items() if isinstance(words.get(key), kind)}  # type: ignore[misc]


def text(words: Words, key: str) -> str:
    """A short printable word of a message, or nothing."""
    found = words.get(key, "")
    return found if isinstance(found, str) and len(found) <= 64 and found.isprintable() else ""


def content(words: Words, key: str) -> bytes:
    """Bytes of a message, or none."""
    found = words.get(key, b"")
    return found if isinstance(found, bytes) else b""
