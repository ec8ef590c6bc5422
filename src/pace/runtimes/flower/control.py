"""The server's kit and its SuperLink's Control API: start, list and stop runs, let nodes join."""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from flwr.cli.run_utils import format_runs
from flwr.common.serde import run_from_proto
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    ListRunsRequest,
    RegisterNodeRequest,
    StartRunRequest,
    StopRunRequest,
    StreamLogsRequest,
)
from flwr.proto.fab_pb2 import Fab
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.error import ApiErrorCode
from flwr.supercore.error import FlowerError as Refusal
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

from pace.errors import FileError, FlowerError
from pace.io import untrusted
from pace.runtimes.flower.certificates import public_pem
from pace.runtimes.flower.kits import ServerKit

COMPLETED, FINISHED = "finished:completed", "finished"
LOOK = 0.5  # seconds between two looks at a run that ends
LARGEST = 4096  # bytes of a public key
APP = """\
[project]
name = "pace-app"
version = "1.0.0"
description = "Flower starts no run without an app. This one has no code."
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "pace"

[tool.flwr.app.components]
serverapp = "pace:merge"
clientapp = "pace:fit"
"""


@dataclass(frozen=True)
class Run:
    """A run, as the SuperLink lists it."""

    run: str
    status: str
    """Such as `running` or `finished:completed`."""
    why: str
    """What it failed of."""
    seconds: float
    bytes: int
    """Of all its messages."""


@dataclass(frozen=True)
class Listed:
    """A node that may join."""

    name: str
    node: str
    status: str
    since: str
    """When it last joined."""


@dataclass(frozen=True)
class Control:
    """The SuperLink of a server's kit."""

    kit: ServerKit

    def start(self) -> str:
        """Start a run; its number. Only the process that starts it carries it out."""
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("pyproject.toml", APP)
        request = StartRunRequest(fab=Fab(content=archive.getvalue()))
        return str(self._call("start a run", lambda client: client.StartRun(request)).run_id)

    def runs(self, run: str | None = None) -> list[Run]:
        """The SuperLink's runs, or one of them."""
        request = ListRunsRequest(run_id=int(run)) if run else ListRunsRequest()
        listed = self._call("list runs", lambda client: client.ListRuns(request))
        rows = format_runs([run_from_proto(each) for each in listed.run_dict.values()], listed.now)
        return [
            Run(
                str(row.run_id),
                row.status_text,
                "" if row.details == "N/A" else " ".join(row.details.split())[:500],
                row.elapsed,
                row.network_traffic_inbound + row.network_traffic_outbound,
            )
            for row in rows
        ]

    def ended(self, run: str) -> Run:
        """Wait until a run has ended; what became of it."""
        while not (found := self.runs(run)[0]).status.startswith(FINISHED):
            time.sleep(LOOK)
        return found

    def stop(self, run: str) -> None:
        """End a run; the journal keeps what came, and the job can be run again."""
        request = StopRunRequest(run_id=int(run))
        self._call("stop the run", lambda client: client.StopRun(request))

    def log(self, run: str) -> list[str]:
        """The lines of a run's log so far."""
        request = StreamLogsRequest(run_id=int(run))

        def first(client: ControlHttpClient) -> str:
            return next((part.log_output for part in client.StreamLogs(request)), "")

        lines: list[str] = self._call("read the log", first).splitlines()
        return lines

    def nodes(self) -> list[Listed]:
        """The registered nodes, and whether each is online."""
        listed = self._call("list nodes", lambda client: client.ListNodes(ListNodesRequest()))
        return [
            Listed(
                node.name or f"node {str(node.node_id)[-5:]}",
                str(node.node_id),
                node.status,
                node.last_activated_at[:19].replace("T", " "),
            )
            for node in listed.nodes_info
        ]

    def register(self, name: str, public: Path) -> str:
        """Let the holder of a key join under a name; the node's number."""
        try:
            key = public_pem(untrusted.read(public, LARGEST))
        except (OSError, ValueError) as error:
            raise FileError(f"{public} is no public key of a node ({error})") from error
        request = RegisterNodeRequest(public_key=key, name=name)
        try:
            made = self._call("register a node", lambda client: client.RegisterNode(request))
        except KnownNodeError:
            return next((node.node for node in self.nodes() if node.name == name), "known already")
        return str(made.node_id)

    def _call(self, action: str, call: Callable[[ControlHttpClient], Any]) -> Any:
        version = RuntimeVersionHttpInterceptor(component_name="flwr CLI")
        ca, address = untrusted.read(self.kit.certificate, 2**16), self.kit.control
        with closing(
            ControlHttpClient.from_server_address(address, False, ca, [version])
        ) as client:
            try:
                return call(client)
            except httpx.HTTPStatusError as error:
                refusal = Refusal.from_json(error.response.text)
                if refusal and refusal.code == ApiErrorCode.PUBLIC_KEY_ALREADY_IN_USE:
                    raise KnownNodeError(str(refusal)) from error
                said = refusal.message if refusal else error
                raise FlowerError(f"the SuperLink did not {action}, it said: {said}") from error
            except httpx.HTTPError as error:
                raise FlowerError(f"no SuperLink answers at {address} ({error})") from error


class KnownNodeError(FlowerError):
    """A key that was registered before."""
