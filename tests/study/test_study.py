"""The study: cells that resume, statistics that are SciPy's, tables that are the paper's."""

import json
import math
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from pace.errors import FileError, SettingError
from pace.reports.table import Table
from pace.reports.trial import READINGS, Trial
from pace.task import SCORES
from pace_study import run, tables
from pace_study.cell import JOURNAL, STEPS, Cell, Store
from pace_study.figures import gains
from pace_study.outcome import Outcome
from pace_study.scores import Draws, score, score_cells, t_interval, win_tie_loss
from pace_study.study import AVAILABLE, OWN, PARTS, SEEDS, UNPUBLISHED, Row, chosen, moved, narrowed
from pace_study.tables import (
    beside,
    known_draws,
    measured,
    part_tables,
    published,
    show_beside,
    show_ours,
)

SMALL = "synthetic:nodes=300,features=40,communities=12"
HOW = run.How(epochs=3)


def small(name: str) -> list[str]:
    return ["--datasets", SMALL, "--methods", name, "--seeds", "2", "--epochs", "3"]


def reproduce(*words: str) -> list[str]:
    return [sys.executable, "-c", "from pace.cli import main; main()", "reproduce", *words]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small study, undisturbed."""
    out = tmp_path_factory.mktemp("study")
    words = ["all", *small("local,fedavg,pace,ablations"), "--out", str(out)]
    subprocess.run(reproduce(*words), check=True, capture_output=True)
    return out


def files(out: Path, *kinds: str) -> dict[str, bytes]:
    found = [path for kind in kinds for path in (out / kind).rglob("*") if path.is_file()]
    return {str(path.relative_to(out)): path.read_bytes() for path in found}


# Killed as the fifth cell has been stored and the sixth has been begun.
KILLED = """
import os, signal
from pace_study.cell import Store

stored, write = [], Store.write

def last(self, *given, **how):
    if len(stored) == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    stored.append(write(self, *given, **how))

Store.write = last
from pace.cli import main
main()
"""


def test_a_killed_study_resumes_to_the_same_tables_byte_for_byte(
    folder: Path, tmp_path: Path
) -> None:
    words = ["main", "rank", *small("local,fedavg,pace"), "--out", str(tmp_path)]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, "reproduce", *words], capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    survived = len(Store(tmp_path / "cells").rows)
    assert survived == 5
    again = subprocess.run(reproduce(*words, "--json"), check=True, capture_output=True, text=True)
    found = json.loads(again.stdout)
    assert found["reused"] == survived
    assert found["computed"] > 0
    undisturbed = files(folder, "tables", "figures")
    resumed = files(tmp_path, "tables", "figures")
    assert {"tables/main.md", "tables/rank.csv", "figures/rank.pdf"} < set(resumed)
    assert resumed == {name: undisturbed[name] for name in resumed}
    assert not (tmp_path / "cells" / JOURNAL).exists()


def test_a_second_run_computes_nothing(folder: Path) -> None:
    words = ["all", *small("local,fedavg,pace,ablations"), "--out", str(folder), "--json"]
    done = subprocess.run(reproduce(*words), check=True, capture_output=True, text=True)
    assert json.loads(done.stdout)["computed"] == 0


def test_stored_cells_alone_give_the_same_tables(folder: Path, tmp_path: Path) -> None:
    """Of all parts that anything is stored of; what is missing is not computed."""
    out = tmp_path / "kept"
    shutil.copytree(folder / "cells", out / "cells")
    words = ["--stored", "--methods", "local,fedavg,pace,ablations", "--out", str(out), "--json"]
    done = subprocess.run(reproduce(*words), check=True, capture_output=True, text=True)
    assert json.loads(done.stdout)["computed"] == 0
    assert Store(out / "cells").rows == Store(folder / "cells").rows
    again, undisturbed = files(out, "tables", "figures"), files(folder, "tables", "figures")
    assert again == undisturbed
    assert (out / "index.html").is_file()
    assert not (out / "commands.json").exists()


def test_draws_are_the_ones_asked_for() -> None:
    parts = moved(["field-metis", "main"], None, None, ["11", "12"])
    assert {part.data_seeds for part in parts} == {(11, 12)}
    with pytest.raises(SettingError, match="--draws is 'x', expected data seeds like 10,11"):
        moved(["field"], None, None, ["x"])


def test_two_processes_store_what_one_does(folder: Path, tmp_path: Path) -> None:
    words = ["main", *small("local,pace"), "--out", str(tmp_path), "--jobs", "2"]
    subprocess.run(reproduce(*words), check=True, capture_output=True)
    one, two = Store(folder / "cells").rows, Store(tmp_path / "cells").rows
    assert len(two) == 2 * 2 * 1
    for cell, row in two.items():
        assert {**row, **dict.fromkeys(STEPS)} == {**one[cell], **dict.fromkeys(STEPS)}


def test_processes_tell_of_each_cell(tmp_path: Path) -> None:
    """Those of one place, too, which one process computes."""
    told: list[Cell] = []
    cells = [cell(method=method, data_seed=draw) for method in ("local", "pace") for draw in (1, 2)]
    run.compute(cells, Store(tmp_path), HOW, jobs=2, done=told.append)
    assert len(told) == 4
    assert set(told) == set(cells)


def cell(**changes: object) -> Cell:
    plain = Cell(SMALL, "louvain", 10, "pace", 6, SEEDS[0], 2024)
    return replace(plain, **changes)  # type: ignore[arg-type]


def trial(name: str = "pace", seed: int = SEEDS[0], shift: int = 0) -> Trial:
    """Two clients, two classes; `shift` of ten test nodes are moved from wrong to right.

    External errs on all of the second client, so that no reading can be taken for another.
    """
    before = torch.tensor([[3, 2], [2, 3]])
    after = torch.tensor([[3 + shift, 2 - shift], [2, 3]])
    none = torch.tensor([[0, 5], [5, 0]])
    confusions = {"local": [before, before], "external": [after, none], "adopted": [after, before]}
    return Trial(name, seed, [0.5, 0.0], confusions, [20, 20], [10, 10], 100, {"fit": 1.0})


def test_workers_end_with_a_parent_that_was_killed() -> None:
    program = (
        "import time; from pace_study.run import workers; pool = workers(1, print); "
        "pool.submit(print, 'at work', flush=True); time.sleep(600)"
    )
    study = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert study.stdout is not None
    assert study.stdout.readline() == b"at work\n"
    study.kill()
    study.communicate(timeout=60)  # ends when nobody holds the other end


def test_a_cell_comes_back_as_it_was_stored(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(cell(), trial(shift=1), epochs=None, device="cpu")
    back = store.read(cell())
    assert back is not None
    assert back.alphas == [0.5, 0.0]
    for reading, clients in trial(shift=1).counts.items():
        for ours, theirs in zip(back.counts[reading], clients, strict=True):
            assert torch.equal(ours, theirs)
    assert (back.upload, back.returned, back.dense) == ([20, 20], [10, 10], 100)


def test_folding_moves_the_journal_into_the_files_and_changes_no_cell(tmp_path: Path) -> None:
    store = Store(tmp_path)
    cells = [cell(), cell(seed=1), cell(dataset="mine.graph"), cell(rank=None)]
    for place, each in enumerate(cells):
        store.write(each, trial(shift=place % 3), epochs=None, device="cpu")
    before = Store(tmp_path).rows
    store.fold()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted({c.file for c in cells})
    assert Store(tmp_path).rows == store.rows == before
    store.write(cells[0], trial(shift=2), epochs=7, device="cpu")
    store.fold()
    after = Store(tmp_path).rows
    assert after.pop(cells[0])["epochs"] == 7
    assert after == {each: row for each, row in before.items() if each != cells[0]}


def test_cells_of_any_file_are_read_and_a_fold_leaves_each_in_its_own(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    store = Store(tmp_path)
    cells = [cell(), cell(partition="dirichlet:alpha=0.1"), cell(data_seed=10), cell(data_seed=11)]
    for each in cells:
        store.write(each, trial(), epochs=None, device="cpu")
    store.fold()
    rows = Store(tmp_path).rows
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(files) == 3
    parquet.write_table(parquet.read_table(tmp_path), tmp_path / "all.parquet")
    (tmp_path / cells[0].file).unlink()
    assert Store(tmp_path).rows == rows
    Store(tmp_path).fold()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files


def test_a_fold_that_was_interrupted_is_done_again(tmp_path: Path) -> None:
    """Killed between a file's write and the journal's removal: nothing is lost or doubled."""
    store = Store(tmp_path)
    store.write(cell(), trial(), epochs=None, device="cpu")
    journal = (tmp_path / JOURNAL).read_bytes()
    store.fold()
    (tmp_path / JOURNAL).write_bytes(journal)
    assert list(Store(tmp_path).rows) == [cell()]
    Store(tmp_path).fold()
    assert not (tmp_path / JOURNAL).exists()
    assert list(Store(tmp_path).rows) == [cell()]


def test_areas_under_the_curve_come_back(tmp_path: Path) -> None:
    store = Store(tmp_path)
    areas: dict[str, list[float | None]] = {reading: [0.5, None] for reading in READINGS}
    store.write(cell(), replace(trial(), roc_auc=areas), epochs=None, device="cpu")
    store.fold()
    back = Store(tmp_path).read(cell())
    assert back is not None
    assert back.roc_auc == areas


def test_a_changed_setting_never_reuses_a_stale_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pace.methods.pace import Pace

    store = Store(tmp_path)
    store.write(cell(), trial(), epochs=None, device="cpu")
    assert store.has(cell(), None)
    assert not store.has(cell(), 50)
    for changed in (cell(rank=4), cell(seed=1), cell(clients=20), cell(data_seed=1)):
        assert not store.has(changed, None)
    with monkeypatch.context() as patched:
        slower = replace(Pace().recipe, rate=0.02)
        patched.setattr(Pace, "recipe", property(lambda self: slower))
        assert not store.has(cell(), None)
    assert store.has(cell(), None)
    monkeypatch.setattr(Pace, "version", Pace.version + 1)
    assert not store.has(cell(), None)


def test_a_dataset_file_that_changed_makes_its_cells_stale(tmp_path: Path) -> None:
    file = tmp_path / "mine.graph"
    file.write_bytes(b"one")
    mine = cell(dataset=str(file))
    store = Store(tmp_path / "cells")
    store.write(mine, trial(), epochs=None, device="cpu")
    assert store.has(mine, None)
    file.write_bytes(b"two")
    assert not store.has(mine, None)


@pytest.mark.parametrize("damage", [b"{", b"[]", b"\x89PNG", b'{"dataset": "cora"}'])
def test_a_line_cut_short_is_computed_again_and_harms_no_other(
    tmp_path: Path, damage: bytes
) -> None:
    store = Store(tmp_path)
    store.write(cell(seed=1), trial(), epochs=None, device="cpu")
    with (tmp_path / JOURNAL).open("ab") as journal:
        journal.write(damage)
    store.write(cell(seed=2), trial(), epochs=None, device="cpu")
    assert list(Store(tmp_path).rows) == [cell(seed=1), cell(seed=2)]


def test_a_file_that_holds_no_cells_is_named(tmp_path: Path) -> None:
    (tmp_path / "cora.parquet").write_bytes(b"\x89PNG")
    with pytest.raises(FileError, match=r"cora\.parquet holds no cells .*: remove it, then run"):
        Store(tmp_path).has(cell(), None)


def test_two_files_of_one_name_are_not_taken_for_each_other(tmp_path: Path) -> None:
    north, south = cell(dataset="north/mine.graph"), cell(dataset="south/mine.graph")
    store = Store(tmp_path)
    store.write(north, trial(), epochs=None, device="cpu")
    store.fold()
    assert [store.has(each, None) for each in (north, south)] == [True, False]


def test_missing_data_is_said_and_not_run(tmp_path: Path) -> None:
    part = replace(PARTS["main"], datasets=("nowhere", SMALL))
    todo, reused, absent = run.plan([part], SEEDS[:2], Store(tmp_path), run.How())
    assert {lacking.dataset for lacking in todo} == {SMALL}
    assert 2 * len(todo) == len(part.cells(SEEDS[:2]))
    assert reused == 0
    assert absent.keys() == {"nowhere"}
    assert "nowhere" in absent["nowhere"]


# --- statistics -------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 5, 10])
def test_intervals_are_scipys_paired_t(count: int) -> None:
    random = np.random.default_rng(count)
    first, second = random.normal(size=(2, count))
    theirs = stats.ttest_rel(first, second).confidence_interval(0.95)
    ours = t_interval((first - second).tolist())
    assert ours == pytest.approx((theirs.low, theirs.high))


def test_one_seed_has_no_interval() -> None:
    assert all(math.isnan(end) for end in t_interval([1.0]))


def test_a_hundredth_of_a_point_is_a_tie() -> None:
    assert win_tie_loss([0.02, 0.01, 0.0, -0.01, -0.02]) == (1, 3, 1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Five seeds of Local, FedAvg and PACE on Cora and CiteSeer, by hand."""
    made = Store(tmp_path)
    for dataset in ("cora", "citeseer"):
        for step, seed in enumerate(SEEDS):
            for method in ("local", "fedavg", "pace"):
                place = Cell(dataset, "louvain", 10, method, 6, seed, 2024)
                made.write(place, trial(method, seed, min(step, 2)), epochs=None, device="cpu")
    return made


MAIN = narrowed([PARTS["main"]], ["cora", "citeseer"], ["local", "fedavg", "pace"])[0]


def number(table: pd.DataFrame, dataset: str, method: str, metric: str = "accuracy") -> pd.Series:
    (row,) = (
        row
        for _, row in table.iterrows()
        if (row.dataset, row.method, row.metric) == (dataset, method, metric)
    )
    return row


def test_numbers_are_computed_from_the_confusions(store: Store) -> None:
    ours = number(measured(MAIN, score_cells(store), SEEDS), "Cora", "PACE")
    values = [60.0, 65.0, 70.0, 70.0, 70.0]
    assert ours["mean"] == pytest.approx(np.mean(values))
    assert ours["std"] == pytest.approx(np.std(values, ddof=1))


def test_scores_are_those_of_the_library(store: Store) -> None:
    """Of random confusion matrices with an empty class."""
    random = torch.Generator().manual_seed(0)
    for _ in range(20):
        counts = torch.randint(0, 9, (4, 4), generator=random)
        counts[3], counts[:, 3] = 0, 0
        theirs = {name: 100 * metric(counts) for name, metric in SCORES.items()}
        assert score(counts.numpy()) == pytest.approx(theirs, rel=1e-12)


def test_a_row_with_a_missing_seed_is_not_shown(store: Store) -> None:
    del store.rows[Cell("cora", "louvain", 10, "pace", 6, SEEDS[2], 2024)]
    found = measured(MAIN, score_cells(store), SEEDS)
    assert set(found[found.dataset == "Cora"].method) == {"Local", "FedAvg"}
    assert set(found[found.dataset == "CiteSeer"].method) == {"Local", "FedAvg", "PACE"}


def test_differences_are_paired_by_seed_and_receiver(store: Store) -> None:
    part = replace(PARTS["diagnostics"], datasets=("cora",))
    found = gains(part, score_cells(store), SEEDS).set_index("metric").loc["accuracy"]
    assert found.points == pytest.approx([0, 5, 10, 10, 10], abs=1e-4)
    assert found.won == (4, 1, 0)
    assert found.receivers[0] == pytest.approx([0, 10, 20, 20, 20], abs=1e-4)
    assert found.receivers[1] == pytest.approx([0] * 5)
    assert found.helped == (4, 6, 0)
    assert found.worst == 0


def test_a_draw_is_the_mean_over_the_first_three_seeds(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for data_seed, shift in ((0, 0), (1, 1), (2, 2), (3, 2)):
        for seed in SEEDS[: 3 if data_seed < 3 else 2]:  # the fourth is not whole
            place = Cell("cora", "louvain", 10, "pace", 6, seed, data_seed)
            store.write(place, trial(shift=shift), epochs=None, device="cpu")
        place = Cell("cora", "louvain", 10, "pace", 6, SEEDS[4], data_seed)
        store.write(place, trial(shift=2), epochs=None, device="cpu")  # a seed too many
    known = known_draws(score_cells(store), SEEDS)
    draws = known["Cora", "PACE", "accuracy", "louvain", 10]
    assert draws.values == pytest.approx((60, 65, 70))
    assert known.keys() >= {("Cora", "PACE", "mean_alpha", "louvain", 10)}
    assert ("Cora", "PACE", "accuracy", "louvain", 20) not in known


def test_the_interval_over_draws_is_where_one_more_would_fall() -> None:
    """Of ten thousand elevenths of normal draws, nineteen in twenty fall inside."""
    random = np.random.default_rng(0)
    inside = []
    for row in random.normal(3.0, 2.0, size=(10_000, 11)):
        low, high = Draws(tuple(row[:10])).interval
        inside.append(low <= row[10] <= high)
    assert np.mean(inside) == pytest.approx(0.95, abs=0.01)


def printed(mean: float, std: float = 0.5, row: str = "PACE") -> pd.DataFrame:
    """A number of ours in the main table."""
    place = {"table": "main", "dataset": "Cora", "method": row, "metric": "accuracy"}
    return pd.DataFrame([place | {"mean": mean, "std": std, "partition": "louvain", "clients": 10}])


CORA = ("Cora", "PACE", "accuracy", "louvain", 10)


def test_draws_and_seeds_together_explain_nineteen_differences_in_twenty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ours and the paper's: each one draw of the masks and five seeds, of one truth."""
    random = np.random.default_rng(1)
    explained = []
    for _ in range(800):
        draws = random.normal(0, 2.0, size=12)
        seeds = random.normal(0, 3.0, size=(2, 5))
        ours, paper = (
            printed(draw + s.mean(), s.std(ddof=1))
            for draw, s in zip(draws[10:], seeds, strict=True)
        )
        monkeypatch.setattr(tables, "published", lambda paper=paper: paper)
        (within,) = beside(ours, {CORA: Draws(tuple(draws[:10]))}).within_draws
        explained.append(within)
    assert 0.93 < explained.count(True) / len(explained) < 0.985  # t is for the fewer of the two


def test_what_rounds_to_the_same_number_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    still = {CORA: Draws((29.504,) * 10)}
    for theirs, within in ((29.5, True), (29.51, False)):
        monkeypatch.setattr(tables, "published", lambda theirs=theirs: printed(theirs, 0.0))
        assert beside(printed(29.504, 0.0), still).within_draws.tolist() == [within]


# --- tables -----------------------------------------------------------------------------------


def test_the_published_numbers_are_all_there() -> None:
    assert len(published()) == len(published().drop_duplicates(tables.NUMBER)) == 996


@pytest.mark.parametrize("name", [name for name, part in PARTS.items() if part.table])
def test_every_published_number_has_a_place_in_its_part(name: str) -> None:
    """The part's rows, datasets, metrics and client counts are exactly the paper's table."""
    part = PARTS[name]
    paper = published()
    theirs = set(paper[paper.table == part.table][tables.NUMBER].itertuples(index=False, name=None))
    ours = {
        (part.table, tables.title(dataset), row.label, metric, clients)
        for dataset in part.datasets
        for row in part.rows
        if row.method not in UNPUBLISHED
        for metric in part.metrics
        for clients in part.clients
    }
    if name == "rank":
        ours |= {
            (part.table, tables.CITATION_MEAN, row.label, metric, 10)
            for row in part.rows
            for metric in ("upload_percent", "downlink_percent")
        }
    assert ours == theirs


def example(*means: float) -> Table:
    rows = tuple(Row(f"m{place}", f"m{place}") for place in range(len(means)))
    part = replace(PARTS["main"], rows=rows, datasets=("cora",), metrics=("accuracy",))
    table = pd.concat([printed(mean, row=row.label) for row, mean in zip(rows, means, strict=True)])
    (made,) = part_tables(part, beside(table, {}), show_ours)
    return made


def test_best_and_second_are_distinct_displayed_means() -> None:
    marks = [row[1].mark for row in example(80.001, 80.004, 79.0, 78.0).rows]
    assert marks == ["best", "best", "second", ""]
    assert [row[1].mark for row in example(80.0).rows] == [""]


def test_markdown_marks_best_and_second() -> None:
    table = example(80, 79, 78)
    assert "| m0 | **80.00 ± 0.50** |" in table.markdown()
    assert "| m1 | <u>79.00 ± 0.50</u> |" in table.markdown()


def test_numbers_stand_beside_the_papers(store: Store) -> None:
    redrawn = {
        ("Cora", "PACE", "accuracy", "louvain", 10): Draws((78.0, 80.0, 82.0)),
        ("Cora", "Local", "accuracy", "louvain", 10): Draws((60.0, 61.0, 62.0)),
    }
    found = beside(measured(MAIN, score_cells(store), SEEDS), redrawn)
    pace = number(found, "Cora", "PACE")
    assert pace.published_mean == 80.34
    assert pace.difference == pytest.approx(67 - 80.34)
    assert pace.within_draws is True
    assert number(found, "Cora", "Local").within_draws is False
    assert number(found, "Cora", "FedAvg").within_draws is None
    (table,) = part_tables(MAIN, found, show_beside)
    texts = [value.text for row in table.rows for value in row]
    assert "67.00 ± 4.47 [70.06, 89.94] (80.34 ± 0.61) -13.34 ✓" in texts
    assert "60.00 ± 0.00 [56.03, 65.97] (79.16 ± 0.25) -19.16 ✗" in texts


def test_draws_of_ten_louvain_clients_lend_their_spread_to_other_settings(store: Store) -> None:
    part = replace(MAIN, datasets=("cora",), partition="metis")
    found = measured(replace(MAIN, datasets=("cora",)), score_cells(store), SEEDS)
    found = found.assign(table="metis", partition="metis")
    for spread, mark in ((0.1, "(✗)"), (5.0, "(✓)")):
        table = beside(found, {CORA: Draws((50 - spread, 50.0, 50 + spread))})
        assert number(table, "Cora", "PACE").borrowed
        (made,) = part_tables(part, table, show_beside)
        assert f"67.00 ± 4.47 (79.68 ± 0.25) -12.68 {mark}" in [
            value.text for row in made.rows for value in row
        ]


def test_a_row_holds_both_numbers() -> None:
    (row,) = beside(printed(80.0), {}).to_dict("records")
    assert row["mean"] == 80.0
    assert row["published_mean"] == 80.34
    assert row["difference"] == pytest.approx(-0.34)
    assert row["draws"] == 0


def test_every_format_is_written_and_readable(folder: Path) -> None:
    import csv

    for stem in ("main", "rank", "ablation", "communication", "fairness", "resolver", "macro-f1"):
        text = (folder / "tables" / f"{stem}.csv").read_text()
        rows = list(csv.DictReader(text.splitlines()))
        assert rows
    for name in ("rank", "transfer", "alpha", "bytes"):
        assert (folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (folder / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_absent_datasets_are_rows_that_say_so(store: Store, tmp_path: Path) -> None:
    part = narrowed([PARTS["main"]], ["cora", "ogbn-arxiv"], ["local", "pace"])[0]
    out = tmp_path / "out"
    Outcome([part], store, SEEDS).write(out, ["ogbn-arxiv"])
    assert "not run" in (out / "tables" / "main.md").read_text()


# --- what is asked for ------------------------------------------------------------------------


def test_all_is_every_part_of_the_paper() -> None:
    assert [part.name for part in chosen(["all"])] == [name for name in PARTS if name not in OWN]
    assert [part.name for part in chosen(["main", "main", "rank"])] == ["main", "rank"]


def test_an_unknown_part_is_answered_with_the_nearest() -> None:
    with pytest.raises(SettingError, match="did you mean 'dirichlet'"):
        chosen(["dirichlett"])


def test_ones_own_dataset_joins_every_part() -> None:
    (part,) = narrowed([PARTS["main"]], ["mine.graph", "cora"], None)
    assert part.datasets == ("mine.graph", "cora")
    assert narrowed([PARTS["metis"]], ["ogbn-arxiv"], None) == []
    assert PARTS["metis"].datasets == AVAILABLE


def test_seeds_are_computed_together_where_the_same_of_them_is_missing(tmp_path: Path) -> None:
    """And what is stored is what one seed at a time gives, whatever was there before."""
    cells = [
        Cell("synthetic:nodes=120,features=12", "louvain", 2, method, 6, seed, 2024)
        for seed in (1, 2, 3)
        for method in ("local", "pace")
    ]
    how = run.How(epochs=5)
    groups = run.with_seeds(run.by_place(cells[1:]))
    assert [len(group) for group in groups] == [1, 4]
    together, apart = Store(tmp_path / "together"), Store(tmp_path / "apart")
    run.compute(cells, together, how)
    for cell in cells:
        run.compute([cell], apart, how)
        one, other = together.read(cell), apart.read(cell)
        assert one is not None
        assert other is not None
        assert one.upload == other.upload
        assert one.alphas == pytest.approx(other.alphas, abs=1e-4)
