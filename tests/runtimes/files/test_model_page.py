"""A site's own page: its numbers are those of the model on the nodes it says, and no node is on it."""

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from sklearn.metrics import confusion_matrix, precision_score, recall_score

from pace.datasets import Names
from pace.errors import FileError
from pace.runtimes.files import merge, model
from tests.browser import needs_chromium
from tests.graphs import CLASSES, clients, none
from tests.sites import NAMES, WORDS, adopt_at, fit_at, job, write_graph
from tests.studies import HOSTILE

if TYPE_CHECKING:
    from playwright.sync_api import Browser

READINGS = ("local", "external", "adopted")
CALLED = ("red", HOSTILE, "blue", "grey")


def site_of(folder: Path, *, without: tuple[str, ...] = (), **settings: object) -> Path:
    """North's model of three sites; `without` are masks that north's graph has no nodes in."""
    agreed = job(classes=CALLED, **settings)
    names = Names(classes=CALLED, features=WORDS.features)
    for name, graph in zip(NAMES, clients(len(NAMES)), strict=True):
        if name == "north":
            empty: dict[str, Any] = dict.fromkeys(without, none(graph.nodes))
            graph = replace(graph, **empty)
        (folder / name).mkdir(parents=True)
        nodes = tuple(f"patient-{place}" for place in range(graph.nodes))
        write_graph(folder / name / "mine.graph", graph, replace(names, nodes=nodes))
        if (settings.get("minimum"), name) == (2, "west"):
            continue  # it never sends
        fit_at(agreed, folder / name, folder / f"{name}.up")
    merge.merge_files(agreed, [folder], journal=folder / "journal", out=folder / "out")
    adopt_at(agreed, folder / "north", folder / "out")
    return folder / "north" / "mine.model"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return site_of(tmp_path_factory.mktemp("sites"), minimum=2, epochs=30)


def text_of(folder: Path) -> str:
    """What a reader sees, tags taken out."""
    page = (folder / model.PAGE).read_text()
    return unescape(re.sub(r"<[^>]*>", " ", page[page.index("<main") :]))


def cells(folder: Path) -> list[list[str]]:
    page = (folder / model.PAGE).read_text()
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", page, re.DOTALL)
    return [
        [unescape(re.sub(r"<[^>]*>", "", cell)).strip() for cell in re.split(r"</t[hd]>", row)[:-1]]
        for row in rows
    ]


def test_counts_by_class_are_scikit_learns_on_the_test_nodes_alone(made: Path) -> None:
    graph = clients(len(NAMES))[0]
    found = model.read_model(made)
    adoption, every = found(graph), list(range(CLASSES))
    truth = graph.y[graph.test].numpy()
    called = {
        "local": adoption.local[graph.test].argmax(1).numpy(),
        "adopted": adoption.logits[graph.test].argmax(1).numpy(),
    }
    for reading, guess in called.items():
        counts = found.outcome.test.readings[reading]
        assert (counts.confusion == confusion_matrix(truth, guess, labels=every)).all()
        assert sum(each.nodes for each in counts.bins) == len(truth)
        assert sum(each.hits for each in counts.bins) == (truth == guess).sum()
    rows = {row[0]: row for row in cells(made) if len(row) == 8 and row[0] in CALLED}
    scores = [
        score(truth, guess, labels=every, average=None, zero_division=0)
        for score in (recall_score, precision_score)
        for guess in called.values()
    ]
    for label, name in enumerate(CALLED):
        nodes = int((truth == label).sum())
        assert rows[name][1] == str(nodes)
        for place, values in enumerate(scores, start=2):
            if rows[name][place] != "–":
                assert rows[name][place] == f"{100 * values[label]:.1f}"
    assert f"On {int(graph.test.sum())} test nodes" in text_of(made)


def test_it_says_what_was_adopted_who_was_in_and_what_left(made: Path) -> None:
    text, about = text_of(made), model.read_model(made).outcome
    assert about.decision in text
    readings = about.validation.readings
    nll = ", ".join(f"{name} {readings[name].nll:.4f}" for name in READINGS)
    assert nll in text
    assert "✓ holds" in text
    assert "Merged: north, south (2 of 3; the server's word, not signed)." in text
    assert "Missing: west." in text
    record = json.loads((made.parent / "north.egress.json").read_text())
    assert f"{record['bytes']:,} bytes" in text
    assert "north.egress.html says what left the site" in text


def test_no_node_and_no_markup_of_a_class_is_on_it(made: Path) -> None:
    for name in (model.PAGE, model.ABOUT):
        assert "patient-" not in (made / name).read_text()
    page = (made / model.PAGE).read_text()
    assert HOSTILE not in page
    assert HOSTILE in text_of(made)


def counted(confusion: list[list[int]], bins: Sequence[dict[str, float]] = ()) -> dict[str, Any]:
    """Scores of one node, the same of every reading."""
    of = {"mask": "test", "nodes": 1, "classes": len(confusion)}
    return of | {reading: {"confusion": confusion, "bins": bins} for reading in READINGS}


@pytest.mark.parametrize(
    ("part", "damage"),
    [
        ("test", counted([[0]])),
        ("test", counted([[0] * 4] * 3)),
        ("test", counted([[-1, 1, 0, 0], *[[0] * 4] * 3])),
        ("test", counted([[0] * 4] * 4, [{"nodes": 1, "hits": 1, "confidence": 0.5}])),
        ("test", counted([[10**30] * 4] * 4)),
        ("test", counted([[0] * 4] * 4) | {"local": {}}),
        ("test", []),
        ("alpha", float("inf")),
        ("drawn", "half"),
        ("format", 9),
    ],
)
def test_damage_is_named(made: Path, tmp_path: Path, part: str, damage: object) -> None:
    shutil.copytree(made, tmp_path / "torn")
    found = json.loads((made / model.ABOUT).read_text())
    (tmp_path / "torn" / model.ABOUT).write_text(json.dumps(found | {part: damage}))
    with pytest.raises(FileError, match=r"model\.json (is damaged|has format 9)"):
        model.read_model(tmp_path / "torn")


def test_without_labels_to_count_it_says_so(tmp_path: Path) -> None:
    folder = site_of(tmp_path, without=("val", "test"))
    text = text_of(folder)
    assert "Local kept: without validation nodes there is nothing to decide by" in text
    assert "no labelled validation or test nodes" in text
    assert "– cannot be judged" in text


def test_without_test_nodes_validation_is_counted_and_named(tmp_path: Path) -> None:
    folder = site_of(tmp_path, without=("test",), method="pace-ridge")
    text = text_of(folder)
    assert "Validation nodes (there are no test nodes)" in text
    assert "of another kind than Local" in text
    assert "of another kind than Local" in (folder / "README.md").read_text()


def test_what_is_promised_is_measured_on_nodes_that_no_model_was_fitted_to(tmp_path: Path) -> None:
    """In the end `pace-full` fits Local to validation labels: there it is too good to compare."""
    folder = site_of(tmp_path, method="pace-full")
    made = model.read_model(folder).outcome
    assert set(made.rehearsed) == {"local", "adopted"}
    assert made.rehearsed["local"] > (made.validation.local.nll or 0)
    text = text_of(folder)
    assert "labelled nodes that neither was fitted to, what is used has no higher NLL" in text
    values = f"local {made.rehearsed['local']:.4f}, adopted {made.rehearsed['adopted']:.4f}."
    assert f"models fitted on either half, on the other: {values}" in text


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_in_a_browser_it_is_silent_fits_and_can_be_read(
    browser: "Browser", made: Path, width: int, scheme: Literal["light", "dark"]
) -> None:
    said: list[str] = []
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    address = (made / model.PAGE).as_uri()
    page.on("request", lambda request: said.append(request.url))
    page.goto(address)
    assert [text for text in said if not text.startswith("data:")] == [address]
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.locator("svg").first.is_visible()
    scale = page.evaluate("document.querySelector('svg').getScreenCTM().a")
    assert 10.5 * scale >= 10  # the smallest letters of a chart, in pixels
    names = "[...document.querySelectorAll('tbody th')].filter(e => e.scrollWidth > e.clientWidth)"
    assert page.evaluate(f"{names}.map(e => e.textContent)") == []  # none runs into the next column
    cut = page.locator(".scroll.more:visible")  # one in a closed fold has its cue there
    assert cut.count() == page.locator(".cue:visible").count()
    assert cut.count() > 0 or width == 1280
    sheets = len(re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True)))
    assert sheets < page.locator("main > section").count()  # sections follow each other
    page.emulate_media(media="print")
    assert not page.locator(".cue").first.is_visible()
    page.close()
