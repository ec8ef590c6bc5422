"""Flower's SuperLink with two doors: one for sites, and one on loopback for the server's operator.

Flower 1.41 serves three APIs at one port, and asks for a key at one of them only: the Fleet API, which
nodes use. Anyone who reaches the Control API may start a run of any app. So the port that sites reach
leads to the Fleet API alone; the next port has everything, and only this machine reaches it. Tasks are
given for the kit's secret, and no process here loads an app (see `tasks`).
"""

import os
import re
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

import uvicorn
from flwr.supercore.http_logging import get_uvicorn_log_config
from flwr.supercore.logger import console_handler
from flwr.superlink.cli.flower_superlink import SuperLinkLifespan, _parse_superlink_lifespan_config
from flwr.superlink.main import create_app

from pace.errors import FileError
from pace_network.exchange import FlowerError, log
from pace_network.flower.control import Control
from pace_network.flower.kits import ServerKit

FLEET = "/v1/fleet/"
OPTIONS = (
    *("--database", "superlink.db", "--superexec-auth-secret-file", "secret"),
    *("--ssl-certfile", "tls.crt", "--ssl-keyfile", "tls.key", "--ssl-ca-certfile", "ca.crt"),
    *("--isolation", "process", "--enable-supernode-auth"),
)
LOOPBACK = "127.0.0.1"
# Older versions of Starlette read a path out of a host with a slash, past Flower's check of keys.
HOST = re.compile(rb"[A-Za-z0-9.:\[\]-]*")

Scope = MutableMapping[str, Any]
Call = Callable[..., Awaitable[Any]]


def serve(kit: ServerKit, address: str = "") -> None:
    """Serve sites at an address of this machine until this process ends, and let the kit's nodes in."""
    os.chdir(kit.folder)
    os.environ["FLWR_HOME"] = os.path.abspath("flwr-home")
    sys.argv = ["flower-superlink", *OPTIONS, "--host", LOOPBACK, "--port", str(kit.port + 1)]
    app = fleet_only(create_app(_parse_superlink_lifespan_config(), SuperLinkLifespan), kit.port)
    logs = get_uvicorn_log_config(console_handler.level)
    config = uvicorn.Config(app, log_config=logs, ssl_certfile="tls.crt", ssl_keyfile="tls.key")
    doors = [
        socket.create_server((address, kit.port)),
        socket.create_server((LOOPBACK, kit.port + 1)),
    ]
    threading.Thread(target=_register, args=[kit.port], daemon=True).start()
    uvicorn.Server(config).run(sockets=doors)


def _register(port: int) -> None:
    """Let the nodes of this folder's kit join, as soon as the SuperLink answers."""
    control, waiting = Control(ServerKit(port)), sorted(Path("nodes").glob("*.pub"))
    while waiting:
        name = waiting[0].stem
        try:
            log(f"Registered: {name} is node {control.register(name, waiting[0])}")
        except FlowerError:
            time.sleep(1.0)
            continue
        except FileError as error:
            log(str(error))
        waiting.pop(0)


def fleet_only(app: Call, port: int) -> Call:
    """The app, of which only the Fleet API is reached at this port."""

    def allowed(scope: Scope) -> bool:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        here = scope["server"][1] == port + 1 or scope["path"].startswith(FLEET)
        return here and all(map(HOST.fullmatch, hosts))

    async def gate(scope: Scope, receive: Call, send: Call) -> None:
        if scope["type"] == "lifespan" or allowed(scope):
            await app(scope, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 403, "headers": []})
            await send({"type": "http.response.body", "body": b"this port is for nodes only"})
        else:
            await send({"type": "websocket.close"})

    return gate
