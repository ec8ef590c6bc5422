"""Flower's command as `pace flower` calls it; no Flower is needed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from pace.cli import flower
from pace.errors import FlowerError, SettingError
from pace.jobs.job_file import write_job
from pace.runtimes.flower import launch
from tests.preloaded import Preloaded
from tests.sites import job

FLWR = """#!{python}
import json, os, sys
said = dict(words=sys.argv[1:], home=os.environ["FLWR_HOME"])
said |= {{key: os.environ[key] for key in os.environ if key.startswith("FLWR_")}}
with open({log!r}, "a") as log:
    log.write(json.dumps(said) + "\\n")
traffic = {{"total-bytes": 7}}
run = {{"run-id": "5", "status": {status!r}, "elapsed": 1.0, "network-traffic": traffic}}
run["status-details"] = {why!r}
print(json.dumps({{"success": True, "run-id": "5", "runs": [run]}}))
"""


@pytest.mark.parametrize(
    ("status", "why", "code"),
    [("finished:completed", "N/A", 0), ("finished:failed", "2 of at least 3", 1)],
)
def test_a_run_that_failed_is_a_command_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str, why: str, code: int
) -> None:
    """People are told why it did."""
    program, log = tmp_path / "flwr", tmp_path / "log"
    program.write_text(FLWR.format(python=sys.executable, log=str(log), status=status, why=why))
    program.chmod(0o755)
    for name in ("ca.crt", "secret"):
        (tmp_path / name).write_text("x")
    write_job(tmp_path / "job.pace", job())
    server = ModuleType("server")
    server.play_run = lambda link, number, *_: (link.ended(number), None)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pace.runtimes.flower.server", server)
    monkeypatch.setattr(launch, "program", lambda name: str(program))
    monkeypatch.setattr(os, "environ", {**os.environ})
    monkeypatch.chdir(tmp_path)
    reach = ["--superlink", "127.0.0.1:1", "--root-certificates", "ca.crt"]
    play = ["run", "job.pace", *reach, "--secret", "secret"]
    done = CliRunner().invoke(flower.app, [*play, "--home", "home", "--json"])
    assert done.exit_code == code
    assert json.loads(done.stdout)["status"] == status
    assert CliRunner().invoke(flower.app, ["status", "5", *reach, "--json"]).exit_code == code
    for command in (play, ["status", "5", *reach]):
        shown = CliRunner().invoke(flower.app, command)
        assert shown.exit_code == code
        assert status in shown.stdout
        assert ("2 of at least 3" in shown.stdout) is bool(code)
        assert "N/A" not in shown.stdout
    for line in log.read_text().splitlines():
        said = json.loads(line)
        assert said["home"] in (str(tmp_path / "home"), str(tmp_path / ".pace-flower"))
        assert said.items() >= launch.QUIET.items()


def test_what_flower_says_is_told_without_the_box_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "flwr"
    program.write_text(
        "#!/bin/sh\nprintf 'Using SuperLink: pace\\n╭─ Error ─╮\\n│ No key. │\\n╰─────────╯\\n' >&2\n"
        "exit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(launch, "program", lambda name: str(program))
    (tmp_path / "ca.crt").touch()
    link = launch.Link("127.0.0.1:1", tmp_path / "ca.crt", tmp_path / "home")
    with pytest.raises(FlowerError, match=r"stop failed at 127.0.0.1:1, it said: Error No key$"):
        link.stop("5")


SEVERAL = """
import json, sys
replies = {{
    "new.pub": dict(success=True, **{{"node-id": 7}}),
    "old.pub": {{"success": False, "error-message": "Public key already in use."}},
}}
for line in sys.stdin:
    words = json.loads(line)
    reply = replies.get(words[2]) or sys.exit("cannot read the key")
    print(json.dumps(reply, indent=1) + "\\n\\n" + {end!r}, flush=True)
"""


def test_many_nodes_are_registered_by_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is new, one was registered before; with the third the process ends."""
    code = SEVERAL.format(end=launch.END)
    monkeypatch.setattr(launch, "program", lambda name: name)
    monkeypatch.setattr(launch, "several", lambda: [sys.executable, "-c", code])
    (tmp_path / "ca.crt").touch()
    link = launch.Link("127.0.0.1:1", tmp_path / "ca.crt", tmp_path / "home")
    named = [(name, Path(f"{name}.pub")) for name in ("new", "old", "none")]
    made = link.register(named)
    assert [next(made), next(made)] == [("new", "7"), ("old", "known already")]
    assert link.labels() == {"7": "new"}
    with pytest.raises(FlowerError, match=r"it said: cannot read the key$"):
        next(made)


def test_without_flower_the_command_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "ca.crt").touch()
    link = launch.Link("127.0.0.1:1", tmp_path / "ca.crt", tmp_path)
    with pytest.raises(SettingError, match=r"pace-fgl\[flower\]"):
        link.runs()


@pytest.mark.parametrize(
    ("option", "value"), [("deadline", "0"), ("patience", "nan"), ("nodes", "north:5")]
)
def test_a_setting_the_server_would_refuse_is_not_sent_to_it(
    pace: Preloaded, tmp_path: Path, option: str, value: str
) -> None:
    reach = ("--superlink", "127.0.0.1:1", "--root-certificates", "ca.crt", "--secret", "x")
    words = ("flower", "run", "job.pace", *reach)
    done = pace(*words, f"--{option}", value, cwd=tmp_path)
    assert done.code == 2
    assert f"{option} " in done.err
    assert "expected" in done.err
    assert list(tmp_path.iterdir()) == []


def test_the_ca_file_is_asked_for(pace: Preloaded, tmp_path: Path) -> None:
    done = pace("flower", "status", "--superlink", "127.0.0.1:1", cwd=tmp_path)
    assert done.code == 2
    assert "--root-certificates" in done.err
