"""Results as rows: against the README's table, the stored cells and what the command printed."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pace
from pace.errors import FileError, SettingError
from pace.metrics import SCORES, pooled
from pace.reports.dataframe import BY
from pace_study.folder import cells
from pace_study.study import NAMES
from tests.blocks import blocks
from tests.studies import SEEDS, trial, write_study

pytest.importorskip("pandas", reason="the extra report is not installed")

ROOT = Path(__file__).parents[2]
SMALL = "synthetic:nodes=300,features=50,communities=6"


def test_the_page_s_lines_make_the_readme_s_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/results-in-pandas.md, on the committed study."""
    monkeypatch.chdir(ROOT)
    (lines,) = (
        block.text
        for block in blocks(ROOT / "docs" / "results-in-pandas.md")
        if block.mark("run by") is not None
    )
    names: dict[str, Any] = {"pace": pace}
    exec(lines, names)
    made = names["accuracy"]
    readme = (ROOT / "README.md").read_text()
    heads, *_ = re.findall(r"^\| \|(.*)\|$", readme, re.M)
    compared = 0
    for method, label in {"local": "Local", **NAMES, "pace": "PACE"}.items():
        (line,) = re.findall(rf"^\| {label} \|(.*)\|$", readme, re.M)
        for dataset, printed in zip(heads.split("|"), line.split("|"), strict=True):
            row = made.loc[method, dataset.strip().lower()]
            assert printed.replace("*", "").strip() == f"{row['mean']:.2f} ± {row['std']:.2f}"
            compared += 1
    assert compared == 55


def test_a_study_s_rows_are_its_cells(tmp_path: Path) -> None:
    write_study(tmp_path)
    table = pace.results(tmp_path)
    assert list(table.columns) == list(BY["seed"])
    found = list(cells(tmp_path))
    assert len(table) == sum(1 if cell.method == "local" else 3 for cell, _ in found)
    assert set(table.seed) == set(SEEDS)
    assert table[table.method != "pace"]["rank"].isna().all()
    assert set(table[table.method == "pace"]["rank"].dropna()) == {2, 4, 6, 8}
    for cell, _ in found[::7]:
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
            counts = pooled(stored.confusions[row.reading])
            assert [row[name] for name in SCORES] == [score(counts) for score in SCORES.values()]
            expected = {"local": 0.0, "external": 1.0}.get(row.reading)
            mean = sum(stored.alphas) / len(stored.alphas) if expected is None else expected
            assert row.alpha == pytest.approx(mean)
            assert (row.upload, row.dense, row.fit) == (stored.upload[0], 9000, 1.0)


def test_clients_pool_to_the_row_of_their_seed(tmp_path: Path) -> None:
    write_study(tmp_path)
    keys = ["dataset", "clients", "data_seed", "method", "rank", "seed", "reading"]
    table = pace.results(tmp_path, by="client")
    assert list(table.columns) == list(BY["client"])
    table["correct"] = table.accuracy * table.test_nodes
    sums = table.groupby(keys, dropna=False)[["correct", "test_nodes", "alpha", "client"]]
    pooled_again = sums.sum().correct / sums.sum().test_nodes
    by_seed = pace.results(tmp_path).set_index(keys).sort_index()
    assert len(by_seed) == len(pooled_again)
    assert abs(pooled_again.to_numpy() - by_seed.accuracy.to_numpy()).max() < 1e-6
    assert abs(sums.mean().alpha.to_numpy() - by_seed.alpha.to_numpy()).max() < 1e-9


def test_a_run_s_rows_are_what_it_printed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from pace.cli import main; main()", "run", "--dataset", SMALL]
    words = ["--clients", "3", "--epochs", "5", "--seeds", "2", "--hidden", "16", "--out", "mine"]
    subprocess.run([*command, *words], check=True, capture_output=True, cwd=tmp_path)
    found = json.loads((tmp_path / "mine" / "results.json").read_text())
    table = pace.results(tmp_path / "mine")
    assert set(table.hidden) == {16}
    assert set(table.layers) == {2}
    assert set(table.epochs) == {5}
    assert len(table) == 2 * len(found["results"])
    for result in found["results"]:
        rows = table[(table.method == result["method"]) & (table.reading == result["reading"])]
        for score in SCORES:
            assert rows[score].tolist() == result[score]["per_seed"]
    adopted = table[(table.method == "pace") & (table.reading == "adopted")]
    assert adopted.upload.mean() == pytest.approx(found["bytes"]["upload"])
    each = pace.results(tmp_path / "mine", by="client").query("method == 'pace'")
    chosen = each[each.reading == "adopted"]
    assert chosen.alpha.tolist() == [a for seed in found["alpha"]["per_seed"] for a in seed]


def test_refusals_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileError, match=r"has neither cells/ .* nor results\.json"):
        pace.results(tmp_path)
    with pytest.raises(SettingError, match="by is 'node', expected one of seed, client"):
        pace.results(tmp_path, by="node")
    (tmp_path / "results.json").write_bytes(b"\x89PNG" + 5000 * b"\0")
    with pytest.raises(FileError, match=r"results\.json is not a result .{,200}: run it again"):
        pace.results(tmp_path)
    (tmp_path / "results.json").write_text('{"dataset": "x"}')
    with pytest.raises(FileError, match=r"results\.json is not a result .*: run it again"):
        pace.results(tmp_path)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(SettingError, match=r"needs pandas: pip install 'pace-fgl\[report\]'"):
        pace.results(tmp_path)


def test_pandas_is_imported_by_the_call_alone() -> None:
    """Whoever has no pandas can import the package; test_layers says that no other file does."""
    source = (ROOT / "src" / "pace" / "reports/dataframe.py").read_text()
    at_once = [node for node in ast.parse(source).body if isinstance(node, ast.Import)]
    assert "pandas" not in {alias.name for node in at_once for alias in node.names}
