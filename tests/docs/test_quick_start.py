"""The quick start shows what `make demo` prints, as README.md does, where it is run."""

from tests.blocks import ROOT, blocks

START = "synthetic, louvain, 10 clients, 5 seeds"


def test_the_quick_start_shows_the_readmes_output() -> None:
    pages = [ROOT / "README.md", ROOT / "docs" / "quick-start.md"]
    shown = [
        [block.text for block in blocks(page) if block.text.startswith(START)] for page in pages
    ]
    assert shown[0] == shown[1]
    assert len(shown[0]) == 1
    (run,) = (block for block in blocks(pages[0]) if "pace run --out demo" in block.text)
    assert run.runs
