"""The ClientApp: two handlers that send what the node responds.

A handler keeps nothing in memory and raises nothing: Flower would send the text of an exception to
the server.
"""

from __future__ import annotations

from collections.abc import Callable

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from pace.runtimes.flower.records import pack, unpack
from pace.runtimes.network.messages import RETURN, UPLOAD
from pace.runtimes.network.node import Config
from pace.runtimes.network.respond import respond
from pace.runtimes.network.watchdog import Station

SettingsOf = Callable[[Context], Config]


def client_app(
    settings: SettingsOf = lambda context: context.node_config,
    station: Callable[[], Station | None] = lambda: None,
) -> ClientApp:
    """An app whose nodes read their settings from `--node-config`; a simulation has others.

    Flower ends the ClientApp's process with each message. The worker it starts goes on until
    Flower's own process at this node, which started us, has ended; `station` may say otherwise.
    """
    app = ClientApp()

    def handler(kind: str) -> Callable[[Message, Context], Message]:
        def handle(message: Message, context: Context) -> Message:
            words = respond(lambda: settings(context), kind, unpack(message.content), station())
            return Message(pack(words), reply_to=message)

        return handle

    for kind in (UPLOAD, RETURN):
        app.query(kind)(handler(kind))
    return app


app = client_app()
