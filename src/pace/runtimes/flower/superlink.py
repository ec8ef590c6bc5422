"""Flower's SuperLink with two doors: one for sites, and one on loopback for the server's operator.

Flower 1.41 serves three APIs at one port, and asks for a key at one of them only: the Fleet API, which
nodes use. Anyone who reaches the Control API may start a run of any app. So the port that sites reach
leads to the Fleet API alone; the next port has everything, and only this machine reaches it. Tasks are
given for the kit's secret, and no process here loads an app (see `tasks`).
"""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

import uvicorn
from flwr.supercore.http_logging import get_uvicorn_log_config
from flwr.supercore.logger import console_handler
from flwr.superlink.cli.flower_superlink import SuperLinkLifespan, _parse_superlink_lifespan_config
from flwr.superlink.main import create_app

FLEET = "/v1/fleet/"
LOOPBACK = "127.0.0.1"
# Older versions of Starlette read a path out of a host with a slash, past Flower's check of keys.
HOST = re.compile(rb"[A-Za-z0-9.:\[\]-]*")

Scope = MutableMapping[str, Any]
Call = Callable[..., Awaitable[Any]]


def serve(kit: Path, port: int) -> None:
    """Serve until this process is ended: sites at `port`, the operator at the next one."""
    options = {
        "--host": LOOPBACK,
        "--port": str(port + 1),
        "--database": str(kit / "superlink.db"),
        "--isolation": "process",
        "--superexec-auth-secret-file": str(kit / "secret"),
        "--ssl-certfile": str(kit / "tls.crt"),
        "--ssl-keyfile": str(kit / "tls.key"),
        "--ssl-ca-certfile": str(kit / "ca.crt"),
    }
    words = [word for option in options.items() for word in option]
    sys.argv = ["flower-superlink", *words, "--enable-supernode-auth"]
    app = create_app(_parse_superlink_lifespan_config(), SuperLinkLifespan)
    config = uvicorn.Config(
        fleet_only(app, port),
        log_config=get_uvicorn_log_config(console_handler.level),
        ssl_certfile=options["--ssl-certfile"],
        ssl_keyfile=options["--ssl-keyfile"],
    )
    doors = [socket.create_server(("", port)), socket.create_server((LOOPBACK, port + 1))]
    uvicorn.Server(config).run(sockets=doors)


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
