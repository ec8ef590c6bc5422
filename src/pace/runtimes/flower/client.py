"""The ClientApp: two handlers that hand over to the node's own process and send its answer.

A handler keeps nothing in memory and raises nothing: Flower would send the text of an exception to
the server. What the server may choose is the job it names, and nothing else.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from pace.errors import FileError, PaceError
from pace.runtimes.flower import watchdog
from pace.runtimes.flower.node import Config
from pace.runtimes.flower.records import RETURN, UPLOAD, Words, pack, payload, text, unpack

SettingsOf = Callable[[Context], Config]


def client_app(settings: SettingsOf = lambda context: context.node_config) -> ClientApp:
    """An app whose nodes read their settings from `--node-config`; a simulation has others."""
    app = ClientApp()

    def reply(
        message: Message, context: Context, step: Callable[[Config, Words], Words]
    ) -> Message:
        try:
            words = step(settings(context), unpack(message.content))
        except PaceError as error:
            print(f"pace: {error.code}: {error}", flush=True)
            words = {"code": error.code}
        except OSError as error:
            print(f"pace: {FileError.code}: {error}", flush=True)
            words = {"code": FileError.code}
        except Exception:  # whatever it was, its text must not travel
            traceback.print_exc()
            words = {"code": watchdog.FAILED}
        return Message(pack(words), reply_to=message)

    app.query(UPLOAD)(lambda message, context: reply(message, context, upload_step))
    app.query(RETURN)(lambda message, context: reply(message, context, return_step))
    return app


def upload_step(config: Config, asked: Words) -> Words:
    """The upload, or the code of why there is none."""
    done = watchdog.run(config, UPLOAD, text(asked, "job"))
    if done["code"] != watchdog.OK:
        return {"code": done["code"]}
    content = Path(done["made"]).read_bytes()
    return {"code": watchdog.OK, "name": str(config["name"]), "payload": content}


def return_step(config: Config, asked: Words) -> Words:
    """Nothing, once the return is applied; else the code of why it is not."""
    done = watchdog.run(config, RETURN, text(asked, "job"), payload(asked))
    return {} if done["code"] == watchdog.OK else {"code": done["code"]}


app = client_app()
