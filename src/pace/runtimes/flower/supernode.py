"""A site's node: its settings from node.toml, what would keep it from taking part, and its process.

Flower's SuperNode runs as a child of ours, its lines passed on. A worker is started beside it, so that
torch is loaded before anybody asks. A node that the server does not let in is tried again, with the
reason in words: its key is not registered yet, or the server still takes its former self for alive. So
is one that has lost the server: after some three minutes Flower's own process stops trying, and stays.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pace.errors import FileError, PaceError, SettingError
from pace.io import plugins, regular, untrusted
from pace.runtimes.flower.launch import QUIET, program
from pace.runtimes.network.codes import log, pass_on
from pace.runtimes.network.node import Node
from pace.runtimes.network.watchdog import Station

PATHS = {  # as in a kit; a node.toml may say otherwise
    "job": "job.pace",
    "graph": "mine.graph",
    "folder": "state",
    "root-certificates": "ca.crt",
    "node-key": "node",
}
OTHERS = ("name", "superlink", "key", "limit", "device", "overlapping", "allow", "port")
REFUSED = (b"activate SuperNode", b"[code: 2004]")  # Flower's words for a node that is not let in
LARGEST = 2**16  # bytes of node.toml
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


@dataclass(frozen=True)
class SuperNode:
    """What node.toml says."""

    node: Node
    superlink: str
    certificate: Path
    key: Path
    port: int

    @classmethod
    def read(cls, path: Path) -> SuperNode:
        try:
            settings = untrusted.toml(regular.read(path, LARGEST))
        except OSError as error:
            raise FileError(f"cannot read {path}: {error.strerror}") from error
        except ValueError as error:
            raise FileError(f"{path} is not TOML ({error})") from error
        if unknown := sorted(set(settings) - {*PATHS, *OTHERS}):
            raise SettingError(f"{path} has the unknown {', '.join(unknown)}")
        here = path.absolute().parent
        paths = {word: here / str(settings.get(word, each)) for word, each in PATHS.items()}
        if "key" in settings:
            paths["key"] = here / str(settings["key"])
        superlink, port = settings.get("superlink"), settings.get("port", 9094)
        if not isinstance(superlink, str) or not isinstance(port, int):
            raise SettingError(f"{path} lacks superlink, as HOST:PORT, or its port is not a number")
        words = ("name", "limit", "device", "overlapping")
        config: dict[str, object] = {word: settings[word] for word in words if word in settings}
        config |= {
            word: str(paths[word]) for word in ("job", "graph", "folder", "key") if word in paths
        }
        allow = settings.get("allow", [])
        config["allow"] = allow if isinstance(allow, str) else ",".join(map(str, allow))
        certificate, key = paths["root-certificates"], paths["node-key"]
        return cls(Node.of(config), superlink, certificate, key, port)

    def problems(self) -> list[str]:
        """What would keep this site from taking part; a graph is read whole."""
        from pace.jobs.job_file import read_job
        from pace.runtimes.files import sealed_jobs
        from pace.runtimes.files.fit import identity
        from pace.runtimes.files.site import load_site

        found = [
            f"{path} not found: {what}"
            for path, what in (
                (self.certificate, "get the server's CA file"),
                (self.key, "make the node's key: ssh-keygen -t ecdsa -b 384"),
            )
            if not path.is_file()
        ]
        try:
            with plugins.allowing(self.node.allow):
                job = read_job(self.node.job)
            who = identity(job, Path(f"{self.node.name}.up"), self.node.key)
            if who.name != self.node.name:
                found.append(f"{self.node.key} is the key of {who.name!r}, not of this site")
            if job.sealed and self.node.key is not None:
                sealed_jobs.check_overlap(self.node.key, job, agreed=self.node.overlapping)
            load_site(self.node.graph, job)
        except PaceError as error:
            found.append(str(error))
        return found

    def command(self) -> list[str]:
        """Flower's command for this node."""
        config = {
            "name": self.node.name,
            "job": self.node.job,
            "graph": self.node.graph,
            "folder": self.node.folder,
            "key": self.node.key,
            "device": self.node.device,
            "allow": ",".join(self.node.allow) or None,
        }
        words = [f'{word}="{value}"' for word, value in config.items() if value is not None]
        words.append(f"limit={self.node.limit}")
        words += ["overlapping=true"] * self.node.overlapping
        options = {
            "--superlink": self.superlink,
            "--root-certificates": str(self.certificate),
            "--auth-supernode-private-key": str(self.key),
            "--port": str(self.port),
            "--max-retries": "20",
            "--node-config": " ".join(words),
        }
        return [program("flower-supernode"), *(word for pair in options.items() for word in pair)]

    def environment(self) -> Mapping[str, str]:
        home = {"FLWR_HOME": str(self.node.folder / "flwr-home"), "PYTHONUNBUFFERED": "1"}
        beside = str(Path(sys.executable).parent)  # Flower starts its helpers by their bare names
        path = f"{beside}{os.pathsep}{os.environ.get('PATH', '')}"
        return {**os.environ, **QUIET, **home, "PATH": path}

    def run(self) -> int:
        """Until it is ended: the SuperNode's exit code."""
        self.node.folder.mkdir(parents=True, exist_ok=True)
        station = Station(self.node.folder, os.getpid())
        threading.Thread(target=station.start, daemon=True).start()
        log(f"{self.node.name}: starting, for {self.superlink}")
        joined = threading.Event()
        while True:
            code, again = self._once(joined)
            if not again:
                log(f"{self.node.name}: ended with {code}")
                return code
            time.sleep(AGAIN)

    def _once(self, joined: threading.Event) -> tuple[int, bool]:
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
            with child.stdout as said:
                for line in said:
                    pass_on(line.decode(errors="surrogateescape"))
                    if JOINED in line:
                        joined.set()
                        log(f"{self.node.name}: joined {self.superlink}, and waits to be asked")
                    if GAVE_UP in line and joined.is_set():
                        lost.set()
                        log(f"{self.node.name}: {LOST}")
                        child.kill()  # there is nobody to say goodbye to
                    if any(word in line for word in REFUSED) and not refused.is_set():
                        refused.set()
                        log(f"{self.node.name}: {WHY}")

        lines = threading.Thread(target=follow, daemon=True)
        lines.start()

        def end() -> None:
            ended.set()
            child.terminate()

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
        lines.join(GOODBYE)
        failed = child.returncode > 0 and not ended.is_set()
        if failed and joined.is_set() and not (refused.is_set() or lost.is_set()):
            lost.set()
            log(f"{self.node.name}: {LOST}")
        return child.returncode, lost.is_set() or (refused.is_set() and failed)
