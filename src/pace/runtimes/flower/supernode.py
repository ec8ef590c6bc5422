"""A site's node: node.toml, what would keep the site from taking part, and its processes.

Flower's SuperNode runs as a child of ours and only carries messages: they are answered here, and an app
that comes with them is left unopened (see `tasks`). A node that the server does not let in is tried
again, with the reason in words: its key is not registered yet, or the server still takes its former self
for alive. So is one that has lost the server: after some three minutes Flower stops trying, and stays.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pace.errors import PaceError, SettingError
from pace.io import atomic, plugins
from pace.io.records import load_toml, read_record, record_key
from pace.runtimes.network.messages import log, pass_on
from pace.runtimes.network.node import Node, load_steps, respond

PATHS = ("job", "graph", "folder", "key", "certificate", "node_key")
LARGEST = 2**16  # bytes of node.toml
LOOPBACK = "127.0.0.1"
REFUSED = (b"activate SuperNode", b"[code: 2004]")  # Flower's words for a node that is not let in
JOINED = b"SuperNode ID"  # for one that is
GAVE_UP = b"Giving up reconnection"  # and for one that has lost the server
AGAIN = 10.0  # seconds until it is tried again
GOODBYE = 5.0  # seconds for the last lines of a node that has ended
WHY = (
    "the server does not let this node in. Either its key is not registered there yet, or this node "
    "was ended less than 70 s ago without a goodbye and the server still takes it for alive (two "
    f"heartbeats of 30 s). It is tried again every {AGAIN:.0f} s"
)
LOST = f"the server cannot be reached. The node is started again in {AGAIN:.0f} s"


@dataclass(frozen=True, kw_only=True)
class SuperNode(Node):
    """What node.toml says; its paths are relative to its folder."""

    superlink: str
    """The server, as HOST:PORT."""
    certificate: Path = field(default=Path("ca.crt"), metadata=record_key("root-certificates"))
    node_key: Path = field(default=Path("node"), metadata=record_key("node-key"))
    """The key that lets the node join."""
    port: int = 9094
    """Of Flower's local API: nodes on one machine need different ones."""

    @classmethod
    def read(cls, path: Path) -> SuperNode:
        """The settings of a node.toml.

        Raises:
            FileError: it cannot be read, or is not TOML.
            SettingError: a setting is missing, unknown or impossible.
        """
        settings = load_toml(path, LARGEST, "correct it, or take the kit's again")
        try:
            node = read_record(cls, settings, str(path), strict=True)
        except SettingError as error:
            raise SettingError(f"{path}: {error}") from error
        here = path.absolute().parent
        paths = {name: getattr(node, name) for name in PATHS}
        return replace(node, **{name: here / at for name, at in paths.items() if at is not None})

    def problems(self) -> list[str]:
        """What would keep this site from taking part; a graph is read whole."""
        from pace.jobs.job import (
            read_job,  # here, since it loads torch: a node that runs need not
        )
        from pace.runtimes.files import sealed_jobs
        from pace.runtimes.files.fit import identity
        from pace.runtimes.files.site import load_site

        found = [
            f"{path} not found: {remedy}"
            for path, remedy in (
                (self.certificate, "get the server's CA file"),
                (self.node_key, "make the node's key: ssh-keygen -t ecdsa -b 384"),
            )
            if not path.is_file()
        ]
        try:
            with plugins.allowing(self.allow):
                job = read_job(self.job)
            owner, _ = identity(job, Path(f"{self.name}.up"), self.key)
            if owner != self.name:
                found.append(f"{self.key} is the key of {owner!r}, not of this site")
            if job.sealed and self.key is not None:
                sealed_jobs.check_overlap(self.key, job, agreed=self.overlapping)
            load_site(self.graph, job)
        except PaceError as error:
            found.append(str(error))
        return found

    @property
    def secret(self) -> Path:
        """For which Flower's process gives its messages to this one, and to no other."""
        return self.folder / "secret"

    def command(self) -> list[str]:
        """Flower's command for this node."""
        options = {
            "--superlink": self.superlink,
            "--root-certificates": str(self.certificate),
            "--auth-supernode-private-key": str(self.node_key),
            "--host": LOOPBACK,
            "--port": str(self.port),
            "--max-retries": "20",
            "--isolation": "process",
            "--superexec-auth-secret-file": str(self.secret),
        }
        return [program("flower-supernode"), *(word for pair in options.items() for word in pair)]

    def environment(self) -> Mapping[str, str]:
        home = {"FLWR_HOME": str(self.folder / "flwr-home"), "PYTHONUNBUFFERED": "1"}
        return {**os.environ, **home}

    def run(self) -> int:
        """Until it is ended: the SuperNode's exit code."""
        self.folder.mkdir(parents=True, exist_ok=True)
        atomic.write(self.secret, secrets.token_bytes(32), private=True)
        load_steps()
        threading.Thread(target=self.answer, daemon=True).start()
        log(f"{self.name}: starting, for {self.superlink}")
        joined = threading.Event()
        while True:
            code, again = self._run_once(joined)
            if not again:
                log(f"{self.name}: ended with {code}")
                return code
            time.sleep(AGAIN)

    def answer(self) -> None:
        """Answer what the SuperNode receives, as long as this process lives."""
        from pace.runtimes.flower.exchange import reply_message
        from pace.runtimes.flower.tasks import Runtime, answer_tasks

        runtime = Runtime(f"{LOOPBACK}:{self.port}", self.secret.read_bytes())
        answer_tasks(runtime, partial(reply_message, respond=partial(respond, self)))

    def _run_once(self, joined: threading.Event) -> tuple[int, bool]:
        """Its exit code, and whether it is worth another try: not let in, or the server lost.

        A node that has `joined` before goes on trying, however long the server is away.
        """
        refused, lost, ended = (threading.Event() for _ in range(3))
        child = subprocess.Popen(
            self.command(),
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

        def follow() -> None:
            assert child.stdout is not None
            with child.stdout as lines:
                for line in lines:
                    pass_on(line.decode(errors="surrogateescape"))
                    if JOINED in line:
                        joined.set()
                        log(f"{self.name}: joined {self.superlink}, and waits to be asked")
                    if GAVE_UP in line and joined.is_set():
                        lost.set()
                        log(f"{self.name}: {LOST}")
                        child.kill()  # the server is not there for a goodbye
                    if any(word in line for word in REFUSED) and not refused.is_set():
                        refused.set()
                        log(f"{self.name}: {WHY}")

        def end() -> None:
            ended.set()
            child.terminate()

        follower = threading.Thread(target=follow, daemon=True)
        follower.start()
        before = signal.signal(signal.SIGTERM, lambda *_: end())
        try:
            child.wait()
        except KeyboardInterrupt:
            end()
            child.wait()
        finally:
            signal.signal(signal.SIGTERM, before)
            with suppress(ProcessLookupError):  # helpers that would go on looking for it
                os.killpg(child.pid, signal.SIGTERM)
        follower.join(GOODBYE)
        failed = child.returncode > 0 and not ended.is_set()
        if failed and joined.is_set() and not (refused.is_set() or lost.is_set()):
            lost.set()
            log(f"{self.name}: {LOST}")
        return child.returncode, lost.is_set() or (refused.is_set() and failed)


def program(name: str) -> str:
    """One of Flower's commands, beside this Python or on the PATH."""
    beside = Path(sys.executable).with_name(name)
    path = str(beside) if beside.exists() else shutil.which(name)
    if path is None:
        raise SettingError(f"{name} is not installed here: pip install 'pace-fgl[flower]'")
    return path
