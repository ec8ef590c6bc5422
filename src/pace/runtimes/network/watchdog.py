"""A step in a process of its own, with a limit: a node that hangs would be lost for every later run."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from threading import Event, Timer

from pace.runtimes.network.codes import FAILED, TOO_SLOW
from pace.runtimes.network.node import Config, Node


def run(config: Config, step: str, job: str, returned: bytes = b"") -> dict[str, str]:
    """The worker's answer: a fixed code and, if it is `ok`, the path of what was made."""
    limit = Node.of(config).limit
    words = {"node": dict(config), "step": step, "job": job, "bytes": len(returned)}
    command = [sys.executable, "-m", "pace.runtimes.network.worker"]
    ended = Event()  # set before the worker is killed: who reads its end must know why

    def end() -> None:
        ended.set()
        worker.kill()

    # A worker that died before it had read everything breaks the pipe, here and when it is closed.
    with (
        suppress(BrokenPipeError),
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker,
    ):
        assert worker.stdin is not None
        assert worker.stdout is not None
        timer = Timer(limit, end)
        timer.start()
        with suppress(BrokenPipeError):
            worker.stdin.write(json.dumps(words).encode() + b"\n" + returned)
            worker.stdin.flush()  # and left open: the worker ends when this process does
        said = worker.stdout.read()
        worker.wait()
        timer.cancel()
    if said:
        answer: dict[str, str] = json.loads(said)
        return answer
    if ended.is_set():
        print(f"pace: the {step} took more than {limit:.0f} s and was ended", file=sys.stderr)
        return {"code": TOO_SLOW}
    return {"code": FAILED}
