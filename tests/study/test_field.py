"""The field's table, worked out by hand from made-up cells; its ranks, page and newcomers."""

import json
import math
import re
from pathlib import Path

import pandas as pd
import pytest
import torch
from scipy.stats import friedmanchisquare, ttest_rel
from sklearn.metrics import roc_auc_score
from torch.nn.functional import cross_entropy

from pace.cli.run import run_against
from pace.errors import ProblemsError
from pace.protocol import Federation
from pace.reports import Trial
from pace.training import train
from pace_study import membership
from pace_study.cell import Cell, Store
from pace_study.controls import study_method
from pace_study.field import (
    asked_table,
    critical_difference,
    field_settings,
    full_aims,
    ranked,
    ranks,
    summary_table,
)
from pace_study.outcome import Outcome
from pace_study.page import write_study_page
from pace_study.scores import score_cells
from pace_study.study import (
    ALONE,
    CORE,
    FIELD,
    FRESH_DRAWS,
    FULL,
    LABELS_CORE,
    LOCAL,
    PACE,
    REFERENCES,
    RIDGE,
    SEEDS,
    Part,
    Row,
    chosen,
    moved,
    narrowed,
)
from tests.preloaded import Preloaded

ROOT = Path(__file__).parents[2]
ROWS = (LOCAL, PACE, RIDGE, FULL, ALONE)
RIGHT = {"local": 60, "pace": 64, "pace-ridge": 70, "pace-full": 74, "alone": 71, "pace-duo": 99}


def write(
    folder: Path, places: dict[tuple[str, str], tuple[str, ...]], lost: int = 0, draws: int = 10
) -> pd.DataFrame:
    """Two clients of a hundred test nodes; `lost` nodes less at the second client of pace-full."""
    store = Store(folder / "cells")
    for (dataset, partition), methods in places.items():
        for method in methods:
            for draw in FRESH_DRAWS[:draws]:
                right = RIGHT[method] + (draw % 3) * (method == "pace-full")
                both = [right, right - lost * (method == "pace-full")]
                counts = [torch.tensor([[n, 100 - n], [0, 0]]) for n in both]
                local = [torch.tensor([[60, 40], [0, 0]])] * 2
                readings = {"local": local, "external": counts, "adopted": counts}
                if method == "local":
                    readings = dict.fromkeys(readings, local)
                errors = dict.fromkeys(readings, 0.2 if method == "local" else 0.05)
                trial = Trial(
                    *(method, SEEDS[0], [0.5, 0.5], readings, [2000] * 2, [1000] * 2, 9),
                    {"fit": 1.0, "merge": 0.5, "adopt": 0.25},
                    ece=errors,
                )
                cell = Cell(dataset, partition, 10, method, 6, SEEDS[0], draw)
                store.write(cell, trial, epochs=None, device="cpu")
    return score_cells(Store(folder / "cells"))


EVERY = tuple(row.method for row in ROWS)
TWO = {("cora", "louvain"): EVERY, ("citeseer", "metis"): EVERY}


def test_a_line_by_hand(tmp_path: Path) -> None:
    found = field_settings(write(tmp_path, TWO), ROWS, SEEDS[:1]).set_index(["setting", "label"])
    line = found.loc["Cora, louvain, C = 10", FULL.label]
    draws = [74.0 + draw % 3 for draw in FRESH_DRAWS]
    assert line.accuracy == pytest.approx(sum(draws) / 10, abs=1e-4)
    test = ttest_rel(draws, [60.0] * 10).confidence_interval()
    assert line.interval_local == pytest.approx((test.low, test.high), abs=1e-4)
    assert line.over_alone == pytest.approx(sum(draws) / 10 - 71, abs=1e-4)
    assert (line.ece, line.seconds) == pytest.approx((0.05, 1.75))
    assert (line.upload, line.returned, line.draws) == (2000, 1000, 10)
    assert str(line.harm_local) == "0 of 2 (0)"


def test_a_row_is_shown_from_three_draws_on(tmp_path: Path) -> None:
    assert field_settings(write(tmp_path / "two", TWO, draws=2), ROWS, SEEDS[:1]).empty
    found = field_settings(write(tmp_path / "three", TWO, draws=3), ROWS, SEEDS[:1])
    assert set(found.draws) == {3}


def test_rows_with_other_draws_are_compared_on_those_they_share(tmp_path: Path) -> None:
    """pace-full has ten draws, the others three: 74, 75 and 76 on data seeds 12, 10 and 11."""
    folder = tmp_path / "a"
    write(folder, TWO, draws=3)
    scores = write(folder, dict.fromkeys(TWO, ("pace-full",)))
    settings = field_settings(scores, ROWS, SEEDS[:1])
    found = settings.set_index(["setting", "label"]).loc["Cora, louvain, C = 10", FULL.label]
    draws = [74.0 + draw % 3 for draw in FRESH_DRAWS]
    assert (found.draws, found.accuracy) == (10, pytest.approx(sum(draws) / 10, abs=1e-4))
    assert found.over_local == pytest.approx(sum(draws[:3]) / 3 - 60, abs=1e-4)
    kept = ranked(settings, ROWS).set_index(["setting", "label"]).accuracy
    assert kept["Cora, louvain, C = 10", FULL.label] == pytest.approx(sum(draws[:3]) / 3, abs=1e-4)
    (aim, *_) = full_aims(settings)
    assert f"{sum(draws[:3]) / 3 - 70:+.2f} over 2 settings" in aim.evidence


def test_a_method_that_sends_its_model_tells_what_its_loss_tells(tmp_path: Path) -> None:
    """FedAvg's upload is Local: the AUC by scikit-learn of each node's own loss."""
    graphs, model = membership._setting()
    federation = Federation(model, study_method("fedavg"), SEEDS[0])
    expected = []
    for graph in graphs:
        local = train(graph, model, federation.start, recipe=federation.recipe, seed=SEEDS[0])
        nodes = torch.cat([graph.train.nonzero().flatten(), graph.test.nonzero().flatten()])
        loss = cross_entropy(model(local, graph).logits[nodes], graph.y[nodes], reduction="none")
        expected.append(roc_auc_score(graph.train[nodes].numpy(), -loss.detach().numpy()))
    found = membership.add_membership(tmp_path, ["fedavg", "fens"])  # FENS sends Local too
    for method in ("fedavg", "fens"):
        assert found[method] == pytest.approx(sum(expected) / len(expected), abs=1e-3)
    assert membership.read_membership(tmp_path) == found
    settings = field_settings(write(tmp_path, TWO), ROWS, SEEDS[:1])
    settings["membership"] = settings.method.map({"pace-full": 0.87})
    table = summary_table(settings, ROWS)
    at = [column.head for column in table.columns].index("Membership AUC")
    assert {row[0].text: row[at].text for row in table.rows}[FULL.label] == "0.87"


def test_harm_is_counted_against_the_site_alone(tmp_path: Path) -> None:
    scores = write(tmp_path, TWO | {("cora", "dirichlet"): EVERY}, lost=10)
    found = field_settings(scores, ROWS, SEEDS[:1]).set_index(["setting", "label"])
    assert str(found.loc["Cora, louvain, C = 10", FULL.label].harm_alone) == "1 of 2 (1)"
    # Another Dirichlet draw has other clients: each is counted by itself.
    assert str(found.loc["Cora, dirichlet, C = 10", FULL.label].harm_alone) == "10 of 20 (10)"
    settings = field_settings(scores, ROWS, SEEDS[:1])
    judged = {aim.statement: aim.verdict == "holds" for aim in full_aims(settings)}
    assert not judged["pace-full: at most a tenth of receivers harmed against a site alone"]
    assert judged["pace-full: calibration error at most half of Local's"]


def test_ranks_are_over_the_settings_that_core_rows_have(tmp_path: Path) -> None:
    places = TWO | {("pubmed", "louvain"): ("local", "pace-duo")}
    scores = write(tmp_path, places)
    settings = field_settings(scores, ROWS, SEEDS[:1], own=True)
    assert "pace-duo" in set(settings.label)
    kept = ranked(settings, ROWS)
    assert kept.setting.nunique() == 2
    assert ranks(kept).to_dict() == {
        FULL.label: 1,
        ALONE.label: 2,
        RIDGE.label: 3,
        PACE.label: 4,
        LOCAL.label: 5,
    }
    places = {key: (*methods, "pace-duo") for key, methods in TWO.items()}
    joined = field_settings(write(tmp_path / "b", places), ROWS, SEEDS[:1], own=True)
    assert ranks(ranked(joined, ROWS))["pace-duo"] == 1
    assert summary_table(joined, ROWS).rows[0][0].text == "pace-duo"


def test_the_critical_difference_is_nemenyis() -> None:
    """Demšar (2006), table 5: q is 2.569 for four and 3.164 for ten; and Friedman's ranks."""
    assert critical_difference(4, 14) == pytest.approx(2.569 * math.sqrt(20 / 84), abs=2e-3)
    assert critical_difference(10, 30) == pytest.approx(3.164 * math.sqrt(110 / 180), abs=2e-3)
    values = [[80.0, 70.0, 75.0], [60.0, 65.0, 61.0], [50.0, 40.0, 45.0], [90.0, 80.0, 85.0]]
    frame = pd.DataFrame(
        [
            {"setting": str(place), "label": label, "accuracy": value}
            for place, row in enumerate(values)
            for label, value in zip("abc", row, strict=True)
        ]
    )
    mean = ranks(frame)
    squares = sum((rank - 2) ** 2 for rank in mean) * 12 * 4 / (3 * 4)
    statistic, _ = friedmanchisquare(*zip(*values, strict=True))
    assert squares == pytest.approx(statistic)


def test_tables_and_page_are_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="figures need the extra `report`")
    write(tmp_path, TWO)
    text = write_study_page(tmp_path, SEEDS[:1]).read_text()
    assert "pace run --methods package.module:Class --against field" in text
    assert "citeseer" in text.lower()
    Outcome(chosen(["labels", "field"]), Store(tmp_path / "cells"), SEEDS[:1]).write(tmp_path, [])
    labels = (tmp_path / "tables" / "labels.md").read_text()
    assert "| Cora, louvain, C = 10 | pace-full |" in labels
    assert "What pace-full set out to do" in labels
    assert (tmp_path / "tables" / "field.csv").read_text().count("\n") == 11


def test_the_settings_that_were_asked_for_are_shown_together(tmp_path: Path) -> None:
    places = {("cora", "louvain"): EVERY, ("cora", "metis"): EVERY, ("citeseer", "metis"): EVERY}
    settings = field_settings(write(tmp_path, places), ROWS, SEEDS[:1])
    parts = narrowed(chosen(["field", "field-metis"]), ["cora"], None)
    table = asked_table(settings, parts)
    found = [[cell.text for cell in row[:2]] for row in table.rows]
    assert {setting for setting, _ in found} == {"Cora, louvain, C = 10", "Cora, metis, C = 10"}
    assert found[0] == ["Cora, louvain, C = 10", FULL.label]  # the most accurate of its setting


def test_a_run_against_the_field_adds_a_method_to_its_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = "synthetic:nodes=150,features=12,communities=3,classes=3"
    run_against(
        "field",
        methods="local,alone,fedavg,spear,pace-duo:level=0.2",
        datasets=graph,
        partition="dirichlet",
        clients=2,
        epochs=2,
        device="cpu",
        out=tmp_path,
        as_json=True,
    )
    assert json.loads(capsys.readouterr().out)["computed"] == 5 * len(FRESH_DRAWS)
    text = (tmp_path / "tables" / "field.md").read_text()
    assert text.count(f"| {graph}, dirichlet, C = 2 |") == 6  # SPEAR with and without the gate
    assert "| pace-duo:level=0.2 |" in text
    assert "SPEAR + gate" in (tmp_path / "index.html").read_text()


def test_a_run_against_the_field_takes_what_a_study_leaves_open(
    pace: Preloaded, tmp_path: Path
) -> None:
    """Nothing that was asked for is passed over."""
    graph = "synthetic:nodes=150,features=12,communities=3,classes=3"
    words = ["--against", "field", "--dataset", graph, "--methods", "spear", "--out", "results"]
    done = pace("run", *words, "--seeds", "3", "--model", "gat", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err == "pace: --against keeps to the study's protocol: leave out --model, --seeds\n"
    assert not list(tmp_path.iterdir())
    done = pace("run", *words, "--clients", "3", "--epochs", "1", "--json", cwd=tmp_path)
    assert json.loads(done.out)["computed"] == 4 * len(FRESH_DRAWS)
    assert {cell.clients for cell in Store(tmp_path / "results" / "cells").rows} == {3}


def test_a_run_against_the_field_leaves_the_papers_claims_as_they_are(
    pace: Preloaded, tmp_path: Path
) -> None:
    """It has one seed; what the paper's tables have is judged on all that are stored."""
    graph = "synthetic:nodes=150,features=12,communities=10,classes=3"
    small = ["--datasets", graph, "--epochs", "1", "--json"]
    words = ["main", "--methods", "local,pace", "--seeds", "2", *small]
    assert pace("reproduce", *words, cwd=tmp_path).code == 0
    before, page = (
        (tmp_path / "results" / name).read_text() for name in ("claims.md", "index.html")
    )
    options = ["--partition", "dirichlet", "--clients", "2"]
    done = pace(
        "reproduce", "field", "--methods", "local", *options, "--seeds", "1", *small, cwd=tmp_path
    )
    assert json.loads(done.out)["computed"] == len(FRESH_DRAWS)
    assert (tmp_path / "results" / "claims.md").read_text() == before
    after = (tmp_path / "results" / "index.html").read_text()
    for text in (page, after):
        assert "Ten clients, Louvain" in text
        assert " ± " in text  # over two seeds


def test_a_graph_that_is_a_function_joins_the_field(pace: Preloaded, tmp_path: Path) -> None:
    """Whose name was typed is allowed to run, as with `pace run`; and in each process."""
    page = (ROOT / "docs" / "add-a-dataset.md").read_text()
    (code,) = re.findall(r"<!-- file: ring.py -->\n```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "ring.py").write_text(code)
    words = ["--datasets", "ring:ring:nodes=60", "--methods", "local,pace", "--epochs", "1"]
    done = pace("reproduce", "field-metis", *words, "--jobs", "2", "--json", cwd=tmp_path)
    assert json.loads(done.out)["computed"] == 2 * len(FRESH_DRAWS)


def test_settings_that_a_graph_cannot_have_are_named_and_the_others_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    divides = "synthetic:nodes=200,features=12,communities=9,classes=3"
    refuses = "synthetic:nodes=24,features=12,communities=2,classes=3"
    settings = {
        "partition": "louvain",
        "clients": 25,
        "epochs": 2,
        "device": "cpu",
        "out": tmp_path,
    }
    run_against("field", methods="local,pace", datasets=f"{divides},{refuses}", **settings)
    told = capsys.readouterr()
    assert f"Not run: {refuses}, louvain, 25 clients: clients is 25, expected 1 to 24" in told.err
    shown = [line for line in told.out.splitlines() if "PACE" in line]
    assert len(shown) == 1
    with pytest.raises(
        ProblemsError, match=r"nothing of this can be run:\n  synthetic.*: clients is 25"
    ):
        run_against("field", methods="local,pace", datasets=refuses, **settings)


def test_what_takes_minutes_has_three_draws_unless_others_are_asked_for() -> None:
    def draws(dataset: str, method: str, parts: list[Part]) -> set[int]:
        cells = {cell for part in parts for cell in part.cells(SEEDS[:1])}
        places = (cell for cell in cells if (cell.dataset, cell.method) == (dataset, method))
        return {cell.data_seed for cell in places if cell.clients == 30}

    field, asked = chosen(["field"]), moved(["field"], None, None, ["15"])
    assert draws("cora", "pace", field) == set(FRESH_DRAWS)
    for place in (("cs", "pace"), ("cora", "fedavg-rounds")):
        assert draws(*place, field) == set(FRESH_DRAWS[:3])
        assert draws(*place, asked) == {15}


def test_ones_own_method_partition_and_graph_join_the_field() -> None:
    (part,) = narrowed(moved(["field"], "metis", 5), ["mine.graph"], ["package.module:Own"])
    assert part.rows == (Row("package.module:Own", "package.module:Own"),)
    cells = part.cells(SEEDS[:1])
    assert {(cell.dataset, cell.partition, cell.clients) for cell in cells} == {
        ("mine.graph", "metis", 5)
    }
    assert [cell.data_seed for cell in cells] == list(FRESH_DRAWS)
    assert not narrowed(chosen(["labels"]), None, ["package.module:Own"])
    assert set(LABELS_CORE) < set(CORE) < set(FIELD)
    assert set(LABELS_CORE) < set(REFERENCES) < set(FIELD)
