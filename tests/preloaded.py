"""The `pace` command in a process of its own, without five seconds of imports each time.

A server imports everything once and forks for every command; the child is a real process with its
own working folder. It can be told to die at its n-th step on the disk, as if somebody had pulled
the plug, and to note which files it touches.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

KILLED = 137
TOUCHED = "touched: "
LOADED = (
    "pyarrow.parquet",
    "rich.progress",
    "rich.table",
    "pace.runtimes.files.client",
    "pace.runtimes.files.inspect",
    "pace.runtimes.files.merge",
    "pace.runtimes.files.model",
    "pace.datasets.partition",
)
STEPS = ("fsync", "replace", "link", "rename", "unlink")


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def touched(self) -> list[str]:
        """The files it touched, where it was watched."""
        found: list[str] = json.loads(self.err.rpartition(TOUCHED)[2])
        return found

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


def good(done: Done) -> Done:
    """A command that ended well."""
    assert done.code == 0, done.err
    return done


class Preloaded:
    """The client of the server; `close` ends it."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="pace-")
        self.address = str(Path(self.folder.name) / "socket")
        command = [sys.executable, "-m", "tests.preloaded", self.address]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, cwd=Path(__file__).parent.parent
        )
        assert self.process.stdout is not None
        self.process.stdout.readline()  # it is ready

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.folder.cleanup()

    def __call__(self, *words: object, cwd: Path, kill_at: int = 0, watch: str = "") -> Done:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            asked: dict[str, Any] = {"words": list(map(str, words)), "cwd": str(cwd)}
            asked |= {"kill_at": kill_at, "watch": watch, "state": os.environ["PACE_STATE"]}
            with open(os.devnull) as nothing:
                code = ask(self.address, asked, [nothing.fileno(), out.fileno(), err.fileno()])
            out.seek(0)
            err.seek(0)
            return Done(code, out.read().decode(), err.read().decode())

    def on_path(self, folder: Path) -> None:
        """A `pace` in `folder` for shell scripts, which goes to this server."""
        script = f"""#!{sys.executable} -S
import array, json, os, socket, sys
with open(sys.argv[0] + ".log", "a") as log:  # every command that was typed
    log.write(" ".join(sys.argv[1:]) + "\\n")
with socket.socket(socket.AF_UNIX) as link:
    link.connect({self.address!r})
    asked = {{"words": sys.argv[1:], "cwd": os.getcwd(), "kill_at": 0, "watch": ""}}
    asked["state"] = os.environ["PACE_STATE"]
    socket.send_fds(link, [json.dumps(asked).encode()], [0, 1, 2])
    sys.exit(int(link.recv(16)))
"""
        (folder / "pace").write_text(script)
        (folder / "pace").chmod(0o755)

    def run_example(self, script: Path, folder: Path, *words: str) -> tuple[Path, str]:
        """Run a shell script of examples/: the folder that it filled, and what it printed."""
        (folder / "bin").mkdir()
        self.on_path(folder / "bin")
        places = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
        command = ["sh", str(script), str(folder / "root"), *words]
        environment = os.environ | {"PATH": places, "COLUMNS": "80"}
        ended = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return folder / "root", ended.stdout


def ask(address: str, asked: dict[str, Any], files: list[int]) -> int:
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(address)
        socket.send_fds(link, [json.dumps(asked).encode()], files)
        return int(link.recv(16))


def serve(address: str) -> None:
    """Fork for each command, answer with its exit code. The server itself computes nothing."""
    from pace.cli import main

    for module in LOADED:
        with suppress(ImportError):
            import_module(module)
    with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere), suppress(SystemExit):
        sys.argv = ["pace", "show", "absent"]  # what is loaded by parsing a command line
        main()
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(address)
        door.listen()
        print("ready", flush=True)
        while True:
            link, _ = door.accept()
            with link:
                content, files, _, _ = socket.recv_fds(link, 2**20, 3)
                child = os.fork()
                if child == 0:
                    os._exit(run(json.loads(content), files))
                for file in files:
                    os.close(file)
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                link.send(str(code).encode())


def run(asked: dict[str, Any], files: list[int]) -> int:
    from pace.cli import main

    for place, file in enumerate(files):
        os.dup2(file, place)
    # As in a new process: the server's own streams remember what kind of file they were.
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", 1, closefd=False)  # noqa: SIM115
    os.environ |= {"COLUMNS": "80", "PACE_STATE": asked["state"]}
    os.chdir(asked["cwd"])
    touched: set[str] = watch(asked["watch"]) if asked["watch"] else set()
    if asked["kill_at"]:
        kill_at(asked["kill_at"])
    sys.argv = ["pace", *asked["words"]]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.stdout.flush()
        if asked["watch"]:
            sys.stderr.write(f"\n{TOUCHED}{json.dumps(sorted(touched))}")
        sys.stderr.flush()
    return 0


def kill_at(count: int) -> None:
    """Die at the n-th step on the disk, before it is done; a write dies half done."""
    left = count

    def dying(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*given: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                if name == "fsync" and (size := os.fstat(given[0]).st_size) and is_file(given[0]):
                    os.ftruncate(given[0], size // 2)
                os._exit(KILLED)
            return real(*given, **named)

        return step

    for name in STEPS:
        setattr(os, name, dying(name, getattr(os, name)))


def is_file(handle: int) -> bool:
    import stat

    return stat.S_ISREG(os.fstat(handle).st_mode)


def watch(root: str) -> set[str]:
    """Every path below `root` that Python opens, lists, renames or removes from now on."""
    touched: set[str] = set()

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if event == "open" or event.startswith("os."):
            for each in given[:2]:
                if isinstance(each, str | Path) and os.path.abspath(each).startswith(root):
                    touched.add(os.path.abspath(each))

    sys.addaudithook(hook)
    return touched


if __name__ == "__main__":
    serve(sys.argv[1])
