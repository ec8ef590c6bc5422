"""A study's page: every number on it is that of its cells."""

import json
import re
from pathlib import Path

import pytest

from pace.errors import FileError
from pace.task import accuracy
from pace_study.cell import Store
from pace_study.claims import judge_claims
from pace_study.folder import Study, note_command
from pace_study.page import write_study_page
from pace_study.scores import score_cells
from pace_study.tables import beside, measured, part_tables, show_ours
from tests.reports.test_page import Outline
from tests.studies import SEEDS, part, trial, write_study


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outline]:
    folder = tmp_path_factory.mktemp("study")
    write_study(folder)
    return folder, Outline(write_study_page(folder, SEEDS).read_text(encoding="utf-8"))


def test_the_studys_tables_are_those_of_its_cells(made: tuple[Path, Outline]) -> None:
    """The main table on the page is the one that Markdown is made of, marks and all."""
    folder, outline = made
    numbers = beside(measured(part("main"), score_cells(Store(folder / "cells")), SEEDS), {})
    (wanted,) = (part for part in Study(folder).parts if part.name == "main")
    (table,) = part_tables(wanted, numbers, show_ours)
    kinds = {"": "", "best": "strong", "second": "u", "absent": "i"}
    for row in table.rows:
        assert [(value.text, kinds[value.mark]) for value in row] in outline.rows


def test_a_number_stands_beside_the_papers_with_its_difference(made: tuple[Path, Outline]) -> None:
    folder, outline = made
    ours = measured(part("main"), score_cells(Store(folder / "cells")), SEEDS)
    mean = ours.set_index(["dataset", "method", "metric"])["mean"]["Cora", "PACE", "accuracy"]
    low, high = r"\[-?[\d.]+, ", r"-?[\d.]+\]"  # where one more draw falls
    paper = rf"\(80\.34 ± 0\.61\) {re.escape(f'{mean - 80.34:+.2f}')} [✓✗]"
    pattern = rf"{mean:.2f} ± [\d.]+ {low}{high} {paper}"
    assert any(re.fullmatch(pattern, text) for row in outline.rows for text, _ in row)


def test_claims_carry_their_verdict_in_words(made: tuple[Path, Outline]) -> None:
    folder, outline = made
    marks = {"holds": "✓", "not confirmed; compatible with one draw": "≈", "does not hold": "✗"}
    for claim in judge_claims(score_cells(Store(folder / "cells")), SEEDS):
        place = outline.texts.index(f"{claim.text} ({claim.place})")
        mark = marks.get(claim.verdict, "–")
        assert outline.texts[place - 1] == f"{mark} {claim.verdict}"
        assert outline.texts[place + 1] == claim.evidence


def test_receivers_are_those_of_the_cells(made: tuple[Path, Outline]) -> None:
    folder, outline = made
    cells = [c for c in Study(folder).cells if c.clients == 20 and c.method == "pace"]
    first, second = (trial(c) for c in sorted(cells, key=lambda c: c.seed))
    each = [
        [100 * accuracy(t.counts[reading][7]) for t in (first, second)]
        for reading in ("local", "adopted")
    ]
    local, ours = (sum(values) / 2 for values in each)
    alphas = [first.alphas[7], second.alphas[7]]
    numbers = [f"{local:.2f}", f"{ours:.2f}", f"{ours - local:+.2f}", f"{sum(alphas) / 2:.3f}"]
    row = ["Receiver 7", str(int(first.counts["local"][7].sum())), *numbers]
    assert row in [[text for text, _ in r] for r in outline.rows]


def test_a_dataset_without_data_is_said_to_be_not_run(made: tuple[Path, Outline]) -> None:
    _, outline = made
    assert outline.texts[outline.texts.index("ogbn-arxiv") + 1] == "not run: data not available"
    assert "alert" not in "".join(outline.elements)
    assert outline.handlers == []


def test_the_page_is_a_function_of_the_folder(made: tuple[Path, Outline]) -> None:
    folder, _ = made
    before = (folder / "index.html").read_bytes()
    assert write_study_page(folder, SEEDS).read_bytes() == before


def test_commands_are_noted_once(tmp_path: Path) -> None:
    for command in ("pace reproduce main", "pace reproduce masks", "pace reproduce main"):
        path = note_command(tmp_path, command)
    assert json.loads(path.read_text()) == ["pace reproduce main", "pace reproduce masks"]


def test_a_file_that_holds_no_cells_is_named(tmp_path: Path) -> None:
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "1.parquet").write_text("{")
    with pytest.raises(FileError, match=r"1\.parquet"):
        write_study_page(tmp_path, SEEDS)
