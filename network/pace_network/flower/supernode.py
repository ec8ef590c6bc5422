"""A site's node: node.toml, what would keep the site from taking part, and its processes.

Flower's SuperNode runs as a child of ours and only carries messages: they are answered here, and an app
that comes with them is left unopened (see `tasks`). However it ends, unless its operator ended it, it is
started again with the reason in words: its key is not registered yet, the server still takes its former
self for alive or is away, clocks differ, or what Flower said last. It ends with this process.
"""

import ctypes
import os
import shutil
import signal
import ssl
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import partial
from http.client import HTTPException, HTTPSConnection
from multiprocessing import forkserver
from pathlib import Path
from secrets import token_bytes
from subprocess import PIPE, STDOUT, Popen

from pace.errors import SettingError
from pace.io import atomic, record_key
from pace_network.exchange import answer_letters, log, pass_on
from pace_network.node import Node
from pace_network.site_steps import respond

LOOPBACK = "127.0.0.1"
REFUSED = (b"activate SuperNode", b"[code: 2004]")  # Flower's words for a node that is not let in
JOINED = b"SuperNode ID"  # for one that is
GAVE_UP = b"Giving up reconnection"  # and for one that has lost the server
REACH = 5.0  # seconds for the server to answer
AGAIN = 10.0  # seconds until it is tried again
GOODBYE = 30.0  # seconds that Flower's process has to end when it is asked to
WHY = (
    "the server does not let this node in. Either its key is not registered there yet, or this node "
    "was ended less than 70 s ago without a goodbye and the server still takes it for alive (two "
    "heartbeats of 30 s)"
)
LOST = "the server was lost"
CLOCKS = 240.0  # seconds; Flower refuses a node whose clock differs by 300
TERMINATE_WITH_PARENT = 1  # Linux's prctl


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
        reason = self.unreachable() if not found else None
        return found + super().problems() + ([reason] if reason else [])

    @property
    def fits(self) -> str:
        return "job, graph, keys and CA file fit, and the server answers"

    def unreachable(self) -> str | None:
        """Why the server would not be reached from here; None if it answers and clocks agree."""
        host, _, port = self.superlink.rpartition(":")
        try:
            tls = ssl.create_default_context(cafile=str(self.certificate))
            door = HTTPSConnection(host.strip("[]"), int(port), timeout=REACH, context=tls)
            with closing(door):
                door.request("GET", "/")
                date = door.getresponse().headers["date"]
            ahead = time.time() - parsedate_to_datetime(date).timestamp()
        except (OSError, HTTPException, ValueError, TypeError) as error:
            return f"the server {self.superlink} cannot be reached from here: {error}"
        if abs(ahead) < CLOCKS:
            return None
        way = "ahead of" if ahead > 0 else "behind"
        return f"this machine's clock is {abs(ahead):.0f} s {way} the server's: Flower allows 300"

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
        while True:
            code, again = self._run_once()
            if not again:
                log(f"{self.name}: ended with {code}")
                return code
            time.sleep(AGAIN)

    def answer(self, secret: bytes) -> None:
        """Answer what the SuperNode receives, as long as this process lives."""
        from pace_network.flower.tasks import Runtime, TaskInbox

        inbox = TaskInbox(Runtime(f"{LOOPBACK}:{self.port}", secret))
        answer_letters(inbox, partial(respond, self))

    def _run_once(self) -> tuple[int, bool]:
        """Its exit code, and whether to try again: unless a person here has asked it to end."""
        ended, why, last = False, "", ""
        children: list[Popen[bytes]] = []

        def end(*_: object) -> None:
            nonlocal ended
            ended = True
            for started in children:
                started.terminate()
                late = threading.Timer(GOODBYE, started.kill)
                late.daemon = True
                late.start()

        # Before the child is there: a signal that comes while it starts counts too.
        before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
        home = {"FLWR_HOME": str(self.folder / "flwr-home"), "PYTHONUNBUFFERED": "1"}
        child = Popen(
            self.command(),
            env={**os.environ, **home},
            start_new_session=True,
            preexec_fn=end_with_parent(),
            stdout=PIPE,
            stderr=STDOUT,
        )
        assert child.stdout is not None
        children.append(child)
        if ended:
            end()

        def wait() -> None:
            child.wait()
            with suppress(ProcessLookupError):  # helpers that hold the pipe open
                os.killpg(child.pid, signal.SIGKILL)

        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        with child.stdout as lines:
            for line in lines:
                pass_on(line.decode(errors="surrogateescape"))
                last = line.decode(errors="replace").strip() or last
                if any(word in line for word in REFUSED):
                    why = WHY
                elif JOINED in line:
                    log(f"{self.name}: joined {self.superlink}, and waits to be asked")
                    why = LOST
                elif GAVE_UP in line:
                    why = LOST
                    child.kill()  # the server is not there for a goodbye
        waiting.join()
        for number, handler in before.items():
            signal.signal(number, handler)
        if not ended:
            code = child.returncode
            how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
            why = why or f"Flower's SuperNode {how}, and said last: {last[:200] or 'nothing'}"
            more = self.unreachable()
            log(f"{self.name}: {why}{f'; {more}' if more else ''}. Tried again in {AGAIN:.0f} s")
        return child.returncode, not ended


def end_with_parent() -> Callable[[], object] | None:
    """What a child calls at its start, so that it is terminated when we are killed; Linux has it."""
    if not sys.platform.startswith("linux"):
        return None
    return partial(ctypes.CDLL(None).prctl, TERMINATE_WITH_PARENT, signal.SIGTERM)


def program(name: str) -> str:
    """One of Flower's commands, beside this Python or on the PATH."""
    path = shutil.which(name, path=Path(sys.executable).parent) or shutil.which(name)
    if path is None:
        raise SettingError(f"{name} is not installed here: pip install 'pace-network[flower]'")
    return path
