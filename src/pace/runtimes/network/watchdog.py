"""A step in a process of its own, with a limit: a node that hangs would be lost for every later run."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Timer

from pace.errors import FileError
from pace.runtimes.network.codes import FAILED, TOO_SLOW, log
from pace.runtimes.network.node import Config, Node
from pace.runtimes.network.worker import PLACE

ANSWERS = 60.0  # seconds within which a worker that is alive takes a step


@dataclass(frozen=True)
class Station:
    """Where a node's worker waits, and the process whose end is its end."""

    folder: Path
    owner: int

    def call(self) -> socket.socket:
        """A connection to the worker; one is started where none waits."""
        with suppress(OSError, ValueError, LookupError):
            return self._connect()
        self.start()
        return self._connect()

    def start(self) -> None:
        """Start a worker, which outlives whoever starts it; this returns when it listens."""
        command = [sys.executable, "-m", "pace.runtimes.network.worker"]
        words = [str(self.folder), str(self.owner)]
        subprocess.run([*command, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def _connect(self) -> socket.socket:
        where = json.loads((self.folder / PLACE).read_bytes())["socket"]
        caller = socket.socket(socket.AF_UNIX)
        caller.settimeout(ANSWERS)
        try:
            caller.connect(where)
        except OSError:
            caller.close()
            raise
        return caller


def run(
    config: Config,
    step: str,
    job: str,
    returned: bytes = b"",
    roll: bytes = b"",
    *,
    station: Station | None = None,
) -> dict[str, str]:
    """The worker's answer: a fixed code and, if it is `ok`, the path of what was made."""
    node = Node.of(config)
    if not node.folder.is_dir():
        raise FileError(f"{node.folder} not found: make the folder this node may write to")
    sizes = {"return": len(returned), "roll": len(roll)}
    words = {"node": dict(config), "step": step, "job": job, "bytes": sizes}
    ended = Event()  # set before the step is killed: who reads its end must know why
    said = b""
    try:
        with (station or Station(node.folder, os.getppid())).call() as caller:
            caller.sendall(json.dumps(words).encode() + b"\n" + returned + roll)
            with caller.makefile("rb") as stream:
                child = int(stream.readline() or 0)
                caller.settimeout(None)  # from here on the step's own limit holds

                def end() -> None:
                    ended.set()
                    with suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)

                timer = Timer(node.limit, end)
                timer.start()
                said = stream.readline()
                timer.cancel()
    except OSError as error:  # it died, or could not be started
        log(f"the worker is gone: {error.strerror}")
    if said:
        answer: dict[str, str] = json.loads(said)
        return answer
    if ended.is_set():
        log(f"the {step} took more than {node.limit:.0f} s and was ended")
        return {"code": TOO_SLOW}
    return {"code": FAILED}
