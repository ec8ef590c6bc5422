"""How a command ends: exit codes, one sentence on stderr, nothing on stdout that is not the result."""

import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pace import cli
from pace.errors import SettingError
from tests.preloaded import Preloaded
from tests.screen import Screen

COMMAND = [sys.executable, "-c", "from pace.cli import program; program()"]


def raising(error: BaseException) -> Callable[..., None]:
    def app(**_: object) -> None:
        raise error

    return app


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (SettingError("--rank is '0'"), 2, "pace: --rank is '0'\n"),
        (OSError(errno.ENOSPC, "No space left"), 2, "pace: the system says: No space left; make"),
        (OSError(errno.ENOSPC, "No space left", "a.up"), 2, "pace: cannot write a.up: No space"),
        (PermissionError(errno.EACCES, "Permission denied", "out"), 2, "cannot use out: Perm"),
        (KeyboardInterrupt(), 130, "pace: interrupted; every file is whole or absent"),
    ],
)
def test_an_end_has_its_code_and_one_sentence(
    error: BaseException,
    code: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cli, "app", raising(error))
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == code
    out, err = capfd.readouterr()
    assert out == ""
    assert says in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_a_mistake_of_ours_is_told_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its traceback, and a code that no other end has."""
    monkeypatch.setattr(cli, "app", raising(ZeroDivisionError("oh")))
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 70
    err = capsys.readouterr().err
    assert "ZeroDivisionError: oh" in err
    assert err.splitlines()[-1] == "pace: this is a mistake in pace: please report the lines above"


@pytest.mark.parametrize(
    ("before", "says"),
    [
        ("import atexit; atexit.register(print, 'put away')", "put away"),
        (
            "import threading, time\n"
            "threading.Thread(target=lambda: (time.sleep(0.5), print('at work'))).start()",
            "at work",
        ),
    ],
)
def test_the_end_at_once_waits_for_what_is_still_to_be_done(before: str, says: str) -> None:
    """A library's last words, and a thread that is not a daemon."""
    code = f"{before}\nfrom pace.cli import program\nprogram()"
    done = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True, text=True)
    assert done.returncode == 0
    assert says in done.stdout.splitlines()


def interrupted(running: subprocess.Popen[str]) -> tuple[str, str]:
    """As a person does it: again after a while, for Python loses a signal that meets a finaliser."""
    for _ in range(12):
        running.send_signal(signal.SIGINT)
        try:
            return running.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            continue
    running.kill()
    return running.communicate()


def test_ctrl_c_is_answered_in_one_sentence() -> None:
    """A real signal, in the middle of a long run."""
    running = subprocess.Popen(
        [*COMMAND, "run", "--epochs", "1000000"], stdout=-1, stderr=-1, text=True
    )
    maps = Path(f"/proc/{running.pid}/maps")
    while "libtorch_cpu" not in maps.read_text():  # until then Python starts
        assert running.poll() is None
        time.sleep(0.05)
    out, err = interrupted(running)
    assert running.returncode == 130
    assert out == ""
    assert re.fullmatch("pace: interrupted; [^\n]*\n", err)


def test_a_reader_who_leaves_early_is_no_reason_to_talk() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*COMMAND, "--help"], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_stream_that_is_closed_is_nobody_to_talk_to(closed: str) -> None:
    for words, code in (("--version", 0), ("run --sedes 3", 2)):
        line = f'exec "$@" {words} {closed}'
        done = subprocess.run(["sh", "-c", line, "sh", *COMMAND], capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        assert "option" not in done.stdout  # errors stay off stdout


@pytest.mark.parametrize(
    "line",
    [
        "run --dataset nowhere --json",
        "run --sedes 3 --json",
        "partition --dataset nowhere --json",
        "reproduce nothing --json",
        "graph import --nodes a.csv --edges b.csv --label c --out d.graph --json",
        "inspect nowhere.graph --json",
        "new job.pace --json",
        "show nowhere.pace --json",
        "client fit nowhere.pace a.graph --keep a.local --upload a.up --yes --json",
        "client adopt nowhere.pace a.graph --kept a.local --return a.down --out a.model --json",
        "client predict nowhere a.graph --out a.csv --json",
        "client evaluate nowhere a.graph --json",
        "server merge nowhere.pace --out out --json",
        "inspect nowhere --json",
        "keys new . --json",
        "flower status --kit nowhere --json",
        "flower run --kit nowhere --json",
        "flower register key.pub --kit nowhere --json",
    ],
)
def test_a_command_that_fails_prints_no_json(line: str, pace: Preloaded, tmp_path: Path) -> None:
    done = pace(*line.split(), cwd=tmp_path)
    assert done.code == 2, done.err
    assert done.out == ""
    assert re.match(r"pace: \S", done.err)
    assert "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("group", ["", "client", "server", "graph", "keys", "flower"])
def test_without_a_command_the_help_is_on_stderr(
    group: str, pace: Preloaded, tmp_path: Path
) -> None:
    done = pace(*group.split(), cwd=tmp_path)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith(f"Usage: {' '.join(['pace', *group.split()])} COMMAND")


def on_a_terminal(**environment: str) -> str:
    """What `pace keys --help` writes to a terminal."""
    screen = Screen()
    asked = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
    asked |= {"TERM": "xterm", "COLUMNS": "80", **environment}
    subprocess.run([*COMMAND, "keys", "--help"], stdout=screen.slave, env=asked, check=True)
    os.close(screen.slave)
    return screen.text().replace("\r\n", "\n")


def test_help_is_coloured_on_a_terminal_only() -> None:
    shown, plain = on_a_terminal(), on_a_terminal(NO_COLOR="1")
    assert "\x1b[1m" in shown
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[\d*m", "", shown) == plain
    piped = subprocess.run([*COMMAND, "keys", "--help"], capture_output=True, text=True, check=True)
    assert piped.stdout == plain


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_ctrl_c_ends_a_study_and_its_workers(tmp_path: Path) -> None:
    """It reaches all processes of a terminal at once; one of them answers, and cells stay whole."""
    words = ["reproduce", "main", "--datasets", "synthetic", "--jobs", "2", "--out", "study"]
    running = subprocess.Popen(
        [*COMMAND, *words], stdout=-1, stderr=-1, text=True, cwd=tmp_path, start_new_session=True
    )
    while not list(tmp_path.glob("study/cells/**/*.jsonl")):
        assert running.poll() is None
        time.sleep(0.1)
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=120)
    assert running.returncode == 130
    assert out == ""
    assert re.fullmatch("pace: interrupted; [^\n]*\n", err)
    for _ in range(100):  # soon nobody is left
        time.sleep(0.1)
        if not alive(running.pid):
            break
    assert not alive(running.pid)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    journals = [path.read_text() for path in files if path.suffix == ".jsonl"]
    assert all(json.loads(line) for text in journals for line in text.splitlines() if line)


def test_workers_do_not_hear_ctrl_c() -> None:
    from pace_study import run

    before = signal.getsignal(signal.SIGINT)
    with run._deaf():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # a new process inherits this
    assert signal.getsignal(signal.SIGINT) is before


def test_work_that_could_not_be_written_is_not_begun(pace: Preloaded, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = pace("run", "--out", "file/run", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err == "pace: cannot use file/run/unfinished: Not a directory\n"
    for words, says in (
        ("tensorboard=file", "that is a file, name a folder"),
        ("tensorboard", "expected NAME=WHERE"),
        ("tensorbord=runs", "did you mean 'tensorboard'?"),
    ):
        done = pace("run", "--track", words, cwd=tmp_path)
        assert (done.code, done.out) == (2, "")
        assert says in done.err


@pytest.mark.parametrize(
    ("words", "file", "room"),
    [
        ("keys new north", "north.key", 10),
        ("partition --clients 3 --out parts.json", "parts.json", 1000),
        ("run --methods local --clients 3 --seeds 1 --epochs 1 --out out", "out/", 1000),
    ],
)
def test_a_disk_without_room_names_the_file(
    words: str, file: str, room: int, tmp_path: Path
) -> None:
    """A real limit of the system on what a file may hold; Python ignores its signal."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    ended = subprocess.run(
        [*COMMAND, *words.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        preexec_fn=limited,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"pace: cannot write {file}")
    assert "make room, then run this again" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("--help", 0),
        ("run --help", 0),
        ("graph --help", 0),
        ("codebook propose --help", 0),
        ("client fit --help", 0),
        ("run", 2),
        ("show study.pace", 2),
    ],
)
def test_a_machine_without_torch_says_how_to_get_it(words: str, code: int) -> None:
    program = f"import sys; sys.modules['torch'] = None; {COMMAND[-1]}"
    ended = subprocess.run(
        [sys.executable, "-c", program, *words.split()], capture_output=True, text=True
    )
    assert ended.returncode == code, ended.stderr
    if code:
        assert ended.stderr.startswith(
            "pace: PACE needs torch, which this Python does not have: pip"
        )
        assert ended.stderr.count("\n") == 1
    else:
        assert ended.stderr == ""
