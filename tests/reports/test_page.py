"""The page: nothing on it that is not in the data, nothing in the data that can act on it."""

import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import pytest
import torch

from pace.errors import FileError
from pace.methods import make
from pace.models.networks import GCN
from pace.reports import (
    Beside,
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
    Reliability,
    Section,
    Table,
    Text,
    Value,
    render_page,
)
from pace.reports.document import Change, Changes
from pace.reports.run_result import RunResult, ranked, run_document, verdict
from pace.reports.trial import Trial
from pace.runtimes.simulation import simulate
from pace.task import Bin, accuracy
from tests.graphs import CLASSES, FEATURES, clients
from tests.studies import HOSTILE, png


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
    blocks = (
        Text(text),
        Code(text),
        Facts(((text, text),)),
        Findings((Finding(text, "holds", text),)),
        table,
        Figure(text, text, png(2, 2)),
        Fold(text, (Text(text),)),
        Drilldown((text,), {(text,): table}),
        Beside((Confusion(text, (text, text), ((3, 0), (1, 2))),)),
        Reliability(text, (Bin(0, 0, 0.2), Bin(12_346, 6_173, 0.7))),
        Changes(text, (Change(text, 0.4, 0.7, 0.5),), text),
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
    rows = (Change("a", 0.62, 0.74, 0.5), Change("b", 0.81, 0.68, 1.0))
    text = render_page(Document("t", "l", (), (Section("s", (Changes("c", rows, "n"),)),)))
    assert "<span>60 %</span><span>90 %</span>" in text
    assert '--before:0.0667;--after:0.4667"><i class="way gain">' in text
    assert '--before:0.7000;--after:0.2667"><i class="way loss">' in text
    assert "62.0 → 74.0" in text
    one = (Changes("c", (Change("a", 1.0, 1.0, 0.0),), "n"),)
    assert "<span>90 %</span><span>100 %</span>" in render_page(
        Document("t", "l", (), (Section("s", one),))
    )


def run_example() -> RunResult:
    methods = {name: make(name, 2) for name in ("local", "fedavg", "pace")}
    model = GCN((FEATURES, 8, CLASSES))
    found = simulate(clients(2), methods, model=model, seeds=[1, 2], epochs=2)
    return replace(found, settings=replace(found.settings, dataset=HOSTILE))


def test_a_runs_page_holds_its_scores_alphas_and_bytes() -> None:
    found = run_example()
    outline = Outline(render_page(run_document(found)))
    rows = [[text for text, _ in row] for row in outline.rows]
    for result in found.summary[3:]:
        spread = result.spreads["accuracy"]
        assert spread.std is not None
        shown_ = f"{100 * spread.mean:.2f} ± {100 * spread.std:.2f}"
        if result.reading != "local":
            assert any(row[0] == result.method and row[2] == shown_ for row in rows)
    for client in range(2):
        trials = [trial for trial in found.trials if trial.method == "pace"]
        local, adopted = (
            sum(accuracy(trial.counts[reading][client]) for trial in trials) / 2
            for reading in ("local", "adopted")
        )
        mean = sum(trial.alphas[client] for trial in trials) / 2
        numbers = [f"{100 * local:.1f} → {100 * adopted:.1f}", f"{mean:.2f}"]
        assert [str(client), "", *numbers] in rows
    sent, dense = (found.summary[-1].spreads[name].mean for name in ("returned", "dense"))
    cell = f"{sent:,.0f} B{100 * sent / dense:.1f}%"
    assert any(row[0] == "pace" and cell in row for row in rows)
    assert HOSTILE in outline.texts
    assert outline.handlers == []
    assert all(link.startswith(("#", "data:")) for link in outline.links)


def test_cards_and_sentence_are_the_most_accurate_methods() -> None:
    """Whatever its name: each trial has one client of four test nodes, of which so many are right."""

    def of(method: str, **right: int) -> Trial:
        counts = {
            reading: [torch.tensor([[hits, 4 - hits], [0, 0]])] for reading, hits in right.items()
        }
        return replace(first, method=method, counts=counts, alphas=[0.25])

    found = run_example()
    first = replace(found.trials[-1], upload=[1], returned=[1], roc_auc={})
    long = "my_methods.ties:Ties:density=0.3"
    trials = (
        of("pace", local=2, external=2, adopted=2),
        of(long, local=2, external=1, adopted=3),
        of("fedavg", local=2, external=4, adopted=1),
    )
    setup = found.settings.setups["pace"]
    setups = {"pace": setup, long: {**setup, "gate": "Guarded"}, "fedavg": setup}
    run = replace(found, settings=replace(found.settings, setups=setups), trials=trials)
    assert run_document(run).headline[:3] == (
        ("50.00 %", "accuracy of its Local"),
        ("75.00 %", f"accuracy with {long}"),
        ("+25.00", "points gained"),
    )
    assert f"{long} is the most accurate of 3 methods" in verdict(run)
    assert "by +25.00 points" in verdict(run)
    readings = {row[0].text: row[1].text for row in run.table().rows}  # of each the last
    assert readings == {"pace": "α by CNLL", long: "α by guarded mixture", "fedavg": "α by CNLL"}
    worse = replace(run, trials=trials[2:])
    assert run_document(worse).headline[2] == ("-25.00", "points lost")
    assert '<dd class="loss">-25.00</dd>' in render_page(run_document(worse))


def test_a_run_says_which_gate_chose() -> None:
    methods = {name: make(name) for name in ("local", "pace", "pace-ridge", "pace-full")}
    found = simulate(clients(2), methods, seeds=[1], epochs=2)
    chosen = {row[0].text: row[1].text for row in found.table().rows}
    assert chosen == {
        "local": "α = 0, its own model",
        "pace": "α by CNLL",
        "pace-ridge": "α by mixture",
        "pace-full": "α by guarded mixture",
    }


def test_best_and_second_are_marked_by_what_is_displayed() -> None:
    assert ranked([0.5, 0.70001, 0.7, 0.6]) == ["", "best", "best", "second"]
    assert ranked([0.5]) == [""]


def test_a_result_that_is_none_is_named(tmp_path: Path) -> None:
    for content in (b'{"dataset": "x"}', b"[]", b"null", b"\x89PNG" + 5000 * b"\0"):
        (tmp_path / "results.json").write_bytes(content)
        with pytest.raises(FileError, match=r"results\.json") as caught:
            RunResult.read(tmp_path)
        assert len(str(caught.value)) < 500
