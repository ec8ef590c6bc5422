"""The page: nothing on it that is not in the data, nothing in the data that can act on it."""

import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import pytest

from pace.errors import FileError
from pace.methods import make
from pace.models.gcn import GCN
from pace.reports import (
    Beside,
    Change,
    Changes,
    Choice,
    Code,
    Column,
    Confusion,
    Document,
    Drilldown,
    Facts,
    Figure,
    Finding,
    Findings,
    Fold,
    Mark,
    Matrix,
    Reliability,
    Section,
    Table,
    Text,
    Value,
    View,
    render_page,
    run_page,
)
from pace.reports.run_result import RunResult
from pace.reports.run_tables import ranked
from pace.runtimes.simulation import simulate
from pace.task import accuracy
from pace_study import folder as study_folder
from pace_study import page as study_page
from pace_study.claims import claims
from pace_study.records import measured
from pace_study.tables import grids, places, shown
from tests.graphs import CLASSES, FEATURES, clients
from tests.studies import HOSTILE, SEEDS, part, png, trial, write_study


class Outline(HTMLParser):
    """Tables as texts, and every attribute that could load something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.texts: list[str] = []
        self.rows: list[list[tuple[str, str]]] = []  # what stands in a cell, and the elements in it
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "action", "srcset", "data", "poster"):
                self.links.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append(("", ""))
            self.inside = True
        elif self.inside:
            text, marks = self.rows[-1][-1]
            self.rows[-1][-1] = (text, f"{marks}{tag}")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self.inside = False

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self.inside:
            text, marks = self.rows[-1][-1]
            self.rows[-1][-1] = (text + data, marks)


def everything(text: str) -> Document:
    """A document with every kind of block, and the same text wherever there is room for one."""
    value = Value(text, text, below=text)
    table = Table(text, (Column(text, numeric=False), Column(text, text)), ((value, value),), text)
    view = View(text, text, (Matrix(text, "1 0;0 1"),))
    blocks = (
        Text(text),
        Code(text),
        Facts(((text, text),)),
        Findings((Finding(text, "holds", text),)),
        table,
        Figure(text, text, png(2, 2)),
        Fold(text, (Text(text),)),
        Drilldown((text,), (Choice((text,), table, ((view,),)),)),
        Beside((Confusion(text, (text, text), ((3, 0), (1, 2))),)),
        Reliability(text, (Mark(0.2, 0.0, 0), Mark(0.7, 0.5, 12_345))),
        Changes(text, (text, text, text), (Change(text, 0.4, 0.7, 0.5),), text, text),
    )
    section = Section(text, (*blocks, Section(text, blocks)))
    return Document(text, text, ((text, text),), (section,))


def test_text_from_data_never_becomes_markup() -> None:
    plain, hostile = (
        Outline(render_page(everything("plain"))),
        Outline(render_page(everything(HOSTILE))),
    )
    assert hostile.elements == plain.elements
    assert hostile.handlers == []
    assert HOSTILE in hostile.texts


def test_a_page_refers_to_nothing_but_itself() -> None:
    text = render_page(everything("plain"))
    assert all(link.startswith(("#", "data:")) for link in Outline(text).links)
    assert not re.search(r"https?:|@import|url\(|//[a-z]+\.", text)
    assert "default-src 'none'" in unescape(text)


@pytest.mark.parametrize(("file", "end"), [("page.css", "</style"), ("page.js", "</script")])
def test_style_and_script_are_shipped_and_do_not_end_their_element(file: str, end: str) -> None:
    text = resources.files("pace.reports").joinpath(file).read_text(encoding="utf-8")
    assert text
    assert end not in text


def test_a_column_without_a_sort_value_has_none_and_marks_are_elements() -> None:
    row = (
        Value("a", "a"),
        Value("1", 1.5, "best"),
        Value("2", 2.5, "second"),
        Value("-", mark="absent"),
    )
    columns = (Column("x", numeric=False), Column("y"), Column("z"), Column("w"))
    text = render_page(Document("t", "l", (), (Section("s", (Table("c", columns, (row,)),)),)))
    assert '<td class="number" data-sort="1.5"><strong>1</strong></td>' in text
    assert '<td class="number" data-sort="2.5"><u>2</u></td>' in text
    assert '<td class="number"><i>-</i></td>' in text


def test_a_chart_of_changes_has_an_axis_around_its_values() -> None:
    rows = (Change("a", 0.62, 0.74), Change("b", 0.81, 0.68))
    text = render_page(
        Document("t", "l", (), (Section("s", (Changes("c", ("x", "y", "z"), rows),)),))
    )
    assert "<span>60 %</span><span>90 %</span>" in text
    assert '--before:0.0667;--after:0.4667"><i class="way gain">' in text
    assert '--before:0.7000;--after:0.2667"><i class="way loss">' in text
    assert "62.0 → 74.0" in text
    one = (Changes("c", ("x", "y", "z"), (Change("a", 1.0, 1.0),)),)
    assert "<span>90 %</span><span>100 %</span>" in render_page(
        Document("t", "l", (), (Section("s", one),))
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outline]:
    folder = tmp_path_factory.mktemp("study")
    write_study(folder)
    return folder, Outline(study_page.write(folder).read_text(encoding="utf-8"))


def test_the_studys_tables_are_those_of_its_cells(made: tuple[Path, Outline]) -> None:
    """The main table on the page is the grid that Markdown and LaTeX are made of, marks and all."""
    folder, outline = made
    store = study_folder.read(folder).store
    records = measured(part("main"), store, SEEDS)
    wanted = replace(part("main"), datasets=("cora", "citeseer", "ogbn-arxiv"))
    (grid,) = grids(wanted, records)
    for (label, found), marks in zip(grid.rows, places(grid), strict=True):
        row = [(label, "")]
        for record, mark in zip(found, marks, strict=True):
            kind = ("", "strong", "u")[mark]
            row.append(("not run", "i") if record is None else (shown(record), kind))
        assert row in outline.rows


def test_a_number_stands_beside_the_papers_with_its_difference(made: tuple[Path, Outline]) -> None:
    _, outline = made
    ours = measured(part("main"), study_folder.read(made[0]).store, SEEDS)
    mean = next(
        r.mean for r in ours if (r.dataset, r.method, r.metric) == ("Cora", "PACE", "accuracy")
    )
    low, high = r"\[-?[\d.]+, ", r"-?[\d.]+\]"  # where one more draw falls
    paper = rf"80\.34  {re.escape(f'{mean - 80.34:+.2f}')} [✓✗]"
    pattern = rf"{mean:.2f} {low}{high}{paper}"
    assert any(re.fullmatch(pattern, text) for row in outline.rows for text, _ in row)


def test_claims_carry_their_verdict_in_words(made: tuple[Path, Outline]) -> None:
    folder, outline = made
    marks = {"holds": "✓", "holds within the draw's spread": "≈", "does not hold": "✗"}
    for claim in claims(study_folder.read(folder).store, SEEDS):
        place = outline.texts.index(f"{claim.statement} ({claim.place})")
        mark = marks.get(claim.verdict, "–")
        assert outline.texts[place - 1] == f"{mark} {claim.verdict}"
        assert outline.texts[place + 1] == claim.evidence


def test_receivers_are_those_of_the_cells(made: tuple[Path, Outline]) -> None:
    folder, outline = made
    cells = [c for c in study_folder.read(folder).cells if c.clients == 20 and c.method == "pace"]
    first, second = (trial(c) for c in sorted(cells, key=lambda c: c.seed))
    each = [
        [100 * accuracy(t.counts[reading][7]) for t in (first, second)]
        for reading in ("local", "adopted")
    ]
    local, ours = (sum(values) / 2 for values in each)
    alphas = [first.alphas[7], second.alphas[7]]
    numbers = [f"{local:.2f}", f"{ours:.2f}", f"{ours - local:+.2f}", f"{sum(alphas) / 2:.3f}"]
    row = ["Receiver 7", str(int(first.counts["local"][7].sum())), *numbers]
    assert [*row, *(f"{a:.3f}" for a in alphas)] in [[text for text, _ in r] for r in outline.rows]


def test_a_dataset_without_data_is_said_to_be_not_run(made: tuple[Path, Outline]) -> None:
    _, outline = made
    assert outline.texts[outline.texts.index("ogbn-arxiv") + 1] == "not run: data not available"
    assert "alert" not in "".join(outline.elements)
    assert outline.handlers == []


def test_the_page_is_a_function_of_the_folder(made: tuple[Path, Outline]) -> None:
    folder, _ = made
    before = (folder / "index.html").read_bytes()
    assert study_page.write(folder).read_bytes() == before


def test_rows_are_compared_on_seeds_that_all_of_them_have(tmp_path: Path) -> None:
    """A study cut short, and a dataset with fewer seeds, still give whole tables."""
    gone = ("citeseer", "fedavg", 130363)
    store = write_study(tmp_path, lambda cell: (cell.dataset, cell.method, cell.seed) == gone)
    study = study_folder.read(tmp_path)
    main = next(p for p in study.parts if p.name == "main")
    assert study.seeds_of(main, "cora") == SEEDS
    assert study.seeds_of(main, "citeseer") == SEEDS[:1]
    found = [r for r in study.records(main) if r.dataset == "CiteSeer"]
    assert found == measured(replace(part("main"), datasets=("citeseer",)), store, SEEDS[:1])


def test_commands_are_noted_once(tmp_path: Path) -> None:
    for command in ("pace reproduce main", "pace reproduce masks", "pace reproduce main"):
        path = study_folder.note_command(tmp_path, command)
    assert json.loads(path.read_text()) == ["pace reproduce main", "pace reproduce masks"]


def test_a_file_that_holds_no_cells_is_named(tmp_path: Path) -> None:
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "1.parquet").write_text("{")
    with pytest.raises(FileError, match=r"1\.parquet"):
        study_page.write(tmp_path)


def run_example() -> RunResult:
    methods = {name: make(name, 2) for name in ("local", "fedavg", "pace")}
    model = GCN((FEATURES, 8, CLASSES))
    found = simulate(clients(2), methods, model=model, seeds=[1, 2], epochs=2)
    return replace(found, settings=replace(found.settings, dataset=HOSTILE))


def test_a_runs_page_holds_its_scores_alphas_and_bytes() -> None:
    found = run_example()
    outline = Outline(render_page(run_page.document(found)))
    rows = [[text for text, _ in row] for row in outline.rows]
    for result in found.summary.results[3:]:
        spread = result.accuracy
        assert spread.std is not None
        shown_ = f"{100 * spread.mean:.2f} ± {100 * spread.std:.2f}"
        if result.reading != "local":
            assert any(row[0] == result.method and row[2] == shown_ for row in rows)
    for client in range(2):
        alphas = [seed[client] for seed in found.summary.alpha.per_seed]
        mean = sum(alphas) / 2
        assert [f"Client {client}", f"{mean:.3f}", *(f"{a:.3f}" for a in alphas)] in rows
    for client in range(2):
        trials = [trial for trial in found.trials if trial.method == "pace"]
        local, adopted = (
            sum(accuracy(trial.counts[reading][client]) for trial in trials) / 2
            for reading in ("local", "adopted")
        )
        mean = sum(trial.alphas[client] for trial in trials) / 2
        numbers = [f"{100 * local:.1f} → {100 * adopted:.1f}", f"{mean:.2f}"]
        assert [str(client), "", *numbers] in rows
    sent = found.summary.bytes
    cell = f"{sent.returned:,.0f}{100 * sent.return_ratio:.1f} % of dense"
    assert any(row[0] == "pace" and cell in row for row in rows)
    assert HOSTILE in outline.texts
    assert outline.handlers == []
    assert all(link.startswith(("#", "data:")) for link in outline.links)


def test_best_and_second_are_marked_by_what_is_displayed() -> None:
    assert ranked([0.5, 0.70001, 0.7, 0.6]) == ["", "best", "best", "second"]
    assert ranked([0.5]) == [""]


def test_a_result_that_is_none_is_named(tmp_path: Path) -> None:
    for content in (b'{"dataset": "x"}', b"[]", b"null", b"\x89PNG" + 5000 * b"\0"):
        (tmp_path / "results.json").write_bytes(content)
        with pytest.raises(FileError, match=r"results\.json") as caught:
            RunResult.read(tmp_path)
        assert len(str(caught.value)) < 500
