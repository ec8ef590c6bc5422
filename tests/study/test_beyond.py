"""What is beyond the paper against PACE: every number of its tables, worked out from made-up cells."""

import statistics
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from pace.reports.table import Table
from pace.reports.trial import Trial
from pace_study.beyond import (
    ELSEWHERE,
    ELSEWHERE_LINE,
    LEVELS,
    METHODS,
    OTHER_GRAPHS,
    Beyond,
    judged_aims,
    ridge_tables,
)
from pace_study.cell import Cell, Store
from pace_study.outcome import Outcome
from pace_study.scores import Harm, score_cells
from pace_study.study import BEYOND, OWN, PACE, PARTS, REGRESSIONS, RIDGE, STEPS, chosen, narrowed
from pace_study.tables import frame_table

SEEDS = [104729, 130363]
LOCAL = 70  # right of a hundred nodes, at each of two clients
RIGHT = {  # of each client after adoption, by method; the second seed has one node more
    "pace": (72, 69),
    "pace-duo": (74, 70),
    "pace-duo:level=1": (75, 69),
    "pace-duo:level=0.2": (71, 70),
    "pace-duo:level=0.05": (70, 70),
    "pace-ridge": (78, 74),
    "pace-ridge-sums": (77, 74),
}
BYTES = {"pace": (1000, 900)}  # others: half


def counts(right: int) -> torch.Tensor:
    return torch.tensor([[right, 100 - right], [0, 0]])


EVERY = [row.method for row in BEYOND]


def write(
    folder: Path, methods: Sequence[str] = EVERY, part: str = "beyond-metis", data: str = "cora"
) -> Store:
    store = Store(folder / "cells")
    for cell in PARTS[part].cells(SEEDS):
        if cell.dataset != data or cell.method not in methods:
            continue
        more = SEEDS.index(cell.seed)
        right = RIGHT.get(cell.method, (70, 70))
        confusions = {
            "local": [counts(LOCAL)] * 2,
            "external": [counts(50)] * 2,
            "adopted": [counts(each + more) for each in right],
        }
        up, down = BYTES.get(cell.method, (500, 450))
        sizes = [up] * 2, [down] * 2, 9
        areas: dict[str, list[float | None]] = {
            reading: [0.5 + 0.1 * more] * 2 for reading in confusions
        }
        trial = Trial(cell.method, cell.seed, [0.5, 0.5], confusions, *sizes, {}, roc_auc=areas)
        store.write(cell, trial, epochs=None, device="cpu")
    return store


def study(store: Store) -> Beyond:
    return Beyond(score_cells(store), SEEDS)


def texts(table: Table) -> list[list[str]]:
    return [[value.text for value in row] for row in table.rows]


def test_a_setting_by_hand(tmp_path: Path) -> None:
    settings = study(write(tmp_path)).settings()
    assert list(settings.index) == ["Cora, metis, C = 10"]
    found = settings.iloc[0]
    assert found.accuracy == pytest.approx(statistics.fmean([72.0, 73.0]), abs=1e-3)
    assert found.interval_pace == pytest.approx((1.5, 1.5), abs=1e-3)
    assert found.over_pace == pytest.approx(1.5, abs=1e-3)
    assert found.over_local == pytest.approx(2.5, abs=1e-3)
    assert found.harm_local.harmed == 0
    assert found.worst_local == pytest.approx(0.5, abs=1e-3)
    assert (found.upload, found.returned) == (0.5, 0.5)


def test_pace_itself_and_the_lines(tmp_path: Path) -> None:
    found = study(write(tmp_path))
    pace = found.settings(PACE).iloc[0]
    assert (pace.harm_local.harmed, pace.harm_local.receivers) == (
        0,
        2,
    )  # below Local on one of two seeds only
    assert pace.worst_local == pytest.approx(-0.5, abs=1e-3)
    labels = list(found.lines(STEPS[1:]).index)
    assert labels[0] == "PACE"
    assert labels[-1] == "pace-duo"
    assert list(found.lines(LEVELS).index) == ["1", "0.5", "0.2", "0.05"]
    free = found.lines(LEVELS).iloc[0]
    assert (free.harm_local.harmed, free.harm_local.receivers) == (0, 2)
    assert free.over_local == pytest.approx(2.5, abs=1e-3)


def test_aims_are_judged_both_ways(tmp_path: Path) -> None:
    assert all(
        aim.verdict == "holds" for aim in judged_aims("duo", study(write(tmp_path / "good")))
    )
    RIGHT["pace-duo"], kept = (68, 68), RIGHT["pace-duo"]
    BYTES["pace-duo"] = (530, 450)
    try:
        found = judged_aims("duo", study(write(tmp_path / "bad")))
    finally:
        RIGHT["pace-duo"] = kept
        del BYTES["pace-duo"]
    assert not any(aim.verdict == "holds" for aim in found)
    assert "-2.50 (Cora, metis, C = 10)" in found[0].evidence
    assert "2 against 0 of 2, by more than one node 2 against 0" in found[3].evidence


def test_the_closed_form_is_judged_both_ways(tmp_path: Path) -> None:
    good = study(write(tmp_path / "good"))
    assert all(aim.verdict == "holds" for aim in judged_aims("ridge", good))
    assert list(good.lines(METHODS).index) == [
        *("PACE", "pace-duo", "pace-ridge", "pace-ridge-sums")
    ]
    ridge, sums, alone = (line for _, line in good.lines(REGRESSIONS).iloc[:3].iterrows())
    assert ridge.over_pace == pytest.approx(5.5, abs=1e-3)
    assert sums.over_pace == pytest.approx(5.0, abs=1e-3)
    assert alone.over_local == pytest.approx(0.5, abs=1e-3)
    (row,) = texts(ridge_tables(good)[2])
    assert row[:6] == ["Cora, metis, C = 10", "70.00", "71.00", "72.50", "76.50", "+5.50"]
    assert row[10:14] == ["0", "0", "0", "0"]
    RIGHT["pace-ridge"], kept = (68, 68), RIGHT["pace-ridge"]
    BYTES["pace-ridge"] = (1001, 450)
    try:
        found = judged_aims("ridge", study(write(tmp_path / "bad")))
    finally:
        RIGHT["pace-ridge"] = kept
        del BYTES["pace-ridge"]
    judged = {aim.statement.split(":")[0]: True for aim in found if aim.verdict != "holds"}
    assert list(judged) == ["pace-ridge"]
    assert sum(aim.verdict != "holds" for aim in found) == 4


def test_redrawn_masks_are_one_value_a_draw_and_no_draw_that_was_tuned_on(tmp_path: Path) -> None:
    store = write(tmp_path, ["pace", "pace-ridge"], "beyond-masks")
    scores = score_cells(store)
    early = (scores.method == "pace-ridge") & (scores.data_seed == 0)
    scores.loc[early, "accuracy"] += 1.0
    found = Beyond(scores, SEEDS).settings(RIDGE, (PARTS["beyond-masks"],)).iloc[0]
    values = [6.5, 5.5, 5.5, 5.5, 5.5]  # draws 0 and 6 to 9, each the mean of two seeds
    half = 2.7764451 * statistics.stdev(values) / 5**0.5
    assert found.over_pace == pytest.approx(statistics.fmean(values), abs=1e-3)
    assert found.interval_pace == pytest.approx((5.7 - half, 5.7 + half), abs=1e-3)


def test_harmed_is_on_three_of_five_trials() -> None:
    lost = np.array([[-1, -1, -3, 0], [-1, 0, -3, 0], [-1, 0, -3, 0], [0, 0, 5, 0], [0, 0, 5, -9]])
    assert Harm.of(lost) == Harm(harmed=2, by_more=0, receivers=4)
    assert Harm.of(lost - np.array([1, 0, 3, 0])) == Harm(harmed=2, by_more=2, receivers=4)
    assert Harm.of(lost, same=False) == Harm(harmed=8, by_more=4, receivers=20)


def test_other_graphs_have_a_line_for_each_method(tmp_path: Path) -> None:
    store = write(tmp_path, part="beyond-twitch", data="twitch")
    found = study(store)
    rows = texts(frame_table(OTHER_GRAPHS, found.compared(ELSEWHERE), ELSEWHERE_LINE, names=2))
    assert [row[1] for row in rows] == [
        "Local",
        "PACE",
        "pace-duo",
        "pace-ridge",
        "pace-ridge-sums",
    ]
    local, pace, _, ridge, _ = rows
    assert local[2:5] == ["70.00", "+0.00", "-1.00"]
    assert pace[3] == "+1.00"
    assert ridge == [
        *("twitch, column, C = 7", "pace-ridge", "76.50", "+6.50", "+5.50", "+5.50 to +5.50"),
        *("55.00", "0 of 2 (0)", "+4.50", "50.0 %", "50.0 %"),
    ]
    assert found.settings().empty  # no part of the 25 settings


def test_a_graph_of_ones_own_joins_every_part_but_those_of_a_column() -> None:
    names = {
        part.name: part.datasets for part in narrowed(chosen(["beyond"]), ["mine.graph"], None)
    }
    assert set(names) == {part.name for part in chosen(["beyond"])} - {"beyond-twitch"}
    assert set(names.values()) == {("mine.graph",)}
    (twitch,) = narrowed(chosen(["beyond"]), ["twitch"], None)
    assert (twitch.name, twitch.datasets) == ("beyond-twitch", ("twitch",))


def test_nothing_is_said_of_what_was_not_run(tmp_path: Path) -> None:
    found = study(write(tmp_path, ["local", "pace"]))
    assert judged_aims("duo", found) == []
    assert found.lines(STEPS[1:]).empty
    assert found.settings().empty


def test_tables_and_figure_are_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="figures need the extra `report`")
    store = write(tmp_path)
    Outcome(chosen(["beyond"]), store, SEEDS).write(tmp_path, [])
    text = (tmp_path / "tables" / "beyond.md").read_text()
    assert "| Cora, metis, C = 10 | 70.00 | 71.00 | 72.50 | +1.50 |" in text
    assert (tmp_path / "figures" / "guard.png").stat().st_size > 5000
    closed_form = (tmp_path / "tables" / "ridge.md").read_text()
    assert "| Cora, metis, C = 10 | 70.00 | 71.00 | 72.50 | 76.50 | +5.50 |" in closed_form
    assert "| own rows only: nothing is sent |" in closed_form


def test_beyond_is_all_three_partitions_and_other_graphs_and_not_part_of_the_paper() -> None:
    names = [part.name for part in chosen(["beyond"])]
    assert names == [
        *("beyond", "beyond-metis", "beyond-dirichlet", "beyond-masks"),
        *("beyond-heterophilous", "beyond-twitch"),
    ]
    assert not set(OWN) & {part.name for part in chosen(["all"])}
    settings = {
        (cell.dataset, cell.partition, cell.clients)
        for part in chosen(["beyond"])
        for cell in part.cells(SEEDS)
    }
    assert len(settings) == 25 + 6
    assert all(isinstance(cell, Cell) for part in chosen(["beyond"]) for cell in part.cells(SEEDS))
