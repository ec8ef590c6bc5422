"""A hostile Flower app at a real deployment: at another site, at the server, from a hostile server."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs pace-network[flower]: run `make test-flower`")

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
    RegisterNodeFleetRequest,
    UnregisterNodeFleetRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import PullObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from pace.jobs.job import write_job
from pace_network.flower import QUIET
from pace_network.flower.supernode import SuperNode
from pace_network.flower.tasks import Runtime
from tests.deployment import BIN, LONG, MARKS, Deployment, wait
from tests.graphs import clients
from tests.sites import NAMES, job, write_graph

pytestmark = MARKS


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    made = Deployment(tmp_path_factory.mktemp("hostile"))
    write_job(made.work / "job.pace", job())
    made.provision(made.work / "job.pace")
    for name, graph in zip(NAMES, clients(3), strict=True):
        write_graph(made.work / "kits" / name / "mine.graph", graph)
    try:
        made.serve(len(NAMES))
        for name in NAMES:
            made.start(name)
        yield made
    finally:
        made.close()


HOSTILE = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "hostile"
version = "1.0.0"
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "south"
[tool.flwr.app.components]
serverapp = "stolen.server:app"
clientapp = "stolen.client:app"
"""
STEALING = """
from pathlib import Path
Path({loot!r}, "{side}").write_text("\\n".join(map(str, Path.cwd().iterdir())))
"""
STOLEN_SERVER = """
import time
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp
app = ServerApp()

@app.main()
def main(grid, context):
    while len(nodes := list(grid.get_node_ids())) < 3:
        time.sleep(1)
    record = RecordDict({{"pace": ConfigRecord({{"job": "0" * 64}})}})
    asked = [Message(record, n, kind) for n in nodes for kind in ("query.upload", "query", "train")]
    tickets = set(grid.push_messages(asked))
    replies = []
    while tickets:
        came = list(grid.pull_messages(tickets))
        tickets -= {{each.metadata.reply_to_message_id for each in came}}
        replies += came
        time.sleep(1)
    said = [dict(each.content["pace"]) if each.has_content() else each.error for each in replies]
    Path({loot!r}, "part").write_text("\\n".join(map(str, said)))
    Path({loot!r}, "part").rename(Path({loot!r}, "replies"))
"""


def hostile(here: Deployment) -> tuple[Path, Path]:
    """An app whose both halves steal when they are imported, and where they leave what they find."""
    folder, loot = here.work / "hostile", here.work / "loot"
    (folder / "stolen").mkdir(parents=True, exist_ok=True)
    shutil.rmtree(loot, ignore_errors=True)
    loot.mkdir()
    (folder / "pyproject.toml").write_text(HOSTILE)
    (folder / "stolen/__init__.py").touch()
    for side, app in (
        ("server", STOLEN_SERVER),
        ("client", "from flwr.clientapp import ClientApp\napp = ClientApp()\n"),
    ):
        code = STEALING.format(loot=str(loot), side=side) + app.format(loot=str(loot))
        (folder / f"stolen/{side}.py").write_text(code)
    return folder, loot


def flwr(here: Deployment, port: int, *words: str) -> subprocess.CompletedProcess[str]:
    """Flower's command with a site's own CA file, which is all that a site has of the server's."""
    home = here.work / f"flwr-{port}"
    home.mkdir(exist_ok=True)
    ca = here.work / "kits" / "south" / "ca.crt"
    (home / "config.toml").write_text(
        f'[superlink.door]\naddress = "127.0.0.1:{port}"\nroot-certificates = "{ca}"\n'
    )
    settings = {**os.environ, **QUIET, "FLWR_HOME": str(home)}
    command = [str(BIN / "flwr"), *words, "door", "--format", "json"]
    return subprocess.run(command, env=settings, capture_output=True, text=True, cwd=here.work)


def post(here: Deployment, path: str, host: str) -> int:
    """The status of a request at the sites' port, by somebody who has a site's CA file."""
    trust = ssl.create_default_context(cafile=str(here.work / "kits/south/ca.crt"))
    with closing(http.client.HTTPSConnection("127.0.0.1", here.port, context=trust)) as asked:
        asked.request("POST", path, headers={"Host": host})
        with asked.getresponse() as answer:
            return answer.status


def test_a_site_reaches_nothing_of_the_server_but_what_nodes_need(here: Deployment) -> None:
    folder, loot = hostile(here)
    done = flwr(here, here.port, "run", str(folder))
    assert done.returncode != 0 or not json.loads(done.stdout)["success"]
    listed = flwr(here, here.port, "list")
    assert listed.returncode != 0 or not json.loads(listed.stdout)["success"]
    paths = ("/health", "/docs", "/v1/control/start-run", "/v1/runtime/acquire-task", "/v1/fleet")
    for path in paths:
        for host in (f"127.0.0.1:{here.port}", f"x/v1/fleet/?:{here.port + 1}"):
            assert post(here, path, host) == 403, path
    assert post(here, "/v1/fleet/pull-messages", "x/v1/control?") == 403
    assert not list(loot.iterdir())


def raw(here: Deployment, target: str, *headers: str) -> int:
    """The status of a request whose target and headers no client library would write."""
    trust = ssl.create_default_context(cafile=str(here.work / "kits/south/ca.crt"))
    lines = [f"POST {target} HTTP/1.1", "Connection: close", "Content-Length: 0", *headers]
    if not any(line.lower().startswith("host:") for line in headers):
        lines.append(f"Host: 127.0.0.1:{here.port}")
    with (
        socket.create_connection(("127.0.0.1", here.port)) as plain,
        trust.wrap_socket(plain, server_hostname="127.0.0.1") as door,
    ):
        door.sendall("\r\n".join([*lines, "Content-Type: application/x-protobuf", "", ""]).encode())
        return int(door.makefile("rb").readline().split()[1])


def test_no_spelling_of_a_request_leads_past_the_door_of_the_sites(here: Deployment) -> None:
    """Other forms of a path, headers of proxies, an upgrade: none reaches the operator's calls."""
    operators, port = "control/list-runs", here.port + 1
    targets = (
        f"https://127.0.0.1:{port}/v1/{operators}",
        f"/v1/fleet/../{operators}",
        f"/v1/fleet/%2e%2e/{operators}",
        f"/v1/fleet/..%2f{operators.replace('/', '%2f')}",
        f"//v1/{operators}",
        f"/v1/fleet/../../v1/{operators}?x=/v1/fleet/",
        f"/V1/{operators}",
        "/v1/fleet/pull%2Dmessages",
        "/v1/fleet/pull-messages/",
        "/v1/fleet//pull-messages",
        "/v1/fleet/pull-messages;x",
    )
    headers = (
        (),
        (f"X-Forwarded-Port: {port}", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Proto: https"),
        (f"Forwarded: for=127.0.0.1;host=127.0.0.1:{port}", "X-Real-IP: 127.0.0.1"),
        (f"X-Original-URL: /v1/{operators}", f"X-Rewrite-URL: /v1/{operators}"),
        (f"Host: 127.0.0.1:{port}", f"X-Forwarded-Host: 127.0.0.1:{port}"),
        ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
        ("Transfer-Encoding: chunked",),
    )
    for target in targets:
        for more in headers:
            assert raw(here, target, *more) in (307, 400, 401, 403, 404, 405, 415, 422), target


def fleet(here: Deployment, key: ec.EllipticCurvePrivateKey) -> FleetHttpClient:
    """The Fleet API as the holder of a key calls it."""
    ca = (here.work / "kits/south/ca.crt").read_bytes()
    signing = NodeAuthHttpInterceptor(key, key.public_key())
    return FleetHttpClient.from_server_address(f"127.0.0.1:{here.port}", False, ca, [signing])


def test_a_node_neither_listens_nor_speaks_for_another(here: Deployment) -> None:
    """South's key with north's number, and a key that nobody registered."""
    listed = json.loads(here.pace("status").communicate()[0])["nodes"]
    north, south = (
        next(int(each["node"]) for each in listed if each["name"] == name)
        for name in ("north", "south")
    )
    pem = (here.work / "kits/south/node").read_bytes()
    mine, own = load_ssh_private_key(pem, None), ec.generate_private_key(ec.SECP384R1())
    assert isinstance(mine, ec.EllipticCurvePrivateKey)
    for key, number in ((mine, north), (own, north), (own, south), (own, 0)):
        with closing(fleet(here, key)) as client:
            node = Node(node_id=number)
            for call, request in (
                (client.PullMessages, PullMessagesRequest(node=node)),
                (client.PushMessages, PushMessagesRequest(node=node)),
                (client.PullObject, PullObjectRequest(node=node, object_id="0" * 64)),
                (client.SendNodeHeartbeat, SendNodeHeartbeatRequest(node=node)),
                (client.DeactivateNode, DeactivateNodeRequest(node_id=number)),
                (client.UnregisterNode, UnregisterNodeFleetRequest(node_id=number)),
            ):
                with pytest.raises(httpx.HTTPStatusError, match="401"):
                    call(request)
    public = public_key_to_bytes(own.public_key())
    with closing(fleet(here, own)) as client:
        for call, request in (
            (client.RegisterNode, RegisterNodeFleetRequest(public_key=public)),
            (client.ActivateNode, ActivateNodeRequest(public_key=public, heartbeat_interval=30)),
        ):
            with pytest.raises(httpx.HTTPStatusError, match=r"4\d\d"):
                call(request)
    assert {each["name"] for each in listed} == set(NAMES)


def test_at_the_server_no_app_runs_but_what_the_operator_started(here: Deployment) -> None:
    """As if a user of the server's own machine reached the operator's port."""
    folder, loot = hostile(here)
    started = json.loads(flwr(here, here.port + 1, "run", str(folder)).stdout)
    assert started["success"]
    done = here.run()
    out, err = done.communicate()
    assert done.returncode == 0, err.decode()
    assert json.loads(out)["report"]["finished"]
    runs = json.loads(here.pace("status").communicate()[0])["runs"]
    (other,) = (each for each in runs if each["run"] == started["run-id"])
    assert other["status"] == "finished:failed"
    assert "pace flower run" in other["why"]
    assert not list(loot.iterdir())


def test_a_task_is_given_for_the_secret_only(here: Deployment) -> None:
    """At the operator's port, and at the port of a node on its own machine."""
    node = SuperNode.read(here.work / "kits/north/node.toml")
    wait(lambda: "Runtime" in here.log("north") or "Uvicorn" in here.log("north"), LONG)
    for port, ca in ((here.port + 1, node.certificate.read_bytes()), (node.port, None)):
        with pytest.raises(httpx.HTTPStatusError, match="401"):
            Runtime(f"127.0.0.1:{port}", b"guessed", ca).acquire()


def test_a_node_runs_no_app_of_a_hostile_superlink(here: Deployment) -> None:
    """Flower's own SuperLink in the server's place, as its operator may start it: it loads any app."""
    for name in NAMES:
        here.stop(name)
    here.stop("server")
    folder, loot = hostile(here)
    certificates = ["--ssl-certfile", "tls.crt", "--ssl-keyfile", "tls.key", "--ssl-ca-certfile"]
    words = ["--host", "127.0.0.1", "--port", str(here.port), *certificates, "ca.crt"]
    words += ["--enable-supernode-auth", "--disable-runtime-dependency-installation"]
    os.environ["FLWR_HOME"] = str(here.work / "flwr-stock")
    here.start("server", "stock", str(BIN / "flower-superlink"), *words)
    del os.environ["FLWR_HOME"]
    for name in NAMES:
        register = partial(flwr, here, here.port, "supernode", "register")
        public = str(here.server / "nodes" / f"{name}.pub")
        while not json.loads(register(public).stdout)["success"]:  # until it has started
            time.sleep(1)
        here.start(name)
    assert json.loads(flwr(here, here.port, "run", str(folder)).stdout)["success"]
    wait(lambda: (loot / "replies").exists(), LONG)
    assert (loot / "server").exists()  # that app runs where it may
    assert not (loot / "client").exists()
    replies = (loot / "replies").read_text().splitlines()
    assert sorted(set(replies)) == ["{'code': 'format'}", "{'code': 'other-job'}"]
    assert len(replies) == 9
    assert not list((here.work / "kits").rglob("stolen"))  # the app was not even unpacked
