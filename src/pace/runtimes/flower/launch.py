"""Flower's own command, started so that it calls nobody and never touches the user's own settings."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pace.errors import FlowerError, SettingError
from pace.io import atomic

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
LINK = "pace"  # the connection's name in the settings we write
COMPLETED, FINISHED = "finished:completed", "finished"
LOOK = 2.0  # seconds between two looks at a run
ESCAPES = re.compile(rb"\x1b\[[0-9;]*m")  # colours
BOX = re.compile("[\u2500-\u257f]+")  # the lines around its mistakes


@dataclass(frozen=True)
class Link:
    """A SuperLink: its address, the CA that vouches for it, and a folder for Flower's settings."""

    address: str
    certificate: Path | None
    home: Path

    def call(self, *words: str) -> dict[str, Any]:
        """Run `flwr` with these words; the JSON object it prints."""
        self._settle()
        command = [_program(), *words, "--format", "json"]
        done = subprocess.run(command, env=self.environment, capture_output=True)
        try:
            found: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            found = {"error-message": (done.stderr or done.stdout).decode(errors="replace")}
        if done.returncode or not found.get("success"):
            said = " ".join(BOX.sub(" ", str(found.get("error-message", "nothing"))).split())
            raise FlowerError(f"flwr {words[0]} failed at {self.address}, it said: {said[:500]}")
        return found

    def register(self, public: Path) -> str:
        """Let the holder of this key join; its node number."""
        return str(self.call("supernode", "register", str(public), LINK)["node-id"])

    def start(self, app: Path, config: Mapping[str, str | float]) -> str:
        """Start a run; its number."""
        lines = [f"{key} = {json.dumps(value)}\n" for key, value in config.items()]
        atomic.write(self.home / "run.toml", "".join(lines).encode())
        words = ("run", str(app), LINK, "--run-config", str(self.home / "run.toml"))
        return str(self.call(*words)["run-id"])

    def runs(self, run: str | None = None) -> list[dict[str, Any]]:
        """The SuperLink's runs, or one of them."""
        chosen = () if run is None else ("--run-id", run)
        found: list[dict[str, Any]] = self.call("list", LINK, *chosen)["runs"]
        return found

    def follow(self, run: str, progress: Callable[[str], None]) -> dict[str, Any]:
        """Wait until a run has ended, told of each line of its log; what became of it."""
        command = [_program(), "log", run, LINK, "--stream"]
        with subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as log:
            for line in log.stdout or ():
                progress(" ".join(ESCAPES.sub(b"", line).decode(errors="replace").split()))
        while True:  # the log may be cut short, and ends a moment before the run does
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
        if self.certificate is None:
            lines.append("insecure = true")
        else:
            if not self.certificate.is_file():
                raise SettingError(f"{self.certificate} is not there: get the server's CA file")
            lines.append(f"root-certificates = {json.dumps(str(self.certificate.resolve()))}")
        atomic.write(self.home / "config.toml", ("\n".join(lines) + "\n").encode())


def _program() -> str:
    beside = Path(sys.executable).with_name("flwr")
    found = str(beside) if beside.exists() else shutil.which("flwr")
    if found is None:
        raise SettingError("flwr is not installed here: pip install 'pace-fgl[flower]'")
    return found
