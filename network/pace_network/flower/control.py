"""The Control API of a kit's SuperLink: start, list and stop runs, let nodes join."""

import io
import time
import zipfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from flwr.cli.run_utils import format_runs
from flwr.common.serde import run_from_proto
from flwr.proto import control_pb2
from flwr.proto.fab_pb2 import Fab
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.error import ApiErrorCode
from flwr.supercore.error import FlowerError as Refusal
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

from pace.errors import FileError
from pace.io import untrusted
from pace_network.exchange import FlowerError
from pace_network.flower.kits import LARGEST_KEY, ServerKit, public_pem

LOOK = 0.5  # seconds between two looks at a run that ends
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


class KnownNodeError(FlowerError):
    """A key that was registered before."""


@dataclass(frozen=True)
class Run:
    """A run, as the SuperLink lists it."""

    run: str
    status: str  # such as `running` or `finished:completed`
    why: str  # what it failed of
    seconds: float
    bytes: int  # of all its messages

    @property
    def completed(self) -> bool:
        """Whether it ended well."""
        return self.status == "finished:completed"


@dataclass(frozen=True)
class Listed:
    """A node that may join."""

    name: str
    node: str
    status: str
    since: str  # when it last joined


@dataclass(frozen=True)
class Control:
    """The SuperLink of a server's kit."""

    kit: ServerKit

    def start(self) -> str:
        """Start a run; its number. Only the process that starts it carries it out."""
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("pyproject.toml", APP)
        return str(
            self._call("start a run", "StartRun", fab=Fab(content=archive.getvalue())).run_id
        )

    def runs(self, number: str | None = None) -> list[Run]:
        """The SuperLink's runs, or one of them."""
        listed = self._call("list runs", "ListRuns", **({"run_id": int(number)} if number else {}))
        rows = format_runs([run_from_proto(run) for run in listed.run_dict.values()], listed.now)
        runs = []
        for row in rows:
            why = "" if row.details == "N/A" else " ".join(row.details.split())[:500]
            size = row.network_traffic_inbound + row.network_traffic_outbound
            runs.append(Run(str(row.run_id), row.status_text, why, row.elapsed, size))
        return runs

    def ended(self, number: str) -> Run:
        """Wait until a run has ended; what became of it."""
        while not (run := self.runs(number)[0]).status.startswith("finished"):
            time.sleep(LOOK)
        return run

    def stop(self, number: str) -> None:
        """End a run; the journal keeps what came, and the job can be run again."""
        self._call("stop the run", "StopRun", run_id=int(number))

    def nodes(self) -> list[Listed]:
        """The registered nodes, and whether each is online."""
        nodes = []
        for node in self._call("list nodes", "ListNodes").nodes_info:
            name, since = node.name or f"node {str(node.node_id)[-5:]}", node.last_activated_at[:19]
            nodes.append(Listed(name, str(node.node_id), node.status, since.replace("T", " ")))
        return nodes

    def register(self, name: str, public: Path) -> str:
        """Let the holder of a key join under a name; the node's number."""
        try:
            key = public_pem(untrusted.read(public, LARGEST_KEY))
        except (OSError, FileError) as error:
            raise FileError(f"{public} is no public key of a node ({error})") from error
        try:
            node = self._call("register a node", "RegisterNode", public_key=key, name=name)
        except KnownNodeError:
            return next((node.node for node in self.nodes() if node.name == name), "known already")
        return str(node.node_id)

    def _call(self, action: str, method: str, **request: Any) -> Any:
        version = RuntimeVersionHttpInterceptor(component_name="flwr CLI")
        ca, address = untrusted.read(self.kit.folder / "ca.crt", 2**16), self.kit.control
        client = ControlHttpClient.from_server_address(address, False, ca, [version])
        with closing(client):
            try:
                return getattr(client, method)(getattr(control_pb2, f"{method}Request")(**request))
            except httpx.HTTPStatusError as error:
                refusal = Refusal.from_json(error.response.text)
                known = refusal and refusal.code == ApiErrorCode.PUBLIC_KEY_ALREADY_IN_USE
                text = refusal.message if refusal else error
                kind = KnownNodeError if known else FlowerError
                raise kind(f"the SuperLink did not {action}, it said: {text}") from error
            except httpx.HTTPError as error:
                raise FlowerError(f"no SuperLink answers at {address} ({error})") from error
