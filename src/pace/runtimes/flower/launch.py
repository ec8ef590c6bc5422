"""Flower's own command, started so that it calls nobody and never touches the user's own settings.

`python -m pace.runtimes.flower.launch` takes many commands in one process, since starting `flwr` costs
a second or two, which hundreds of nodes would pay each: a line of stdin is the JSON list of a command's
words, what the command prints is followed by a line with END.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import entry_points
from itertools import takewhile
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from pace.errors import FlowerError, SettingError
from pace.io import atomic

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
LINK = "pace"  # the connection's name in the settings we write
COMPLETED, FINISHED = "finished:completed", "finished"
REGISTERED = "already in use"  # in Flower's words for a key that is registered
END = "\x1e"  # ASCII's record separator
LOOK = 2.0  # seconds between two looks at a run
ESCAPES = re.compile(rb"\x1b\[[0-9;]*m")  # colours
BEGINNINGS = ("Using SuperLink", "Displaying information")  # of what it does, before a mistake
BOX = re.compile("[\u2500-\u257f]+")  # the lines around its mistakes

APP = """\
# Flower starts no run without an app. This one has no code: PACE is what is installed at each machine.
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "pace-app"
version = "1.0.0"
description = "PACE over Flower: one upload, one return."
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "pace"

[tool.flwr.app.components]
serverapp = "pace:merge"
clientapp = "pace:fit"
"""

Traffic = TypedDict("Traffic", {"total-bytes": int})
Run = TypedDict(
    "Run",
    {
        "run-id": str,
        "status": str,
        "status-details": NotRequired[str],
        "elapsed": float,
        "network-traffic": Traffic,
    },
)  # what is read here of `flwr list`; it says more


@dataclass(frozen=True)
class Link:
    """A SuperLink: its address, the CA that vouches for it, and a folder for Flower's settings."""

    address: str
    certificate: Path
    home: Path

    def call(self, *words: str) -> dict[str, Any]:
        """Run `flwr` with these words; the JSON object it prints."""
        self._settle()
        command = [program("flwr"), *words, "--format", "json"]
        done = subprocess.run(command, env=self.environment, capture_output=True)
        return self._read(words, done.stdout, done.stderr)

    def register(self, publics: Sequence[tuple[str, Path]]) -> Iterator[tuple[str, str]]:
        """Let the holders of these keys join; each name and node number as it is registered."""
        self._settle()
        program("flwr")  # says what to install
        with subprocess.Popen(
            several(),
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as flower:
            assert flower.stdin is not None
            assert flower.stdout is not None
            for name, public in publics:
                words = ("supernode", "register", str(public), LINK)
                flower.stdin.write(json.dumps([*words, "--format", "json"]).encode() + b"\n")
                flower.stdin.flush()
                said = b"".join(takewhile(f"{END}\n".encode().__ne__, flower.stdout))
                yield name, self._registered(name, words, said)

    def _registered(self, name: str, words: Sequence[str], said: bytes) -> str:
        """The node's number, remembered under the name."""
        labels = self.labels()
        try:
            number = str(self._read(words, said)["node-id"])
        except FlowerError as error:
            if REGISTERED not in str(error):
                raise
            return next((node for node, label in labels.items() if label == name), "known already")
        made = json.dumps(labels | {number: name}, indent=1)
        atomic.write(self.home / "nodes.json", made.encode())
        return number

    def _read(self, words: Sequence[str], out: bytes, err: bytes = b"") -> dict[str, Any]:
        """The JSON object that a command printed, unless it says that it failed."""
        try:
            found: dict[str, Any] = json.loads(out)
        except ValueError:
            found = {"error-message": (err or out).decode(errors="replace")}
        if not found.get("success"):
            raise FlowerError(
                f"flwr {words[0]} failed at {self.address}, it said: {_said(found)[:500]}"
            )
        return found

    def nodes(self) -> list[dict[str, Any]]:
        """The registered nodes, and whether each is online."""
        found: list[dict[str, Any]] = self.call("supernode", "list", LINK)["nodes"]
        return found

    def labels(self) -> dict[str, str]:
        """Node -> name, for those registered with these settings."""
        path = self.home / "nodes.json"
        try:
            found: dict[str, str] = json.loads(path.read_bytes()) if path.exists() else {}
        except ValueError as error:
            raise FlowerError(
                f"{path} is damaged: remove it, and register the nodes again"
            ) from error
        return found

    def start(self) -> str:
        """Start a run; its number. Nothing carries it out but the process that starts it."""
        atomic.write(self.home / "app" / "pyproject.toml", APP.encode())
        return str(self.call("run", str(self.home / "app"), LINK)["run-id"])

    def runs(self, run: str | None = None) -> list[Run]:
        """The SuperLink's runs, or one of them."""
        chosen = () if run is None else ("--run-id", run)
        found: list[Run] = self.call("list", LINK, *chosen)["runs"]
        return found

    def stop(self, run: str) -> None:
        """End a run; the journal keeps what came, and the job can be run again."""
        self.call("stop", run, LINK)

    def log(self, run: str) -> Iterator[str]:
        """The lines of a run's log so far."""
        self._settle()
        command = [program("flwr"), "log", run, LINK, "--show"]
        with subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as log:
            for line in log.stdout or ():
                yield " ".join(ESCAPES.sub(b"", line).decode(errors="replace").split())

    def ended(self, run: str) -> Run:
        """Wait until a run has ended; what became of it."""
        while True:
            (found,) = self.runs(run)
            if found["status"].startswith(FINISHED):
                return found
            time.sleep(LOOK)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, **QUIET, "FLWR_HOME": str(self.home)}

    def _settle(self) -> None:
        lines = [f'[superlink]\ndefault = "{LINK}"\n\n[superlink.{LINK}]']
        lines.append(f"address = {json.dumps(self.address)}")
        if not self.certificate.is_file():
            raise SettingError(f"{self.certificate} not found: get the server's CA file")
        lines.append(f"root-certificates = {json.dumps(str(self.certificate.resolve()))}")
        atomic.write(self.home / "config.toml", ("\n".join(lines) + "\n").encode())


def _said(found: Mapping[str, Any]) -> str:
    """What Flower says is wrong, without what it says on the way there."""
    lines = BOX.sub(" ", str(found.get("error-message", "nothing"))).splitlines()
    told = (line for line in lines if not line.strip().startswith(BEGINNINGS))
    return " ".join(" ".join(told).split()).rstrip(".")


def several() -> list[str]:
    """The command that takes many of Flower's in one process."""
    return [sys.executable, "-m", "pace.runtimes.flower.launch"]


def program(name: str) -> str:
    """One of Flower's commands, beside this Python or on the PATH."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise SettingError(f"{name} is not installed here: pip install 'pace-fgl[flower]'")
    return found


def main() -> None:
    (script,) = entry_points(group="console_scripts", name="flwr")
    command = script.load()
    for line in sys.stdin:
        with suppress(SystemExit):  # each command ends with it, well or badly
            command(json.loads(line))
        print(f"\n{END}", flush=True)


if __name__ == "__main__":
    main()
