"""Text from outside on its way to people: in a terminal, Markdown, HTML, LaTeX or CSV it is text.

Names may hold escape sequences, line ends, marks that turn the direction of writing, markup, or a
formula that a spreadsheet would compute; and a file's name need not be UTF-8.
"""

import re
from typing import Literal

MARKDOWN = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_[]|~"})
TEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "{}$&#_%"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
    | {"[": "{[}", "*": "{*}"}  # which the `\\` before a row would take for its own
    | {"α": r"$\alpha$", "λ": r"$\lambda$", "±": r"$\pm$", "→": r"$\to$", "≈": r"$\approx$"}
)
FORMULA = tuple("=+-@＝＋－＠")  # Excel computes the wide ones too, in some countries
INNER = re.compile(rf";(?=[{''.join(map(re.escape, FORMULA))}])")  # where `;` parts columns
PART = 4096  # letters at a time: a page of them one by one takes a hundred times its room
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
Medium = Literal["terminal", "markdown", "html", "latex", "csv"]


def shown(text: object, medium: Medium = "terminal") -> str:
    """One line that shows the text and does nothing else.

    Control characters, line ends, marks of direction, invisible characters and bytes that are not
    UTF-8 appear as `\\x1b`, `\\u202e`; other spaces as a space. Then, by medium: Markdown's, HTML's and
    LaTeX's signs are escaped, and in CSV an apostrophe comes before what a spreadsheet would compute.
    """
    line = str(text)
    if not line.isprintable():
        parts = (line[start : start + PART] for start in range(0, len(line), PART))
        line = "".join("".join(map(_visible, part)) for part in parts)
    if medium in ("markdown", "html"):
        from html import escape  # takes milliseconds, and `pace --help` needs none

        if medium == "html":
            return escape(line)
        escaped = escape(line, quote=False).translate(MARKDOWN)
        return escaped.replace("://", ":\\//").replace("www.", "www\\.")  # links by themselves
    if medium == "latex":
        return line.translate(TEX)
    if medium == "csv" and not NUMBER.fullmatch(line):
        line = INNER.sub(";'", line)
        return f"'{line}" if line.startswith(FORMULA) else line
    return line


def one_line(name: str) -> str:
    """A column's name as tables and options have it: a spreadsheet may break it into lines."""
    return " ".join(line.strip() for line in name.strip().splitlines())


def _visible(letter: str) -> str:
    if letter.isprintable():
        return letter
    if letter.isspace() and letter not in "\t\n\r\v\f\x1c\x1d\x1e\x1f\x85\u2028\u2029":
        return " "
    code = ord(letter)
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file's name that is not UTF-8
        code -= 0xDC00
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
