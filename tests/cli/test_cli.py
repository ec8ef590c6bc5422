"""The command as a person or a program meets it: in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SMALL = "synthetic:nodes=300,features=50,communities=6"


def pace(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from pace.cli import program; program()", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return pace("run", "--dataset", SMALL, "--clients", "3", "--epochs", "5", *words)


def test_json_is_one_object_with_everything() -> None:
    done = run("--seeds", "2", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["dataset"] == SMALL
    assert found["partition"] == "louvain"
    assert found["clients"] == 3
    assert found["seeds"] == [104729, 130363]
    assert found["device"] in ("cpu", "cuda")
    readings = {(r["method"], r["reading"]) for r in found["results"]}
    assert readings == {("local", "local")} | {
        (method, reading)
        for method in ("fedavg", "pace", "pace-full")
        for reading in ("local", "external", "adopted")
    }
    for result in found["results"]:
        for score in ("accuracy", "weighted_f1", "macro_f1"):
            assert set(result[score]) == {"mean", "std", "per_seed"}
            assert len(result[score]["per_seed"]) == 2
        assert {"alpha", "kept_local", "upload", "returned"} < set(result)
        assert result["dense"]["mean"] == 4 * (50 * 64 + 64 + 64 * 6 + 6)
    assert [len(trial["alphas"]) for trial in found["trials"]] == [3] * 8


def test_the_same_command_gives_the_same_numbers() -> None:
    first, again = (json.loads(run("--seeds", "1", "--json").stdout) for _ in range(2))
    assert first["results"] == again["results"]
    for one, two in zip(first["trials"], again["trials"], strict=True):
        assert one["alphas"] == two["alphas"]


def test_a_person_sees_tables_and_gets_a_report(tmp_path: Path) -> None:
    done = run("--seeds", "1", "--out", str(tmp_path / "new" / "results"))
    assert done.returncode == 0, done.stderr
    assert "What receivers adopted" in done.stdout
    *tables, last = done.stdout.splitlines()
    assert max(map(len, tables)) <= 80
    assert last.startswith("Written: ")
    written = tmp_path / "new" / "results"
    assert sorted(path.name for path in written.iterdir()) == ["index.html", "results.json"]
    found = json.loads((written / "results.json").read_text())
    assert found["clients"] == 3
    assert found["command"].startswith("pace run --dataset synthetic:")
    page = (written / "index.html").read_text()
    assert f"{100 * found['results'][-1]['accuracy']['mean']:.2f}" in page


def test_a_study_ends_with_its_page(tmp_path: Path) -> None:
    words = ["--datasets", SMALL, "--seeds", "1", "--epochs", "2", "--methods", "local,pace"]
    done = pace("reproduce", "main", *words, "--out", "study", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "study/index.html" in done.stdout
    (command,) = json.loads((tmp_path / "study" / "commands.json").read_text())
    assert command in (tmp_path / "study" / "index.html").read_text()


def test_depth_width_rank_and_seeds_are_settings() -> None:
    done = run("--layers", "3", "--hidden", "16", "--rank", "2", "--seeds", "5,6", "--json")
    found = json.loads(done.stdout)
    assert found["settings"]["pace"]["model"]["widths"] == [50, 16, 16, 6]
    assert found["seeds"] == [5, 6]
    assert found["settings"]["pace"]["method"]["rank"] == 2


def test_numbers_on_the_wire_are_a_setting() -> None:
    found = {
        kind: json.loads(run("--numbers", kind, "--seeds", "1", "--json").stdout)
        for kind in ("float32", "int8")
    }
    assert found["int8"]["settings"]["pace"]["numbers"] == "int8"
    small, large = (
        {(r["method"], r["reading"]): r["returned"]["mean"] for r in found[kind]["results"]}
        for kind in ("int8", "float32")
    )
    assert small["pace", "adopted"] < 0.4 * large["pace", "adopted"]
    shown = run("--numbers", "int8", "--seeds", "1").stdout
    assert "3 clients, 1 seed, messages in int8" in " ".join(shown.split())


def test_a_partition_file_is_used_and_the_data_seed_is_its_own(tmp_path: Path) -> None:
    path = str(tmp_path / "p.json")
    divided = ["partition", "--dataset", SMALL, "--clients", "2", "--data-seed", "7", "--out", path]
    assert pace(*divided).returncode == 0
    words = ["--dataset", SMALL, "--partition-file", path, "--epochs", "0", "--seeds", "1"]
    done = pace("run", *words, "--out", str(tmp_path / "o"))
    assert "p.json, 2 clients, 1 seed" in " ".join(done.stdout.split())
    found = json.loads((tmp_path / "o" / "results.json").read_text())
    assert (found["clients"], found["data_seed"]) == (2, None)
    told = (tmp_path / "o" / "index.html").read_text()
    assert "data seed" not in told
    assert "own budget" not in told  # no training steps is a number of them


def test_a_dense_rank_is_a_full_model() -> None:
    found = json.loads(run("--rank", "dense", "--seeds", "1", "--json").stdout)
    (pace,) = (r for r in found["results"] if (r["method"], r["reading"]) == ("pace", "adopted"))
    assert 1 < pace["returned"]["mean"] / pace["dense"]["mean"] < 1.02


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "--dataset", "core"], "there is no dataset 'core'"),
        (["run", "--dataset", "synthetic:nodes=-1"], "nodes is -1"),
        (["run", "--methods", "pacee"], "did you mean 'pace'?"),
        (["run", "--methods", ","], "name at least one method"),
        (["run", "--partition", "louvein"], "did you mean 'louvain'?"),
        (["run", "--clients", "0"], "clients is 0"),
        (["run", "--clients", "100000"], "clients is 100000, expected 1 to 3000"),
        (["run", "--seeds", "many"], "--seeds is 'many'"),
        (["run", "--seeds", "7,7"], "twice"),
        (["run", "--seeds", "0"], "--seeds is '0'"),
        (["run", "--seeds", "9223372036854775808"], "below 2^63"),
        (["run", "--rank", "0"], "--rank is '0'"),
        (["run", "--numbers", "int4"], "'int4' is not one of 'float32', 'float16', 'int8'"),
        (["run", "--layers", "0"], "Invalid value for '--layers'"),
        (["run", "--hidden", "0"], "Invalid value for '--hidden'"),
        (["run", "--epochs", "-1"], "epochs is -1"),
        (["run", "--device", "tpu"], "'tpu' is not one of 'auto', 'cpu', 'cuda'"),
        (["run", "--sedes", "3"], "No such option"),
        (
            ["reproduce", "--datasets", "core", "--out", "nowhere"],
            "core: there is no dataset 'core'",
        ),
        (["reproduce", "--datasets", ",", "--out", "nowhere"], "leave nothing of the study"),
        (["rum"], "No such command"),
    ],
)
def test_bad_input_gets_one_clear_sentence_and_exit_code_2(words: list[str], says: str) -> None:
    done = pace(*words)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_help_waits_for_nothing_heavy() -> None:
    """`pace --help` is instant because it imports the parser of commands and our own files."""
    code = (
        "import sys; from pace.cli import main; sys.argv = ['pace', '--help']\n"
        "try: main()\n"
        "finally: print(*{name.split('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage: pace" in done.stdout
    loaded = set(done.stderr.split())
    assert "pace" in loaded
    heavy = "torch numpy scipy rich pandas pyarrow matplotlib safetensors jinja2 cryptography flwr"
    assert not loaded & {*heavy.split()}


def test_version_is_the_packages() -> None:
    from importlib.metadata import version

    assert pace("--version").stdout.strip() == version("pace-fgl")


def test_a_missing_extra_is_named_before_anything_is_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from pace.cli import given
    from pace.errors import SettingError

    monkeypatch.setattr(given, "find_spec", lambda name: None)
    with pytest.raises(SettingError, match=r"needs matplotlib: pip install 'pace-fgl\[report\]'"):
        given.need("pace reproduce", "pace-fgl[report]", "matplotlib")


def test_participants_are_listed_by_name_or_by_key(tmp_path: Path) -> None:
    from pace.cli import job
    from pace.errors import SettingError
    from pace.jobs import signatures

    key = signatures.new_keys(tmp_path / "east.key", tmp_path / "east.pub")
    public = str(tmp_path / "east.pub")
    assert job.keys_of(["north, ", f"up={public},{public}"], None, sealed=False) == (
        ("north", "up", "east"),
        {"up": key, "east": key},
        {},
    )
    assert job.edition_changes(None, [], None) is None
    changes = job.edition_changes([public], ["south"], None)
    assert changes is not None
    assert (changes.added, changes.removed) == ({"east": key}, ["south"])
    with pytest.raises(SettingError, match=r"--add is west, expected NAME\.pub, or NAME=KEY"):
        job.edition_changes([f"{public},west"], None, None)
