"""docs/beyond.md cannot drift from results/: its tables are that folder's own."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("name", "least"), [("beyond", 40), ("ridge", 50), ("rounds", 10)])
def test_the_page_shows_the_stored_tables(name: str, least: int) -> None:
    page = (ROOT / "docs" / "beyond.md").read_text()
    stored = (ROOT / "results" / "tables" / f"{name}.md").read_text()
    shown = page.split(f"<!-- {name} -->")[1].split(f"<!-- /{name} -->")[0]
    tables = [line for line in shown.splitlines() if line.startswith("|")]
    assert tables == [line for line in stored.splitlines() if line.startswith("|")]
    assert len(tables) > least
