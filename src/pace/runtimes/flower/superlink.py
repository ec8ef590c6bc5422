"""Flower's SuperLink with two doors: one for sites, and one on loopback for the server's operator.

Flower 1.41 serves three APIs at one port, and asks for a key at one of them only: the Fleet API, which
nodes use. Anyone who reaches the Control API may start a run of any app. So the port that sites reach
leads to the Fleet API alone; the next port has everything, and only this machine reaches it. Tasks are
given for the kit's secret, and no process here loads an app (see `tasks`).
"""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn
from flwr.supercore.http_logging import get_uvicorn_log_config
from flwr.supercore.logger import console_handler
from flwr.superlink.cli.flower_superlink import SuperLinkLifespan, _parse_superlink_lifespan_config
from flwr.superlink.main import create_app

from pace.errors import FileError, FlowerError
from pace.runtimes.flower.control import Control
from pace.runtimes.flower.kits import ServerKit
from pace.runtimes.network.messages import log

FLEET = "/v1/fleet/"
LOOPBACK = "127.0.0.1"
# Older versions of Starlette read a path out of a host with a slash, past Flower's check of keys.
HOST = re.compile(rb"[A-Za-z0-9.:\[\]-]*")

Scope = MutableMapping[str, Any]
Call = Callable[..., Awaitable[Any]]


def serve(kit: ServerKit) -> None:
    """Serve until this process is ended, and let the kit's nodes in."""
    files = {
        "--database": "superlink.db",
        "--superexec-auth-secret-file": "secret",
        "--ssl-certfile": "tls.crt",
        "--ssl-keyfile": "tls.key",
        "--ssl-ca-certfile": "ca.crt",
    }
    words = [word for option, name in files.items() for word in (option, str(kit.folder / name))]
    words += ["--host", LOOPBACK, "--port", str(kit.port + 1), "--isolation", "process"]
    os.environ["FLWR_HOME"] = str((kit.folder / "flwr-home").absolute())
    sys.argv = ["flower-superlink", *words, "--enable-supernode-auth"]
    lifespan = _parse_superlink_lifespan_config()
    config = uvicorn.Config(
        fleet_only(create_app(lifespan, SuperLinkLifespan), kit.port),
        log_config=get_uvicorn_log_config(console_handler.level),
        ssl_certfile=str(kit.folder / "tls.crt"),
        ssl_keyfile=str(kit.folder / "tls.key"),
    )
    doors = [socket.create_server(("", kit.port)), socket.create_server((LOOPBACK, kit.port + 1))]
    threading.Thread(target=_register, args=[kit], daemon=True).start()
    uvicorn.Server(config).run(sockets=doors)


def _register(kit: ServerKit) -> None:
    """Let the nodes of the kit join, as soon as the SuperLink answers."""
    for public in sorted(kit.folder.glob("nodes/*.pub")):
        while True:
            try:
                log(
                    f"Registered: {public.stem} is node {Control(kit).register(public.stem, public)}"
                )
                break
            except FlowerError:
                time.sleep(1.0)
            except FileError as error:
                log(str(error))
                break


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
