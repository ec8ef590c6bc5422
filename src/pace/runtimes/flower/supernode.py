"""A site's node: node.toml, what would keep the site from taking part, and its processes.

Flower's SuperNode runs as a child of ours and only carries messages: they are answered here, and an app
that comes with them is left unopened (see `tasks`). A node that the server does not let in is tried
again, with the reason in words: its key is not registered yet, or the server still takes its former self
for alive. So is one that has lost the server: after some three minutes Flower stops trying, and stays.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import forkserver
from pathlib import Path
from secrets import token_bytes
from subprocess import PIPE, STDOUT, Popen

from pace.errors import SettingError
from pace.io import atomic, record_key
from pace.runtimes.network.exchange import answer_letters, log, pass_on
from pace.runtimes.network.node import Node, respond

LOOPBACK = "127.0.0.1"
REFUSED = (b"activate SuperNode", b"[code: 2004]")  # Flower's words for a node that is not let in
JOINED = b"SuperNode ID"  # for one that is
GAVE_UP = b"Giving up reconnection"  # and for one that has lost the server
AGAIN = 10.0  # seconds until it is tried again
WHY = (
    "the server does not let this node in. Either its key is not registered there yet, or this node "
    "was ended less than 70 s ago without a goodbye and the server still takes it for alive (two "
    f"heartbeats of 30 s). It is tried again every {AGAIN:.0f} s"
)
LOST = f"the server cannot be reached. The node is started again in {AGAIN:.0f} s"


@dataclass(frozen=True, kw_only=True)
class SuperNode(Node):
    """What node.toml says; its paths are relative to its folder."""

    superlink: str  # the server, as HOST:PORT
    certificate: Path = field(default=Path("ca.crt"), metadata=record_key("root-certificates"))
    node_key: Path = field(default=Path("node"), metadata=record_key("node-key"))
    port: int = 9094  # of Flower's local API: nodes on one machine need different ones

    def problems(self) -> list[str]:
        """What would keep this site from taking part; a graph is read whole."""
        found = []
        if not self.certificate.is_file():
            found.append(f"{self.certificate} not found: get the server's CA file")
        if not self.node_key.is_file():
            found.append(f"{self.node_key} not found: make it: ssh-keygen -t ecdsa -b 384")
        return found + super().problems()

    @property
    def fits(self) -> str:
        return "job, graph, keys and CA file fit"

    def command(self) -> list[str]:
        """Flower's command for this node; it gives its messages only to who knows the secret."""
        options = {
            "--superlink": self.superlink,
            "--root-certificates": str(self.certificate),
            "--auth-supernode-private-key": str(self.node_key),
            "--host": LOOPBACK,
            "--port": str(self.port),
            "--max-retries": "20",
            "--isolation": "process",
            "--superexec-auth-secret-file": str(self.folder / "secret"),
        }
        return [program("flower-supernode"), *(word for pair in options.items() for word in pair)]

    def run(self) -> int:
        """Until it is ended: the SuperNode's exit code."""
        secret = token_bytes(32)
        atomic.write(self.folder / "secret", secret, private=True)
        forkserver.ensure_running()  # torch is loaded before the first step is asked for
        threading.Thread(target=self.answer, args=[secret], daemon=True).start()
        log(f"{self.name}: starting, for {self.superlink}")
        joined = threading.Event()
        while True:
            code, again = self._run_once(joined)
            if not again:
                log(f"{self.name}: ended with {code}")
                return code
            time.sleep(AGAIN)

    def answer(self, secret: bytes) -> None:
        """Answer what the SuperNode receives, as long as this process lives."""
        from pace.runtimes.flower.tasks import Runtime, TaskInbox

        inbox = TaskInbox(Runtime(f"{LOOPBACK}:{self.port}", secret))
        answer_letters(inbox, partial(respond, self))

    def _run_once(self, joined: threading.Event) -> tuple[int, bool]:
        """Its exit code, and whether to try again: not let in, or the server lost after it `joined`."""
        ended = refused = gave_up = False
        home = {"FLWR_HOME": str(self.folder / "flwr-home"), "PYTHONUNBUFFERED": "1"}
        child = Popen(
            self.command(),
            env={**os.environ, **home},
            start_new_session=True,
            stdout=PIPE,
            stderr=STDOUT,
        )
        assert child.stdout is not None

        def end(*_: object) -> None:
            nonlocal ended
            ended = True
            child.terminate()

        def wait() -> None:
            child.wait()
            with suppress(ProcessLookupError):  # helpers that hold the pipe open
                os.killpg(child.pid, signal.SIGKILL)

        before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        with child.stdout as lines:
            for line in lines:
                pass_on(line.decode(errors="surrogateescape"))
                refused |= any(word in line for word in REFUSED)
                if JOINED in line:
                    joined.set()
                    log(f"{self.name}: joined {self.superlink}, and waits to be asked")
                elif GAVE_UP in line and joined.is_set():
                    gave_up = True
                    child.kill()  # the server is not there for a goodbye
        waiting.join()
        for number, handler in before.items():
            signal.signal(number, handler)
        failed = child.returncode > 0 and (refused or joined.is_set())
        if again := not ended and (gave_up or failed):
            log(f"{self.name}: {WHY if refused and not gave_up else LOST}")
        return child.returncode, again


def program(name: str) -> str:
    """One of Flower's commands, beside this Python or on the PATH."""
    path = shutil.which(name, path=Path(sys.executable).parent) or shutil.which(name)
    if path is None:
        raise SettingError(f"{name} is not installed here: pip install 'pace-fgl[flower]'")
    return path
