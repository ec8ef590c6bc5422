"""A real Flower deployment on loopback, by the kits' own scripts; every process by its id."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import SystemRandom
from typing import Any, NamedTuple

import pytest

MARKS = [  # of a file whose tests start a deployment
    pytest.mark.flower,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("flower"),
    pytest.mark.skipif(
        not shutil.which("bash") or not Path("/proc").is_dir(), reason="needs Linux with bash"
    ),
]
EXAMPLE = Path(__file__).parent.parent / "examples" / "flower_deployment"
BIN = Path(sys.executable).parent
LONG = 3600.0  # seconds: a test that waits in vain is ended by its own limit


@dataclass
class Deployment:
    """A SuperLink and its nodes; `close` ends all of them and says if anything was left."""

    work: Path
    port: int = field(default_factory=lambda: free_port(2))  # and the operator's
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    # Number and start of every process of ours, and of theirs: numbers alone are given anew.
    started: set[tuple[int, int]] = field(default_factory=set)

    @property
    def server(self) -> Path:
        return self.work / "kits" / "server"

    def provision(self, job: Path) -> None:
        """The kits of a job, with ports that nobody else has."""
        more = ["--port", str(self.port), "--node-port", str(free_port(8)), "--json"]
        words = ["flower", "provision", str(job), "--host", "127.0.0.1", "--out", "kits", *more]
        subprocess.run([str(BIN / "pace"), *words], cwd=self.work, check=True, capture_output=True)

    def start(self, name: str, log: str = "", *command: str) -> subprocess.Popen[bytes]:
        """Start the server's or a site's kit, or another command there; its output goes to a file."""
        with (self.work / f"{log or name}.log").open("ab") as file:
            self.running[name] = process = subprocess.Popen(
                command or [str(self.work / "kits" / name / "start.sh")],
                cwd=self.work / "kits" / name,
                env={**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"},
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
            )
        return process

    def stop(self, name: str) -> None:
        self.family()
        self.running[name].terminate()
        self.running[name].wait()

    def serve(self, nodes: int) -> None:
        """Start the server, and wait until it has registered so many nodes."""
        link = self.start("server")

        def registered() -> bool:
            assert link.poll() is None, self.log("server")
            return self.log("server").count("Registered: ") == nodes

        wait(registered, LONG)

    def pace(self, *words: str) -> subprocess.Popen[bytes]:
        """`pace flower …` with its output at hand."""
        return subprocess.Popen(
            [str(BIN / "pace"), "flower", *words, "--json"],
            cwd=self.server,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *words: str) -> subprocess.Popen[bytes]:
        return self.pace("run", *words)

    def certificate(self) -> bytes:
        """Of an authority that has nothing to do with this deployment."""
        from pace_network.flower.kits import certificates

        return certificates("other.example")["ca.crt"]

    def log(self, name: str) -> str:
        return (self.work / f"{name}.log").read_text(errors="replace")

    def family(self) -> set[int]:
        """The processes that are alive and descend from ours; those once seen are remembered."""
        living = {(each.pid, each.began) for each in processes() if each.state != "Z"}
        ours = {pid for pid, _ in self.started & living}
        ours |= {each.pid for each in self.running.values() if each.poll() is None}
        ours |= descendants(ours)
        self.started |= {(pid, began) for pid, began in living if pid in ours}
        return {pid for pid, _ in self.started & living}

    def close(self) -> None:
        self.family()
        server = {name for name in self.running if name == "server"}
        for names in (self.running.keys() - server, server):  # all sites together, then the server
            for name in names:
                self.running[name].terminate()
            for name in names:
                try:
                    self.running[name].wait(30)
                except subprocess.TimeoutExpired:
                    self.running[name].kill()
                    self.running[name].wait()
        # Helpers notice within seconds that they are alone. A ClientApp whose run was lost does not
        # (flwr 1.41 goes on calling its node), so whoever is left is ended by its number.
        with suppress(AssertionError):
            wait(lambda: not self.family(), 20)
        kill(self.family())
        wait(lambda: not self.family(), LONG)


def wait(until: Callable[[], Any], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


GIVEN: set[int] = set()


def free_port(count: int = 1) -> int:
    """The first of so many free ports, below those that outgoing connections are given meanwhile."""
    end = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for first in SystemRandom().sample(range(10_000, end - count), 100):
        ports = set(range(first, first + count))
        if not ports & GIVEN and all(map(free, ports)):
            GIVEN.update(ports)
            return first
    raise AssertionError("no port is free")


def free(port: int) -> bool:
    with socket.socket() as door:
        try:
            door.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Process(NamedTuple):
    pid: int
    parent: int
    state: str
    began: int  # ticks after the machine's start


def processes() -> Iterator[Process]:
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                state, parent, *more = (path / "stat").read_text().rpartition(")")[2].split()
            except (OSError, ValueError):  # it ended meanwhile
                continue
            yield Process(int(path.name), int(parent), state, int(more[17]))


def descendants(of: set[int]) -> set[int]:
    found = set(of)
    parents = {each.pid: each.parent for each in processes()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - of


def alive(pid: int) -> bool:
    """Running; a process that ended and that nobody has collected yet does not run."""
    return any(each.pid == pid and each.state != "Z" for each in processes())


def kill(pids: set[int]) -> None:
    """All of them at once. One may end by itself because another did."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""
