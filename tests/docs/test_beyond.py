"""docs/beyond.md cannot drift from results/: its tables are that folder's own."""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_shows_the_stored_tables() -> None:
    page = (ROOT / "docs" / "beyond.md").read_text()
    stored = (ROOT / "results" / "tables" / "beyond.md").read_text()
    shown = page.split("<!-- beyond -->")[1].split("<!-- /beyond -->")[0]
    tables = [line for line in shown.splitlines() if line.startswith("|")]
    assert tables == [line for line in stored.splitlines() if line.startswith("|")]
    assert len(tables) > 40
