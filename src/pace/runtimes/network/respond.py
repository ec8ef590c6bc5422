"""A node's answer to a message: what its step gave, or the code of what went wrong.

What the server may choose is the job it names, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pace.runtimes.network import watchdog
from pace.runtimes.network.codes import OK, code_of
from pace.runtimes.network.messages import UPLOAD, Words, payload, text
from pace.runtimes.network.node import Config


def respond(settings: Callable[[], Config], kind: str, asked: Words) -> Words:
    """The upload, or nothing once the return is applied; else a code. It raises nothing."""
    try:
        config = settings()
        done = watchdog.run(config, kind, text(asked, "job"), payload(asked))
        if done["code"] != OK:
            return {"code": done["code"]}
        if kind != UPLOAD:
            return {}
        content = Path(done["made"]).read_bytes()
        return {"code": OK, "name": str(config["name"]), "payload": content}
    except Exception as error:
        return {"code": code_of(error)}
