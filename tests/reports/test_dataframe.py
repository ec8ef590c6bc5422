"""Results as rows: against the what the command printed."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import pace
from pace.errors import FileError, SettingError
from pace.reports import tidy_frame
from pace.task import SCORES

pytest.importorskip("pandas", reason="the extra report is not installed")

ROOT = Path(__file__).parents[2]
SMALL = "synthetic:nodes=300,features=50,communities=6"


def test_a_run_s_rows_are_what_it_printed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from pace.cli import main; main()", "run", "--dataset", SMALL]
    words = ["--clients", "3", "--epochs", "5", "--seeds", "2", "--hidden", "16", "--out", "mine"]
    subprocess.run([*command, *words], check=True, capture_output=True, cwd=tmp_path)
    found = json.loads((tmp_path / "mine" / "results.json").read_text())
    run = pace.RunResult.read(tmp_path / "mine")
    table = run.frame()
    assert set(table.hidden) == {16}
    assert set(table.layers) == {2}
    assert set(table.epochs) == {5}
    assert len(table) == 2 * len(found["results"])
    for result in found["results"]:
        rows = table[(table.method == result["method"]) & (table.reading == result["reading"])]
        for score in SCORES:
            assert rows[score].tolist() == result[score]["per_seed"]
    adopted = table[(table.method == "pace") & (table.reading == "adopted")]
    (told,) = (r for r in found["results"] if (r["method"], r["reading"]) == ("pace", "adopted"))
    assert adopted.upload.mean() == pytest.approx(told["upload"]["mean"])
    each = run.frame("client").query("method == 'pace'")
    stored = [trial for trial in found["trials"] if trial["method"] == "pace"]
    chosen = each[each.reading == "adopted"]
    assert chosen.alpha.tolist() == [alpha for trial in stored for alpha in trial["alphas"]]


def test_refusals_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileError, match=r"results\.json not found: name a folder that `pace run"):
        pace.RunResult.read(tmp_path)
    with pytest.raises(SettingError, match="by is 'node', expected one of seed, client"):
        tidy_frame([], by="node")
    (tmp_path / "results.json").write_bytes(b"\x89PNG" + 5000 * b"\0")
    with pytest.raises(FileError, match=r"results\.json is not a result .{,200}: run it again"):
        pace.RunResult.read(tmp_path)
    (tmp_path / "results.json").write_text('{"dataset": "x"}')
    with pytest.raises(FileError, match=r"results\.json is not a result .*: run it again"):
        pace.RunResult.read(tmp_path)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(SettingError, match=r"needs pandas: pip install 'pace-fgl\[report\]'"):
        tidy_frame([], by="seed")


def test_pandas_is_imported_by_the_call_alone() -> None:
    """Whoever has no pandas can import the package; test_layers says that no other file does."""
    source = (ROOT / "src" / "pace" / "reports/trial.py").read_text()
    at_once = [node for node in ast.parse(source).body if isinstance(node, ast.Import)]
    assert "pandas" not in {alias.name for node in at_once for alias in node.names}
