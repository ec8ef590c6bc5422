"""A node's answer to a message: what its step gave, or the code of what went wrong.

What the server may choose is the job it names, and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from pace.runtimes.network import watchdog
from pace.runtimes.network.codes import OK, code_of, log
from pace.runtimes.network.messages import UPLOAD, Words, content, text
from pace.runtimes.network.node import Config
from pace.runtimes.network.watchdog import Station


def respond(
    settings: Callable[[], Config], kind: str, asked: Words, station: Station | None = None
) -> Words:
    """The upload, or nothing once the return is applied; else a code. It raises nothing."""
    began = time.perf_counter()
    try:
        config = settings()
        returned, roll = content(asked, "payload"), content(asked, "roll")
        done = watchdog.run(config, kind, text(asked, "job"), returned, roll, station=station)
        if done["code"] != OK:
            return {"code": done["code"]}
        name, seconds = str(config["name"]), time.perf_counter() - began
        if kind != UPLOAD:
            log(f"{name}: confirmed, after {seconds:.1f} s")
            return {}
        upload = Path(done["made"]).read_bytes()
        log(f"{name}: upload sent, {len(upload):,} bytes, after {seconds:.1f} s")
        return {"code": OK, "name": name, "payload": upload}
    except Exception as error:
        return {"code": code_of(error)}
