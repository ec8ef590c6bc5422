"""The study as a pandas table: against the README's table and the stored cells."""

import re
from pathlib import Path
from typing import Any

import pytest

from pace.errors import FileError
from pace.reports.trial import BY
from pace.task import SCORES, pooled
from pace_study.cell import Store
from pace_study.folder import results
from tests.blocks import blocks
from tests.studies import SEEDS, trial, write_study

ROOT = Path(__file__).parents[2]


def test_the_page_s_lines_make_the_readme_s_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/researcher.md, on the committed study."""
    monkeypatch.chdir(ROOT)
    (lines,) = (
        block.text
        for block in blocks(ROOT / "docs" / "researcher.md")
        if block.mark("run by") is not None
    )
    names: dict[str, Any] = {}
    exec(lines, names)
    made = names["accuracy"]
    readme = (ROOT / "README.md").read_text()
    heads, *_ = re.findall(r"^\| test accuracy[^|]*\|(.*)\|$", readme, re.M)
    compared = 0
    for method, label in {"local": "Local", "pace": "PACE", "pace-ridge": "`pace-ridge`"}.items():
        (line,) = re.findall(rf"^\| {label}: [^|]*\|(.*)\|$", readme, re.M)
        for dataset, printed in zip(heads.split("|"), line.split("|"), strict=True):
            row = made.loc[method, dataset.strip().lower()]
            assert printed.replace("*", "").strip() == f"{row['mean']:.2f} ± {row['std']:.2f}"
            compared += 1
    assert compared == 15
    sent = names["main"][names["adopted"] & names["main"].method.eq("pace-ridge")]
    cora = sent[sent.dataset.eq("cora")]
    assert round((cora.upload + cora.returned).mean() / 1000) == 70
    assert round(100 * 2 * cora.dense.mean() / 1e6) == 74


def test_a_study_s_rows_are_its_cells(tmp_path: Path) -> None:
    write_study(tmp_path)
    table = results(tmp_path)
    assert list(table.columns) == list(BY["seed"])
    found = list(Store(tmp_path / "cells").rows)
    assert len(table) == sum(1 if cell.method == "local" else 3 for cell in found)
    assert set(table.seed) == set(SEEDS)
    assert table[table.method != "pace"]["rank"].isna().all()
    assert set(table[table.method == "pace"]["rank"].dropna()) == {2, 4, 6, 8}
    for cell in found[::7]:
        stored = trial(cell)
        same = table[
            (table.dataset == cell.dataset)
            & (table.clients == cell.clients)
            & (table.data_seed == cell.data_seed)
            & (table.method == cell.method)
            & (table.seed == cell.seed)
        ]
        if cell.method == "pace":
            same = same[same["rank"].eq(cell.rank) if cell.rank else same["rank"].isna()]
        for _, row in same.iterrows():
            counts = pooled(stored.counts[row.reading])
            assert [row[name] for name in SCORES] == [score(counts) for score in SCORES.values()]
            expected = {"local": 0.0, "external": 1.0}.get(row.reading)
            mean = sum(stored.alphas) / len(stored.alphas) if expected is None else expected
            assert row.alpha == pytest.approx(mean)
            assert (row.upload, row.dense, row.fit) == (stored.upload[0], 9000, 1.0)


def test_clients_pool_to_the_row_of_their_seed(tmp_path: Path) -> None:
    write_study(tmp_path)
    keys = ["dataset", "clients", "data_seed", "method", "rank", "seed", "reading"]
    table = results(tmp_path, by="client")
    assert list(table.columns) == list(BY["client"])
    table["correct"] = table.accuracy * table.test_nodes
    sums = table.groupby(keys, dropna=False)[["correct", "test_nodes", "alpha", "client"]]
    pooled_again = sums.sum().correct / sums.sum().test_nodes
    by_seed = results(tmp_path).set_index(keys).sort_index()
    assert len(by_seed) == len(pooled_again)
    assert abs(pooled_again.to_numpy() - by_seed.accuracy.to_numpy()).max() < 1e-6
    assert abs(sums.mean().alpha.to_numpy() - by_seed.alpha.to_numpy()).max() < 1e-9


def test_a_folder_without_cells_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="has no cells: write some with `pace reproduce --out"):
        results(tmp_path)
