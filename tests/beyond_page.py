"""The tables of docs/beyond.md: some columns of those that the study stores.

`python -m tests.beyond_page` writes them; a test compares.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "beyond.md"
# Which section of results/tables/NAME.md the page shows; its columns by their heads.
SECTIONS = {"ridge": "Which one to take", "labels": "Over ", "field": "Over "}
COLUMNS = {"", "Method", "Mean rank", "− PACE", "− Local", "− alone", "Lowest − PACE", "Harmed"}
COLUMNS |= {"Upload", "Return", "Rounds", "Labels"}
LEFT_OUT = {"field": {"Harmed", "Rounds", "Labels"}}  # of so many rows, whose names say it


def summary(name: str) -> str:
    """The title and the table of a section, with the page's columns alone."""
    stored = (ROOT / "results" / "tables" / f"{name}.md").read_text()
    (section,) = (part for part in stored.split("## ") if part.startswith(SECTIONS[name]))
    title, table = section.strip().split("\n\n", 1)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    heads = COLUMNS - LEFT_OUT.get(name, set())
    shown = [index for index, head in enumerate(rows[0]) if head in heads]
    lines = ["| " + " | ".join(row[index] for index in shown) + " |" for row in rows]
    return "\n".join([f"{title}:", "", *lines] if title.startswith("Over") else lines)


def render(page: str) -> str:
    """The page with today's tables between its marks, `<!-- NAME -->` and `<!-- /NAME -->`."""
    marks = rf"(?s)<!-- ({'|'.join(SECTIONS)}) -->\n.*?\n<!-- /\1 -->"
    return re.sub(marks, lambda m: f"<!-- {m[1]} -->\n{summary(m[1])}\n<!-- /{m[1]} -->", page)


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text()))
