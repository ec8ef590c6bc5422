"""The code blocks of the documentation, and the marks above them that say how each is to be run.

    <!-- not run: REASON -->       it cannot be run here
    <!-- run by tests/FILE.py -->  that test runs it
    <!-- slow: REASON -->          run only by `make test-slow`
    <!-- needs PACE_DATA -->       run only where the benchmarks are
    <!-- fails with CODE -->       ends with this exit code
    <!-- output -->                what the block before prints: `…` for any text, or any lines
    <!-- output, about -->         the same; numbers may differ a little, sparklines altogether
    <!-- file: NAME -->            written to a file before the next block runs
    <!-- hidden LANGUAGE           a block that readers do not see, up to the end of the comment

`python -m tests.blocks` lists every block that is not run by its page's test, with the reason.
"""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = ("python", "sh")
MARKS = ("not run", "run by", "slow", "needs PACE_DATA", "fails with", "output", "file", "hidden")

FENCE = (
    r"^(?P<indent> *)(?P<ticks>```+)(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)(?P=ticks) *$"
)
HIDDEN = r"^<!-- hidden (?P<tongue>\w+)\n(?P<unseen>.*?)^-->$"
BLOCK = re.compile(rf"(?P<marks>(?:^ *<!-- [^\n]* -->\n)*)(?:{FENCE})|{HIDDEN}", re.M | re.S)
COMMENT = re.compile(r"^ *<!-- (.*) -->$", re.M)


@dataclass(frozen=True)
class Block:
    """One fence, or one hidden comment."""

    page: Path
    line: int  # of its first line of text
    language: str
    text: str
    marks: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def mark(self, kind: str) -> str | None:
        """What a mark of this kind says: `not run: REASON` gives the reason; none gives None."""
        for mark in self.marks:
            if re.match(rf"{kind}\b", mark):
                return mark.removeprefix(kind).lstrip(":, ")
        return None

    @property
    def runs(self) -> bool:
        elsewhere = self.mark("not run") is not None or self.mark("run by") is not None
        return self.language in RUN and not elsewhere and self.mark("file") is None


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    found = []
    for match in BLOCK.finditer(text):
        content = match["text"] if match["unseen"] is None else match["unseen"]
        start = match.start("text") if match["unseen"] is None else match.start("unseen")
        indent = match["indent"] or ""
        found.append(
            Block(
                page,
                text.count("\n", 0, start) + 1,
                match["language"] or match["tongue"] or "",
                re.sub(rf"^{indent}", "", content, flags=re.M),
                tuple(COMMENT.findall(match["marks"] or "")) + ("hidden",) * bool(match["tongue"]),
            )
        )
    return found


SPARKS = "▁▂▃▄▅▆▇█"
NUMBER = r"\d[\d,]*(?:\.\d+)?"
TOKEN = re.compile(
    rf"(?P<any>…)|(?P<number>{NUMBER})|(?P<spark>[{SPARKS}])|(?P<space>\s+)|(?P<text>.)"
)


def agree(shown: str, printed: str, *, about: bool = False) -> bool:
    """Is what a page shows what was printed? Spaces at the ends of lines do not count.

    Pages show a terminal, where the rule under a table's heads is drawn; in a pipe it is of hyphens.
    """
    shown, printed = (text.replace("─", "-") for text in (shown, printed))
    wanted = "\n".join(pattern(line.rstrip(), about) for line in shown.strip().splitlines())
    got = "\n".join(line.rstrip() for line in printed.strip().splitlines())
    found = re.fullmatch(wanted, got)
    if found is None or not about:
        return found is not None
    numbers = re.findall(NUMBER, shown)
    return all(close(a, b) for a, b in zip(numbers, found.groups(), strict=True))


def pattern(line: str, about: bool) -> str:
    """What a shown line stands for; a number with fewer digits has more spaces before it."""
    if line.strip() == "…":
        return r"(?:.|\n)*?"
    loose = {"number": f"({NUMBER})", "spark": f"[{SPARKS}]", "space": " *"} if about else {}
    return "".join(
        {"any": ".*?", **loose}.get(token.lastgroup or "", re.escape(token[0]))
        for token in TOKEN.finditer(line)
    )


def close(wanted: str, got: str) -> bool:
    a, b = (float(number.replace(",", "")) for number in (wanted, got))
    return abs(a - b) <= max(0.5, 0.02 * abs(a))


if __name__ == "__main__":
    every = [block for page in PAGES for block in blocks(page) if block.language in RUN]
    for block in every:
        for kind in ("not run", "run by", "slow", "needs PACE_DATA"):
            if (reason := block.mark(kind)) is not None:
                print(f"{block}: {kind} {reason}")
    counts = Counter(block.language for block in every if block.runs)
    print(f"run: {counts}; of {len(every)} blocks")
