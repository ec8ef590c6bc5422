"""docs/beyond.md shows columns of the stored tables of results/, and links to them."""

import re
from pathlib import Path

import pytest

from pace.methods.about import GAINS, proposal
from tests import beyond_page

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "beyond.md").read_text()


def test_the_page_shows_the_stored_tables() -> None:
    assert beyond_page.render(PAGE) == PAGE, "run `python -m tests.beyond_page`"
    assert PAGE.count("| pace-full |") == 2


@pytest.mark.parametrize("sealed", [False, True])
def test_a_new_job_names_the_gain_of_the_stored_table(sealed: bool) -> None:
    """The mean over settings of the column `− alone`, the sixth of every setting's row."""
    name, why = proposal(sealed=sealed)
    stored = (ROOT / "results" / "tables" / "labels.md").read_text()
    rows = re.findall(rf"(?m)^\| [^|]+ \| {name} \|(?:[^|]+\|){{3}} ([+-][\d.]+) \|", stored)
    gain, settings = GAINS[name]
    assert settings == len(rows)
    assert gain == pytest.approx(sum(map(float, rows)) / len(rows), abs=0.0501)
    assert f"{name}: {gain} points above a site alone on average over {settings} settings" in why


@pytest.mark.parametrize(
    ("name", "least"),
    [("beyond", 40), ("ridge", 80), ("labels", 10), ("field", 10), ("strained", 10)],
)
def test_the_page_links_to_the_stored_tables(name: str, least: int) -> None:
    path = ROOT / "results" / "tables" / f"{name}.md"
    assert f"](../results/tables/{name}.md)" in PAGE
    assert len(re.findall(r"(?m)^\|", path.read_text())) > least


def test_the_page_says_which_aims_were_reached() -> None:
    words = {4: "four", 5: "five", 7: "seven"}
    for name, form in (
        ("ridge", "It reached all {all} of its aims."),
        ("beyond", "Of its {all} aims {reached} were reached."),
    ):
        text = (ROOT / "results" / "tables" / f"{name}.md").read_text()
        reached, missed = text.count("| reached |"), text.count("| **not reached** |")
        said = form.format(all=words[reached + missed], reached=words[reached])
        assert said in " ".join(PAGE.split())
