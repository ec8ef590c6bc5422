"""The process in which a node works: `python -m pace.runtimes.network.worker FOLDER OWNER`.

It loads torch once and then waits at a socket, so that of a node's two steps only the first pays for
it. Every step runs in a child of its own, forked from here: nothing of one step is left for the next,
and a step that hangs is killed alone. `worker.json` in FOLDER says where the socket is; only this
user can reach it.

A request is a line of JSON, then the bytes of a return and of its roll. The answer is two lines: the
child's process number, then a JSON object with a fixed code. Whatever is said in words goes to stderr,
which stays on this machine. A child ends when whoever asked is gone, the worker when its owner is (the
process OWNER) or when nobody has asked for half an hour.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TypedDict

from pace.io import atomic
from pace.runtimes.network.codes import OK, code_of, log
from pace.runtimes.network.messages import UPLOAD
from pace.runtimes.network.node import Config, Node

PLACE = "worker.json"
IDLE = 1800.0  # seconds
LOOK = 1.0  # seconds between looks at the owner, where the system cannot tell when it ends


class Asked(TypedDict):
    """The line that `watchdog.run` sends; what it announces in `bytes` follows."""

    node: Config
    step: str
    job: str
    bytes: dict[str, int]


def main(folder: Path, owner: int) -> None:
    import torch

    from pace.runtimes.network import site_steps  # noqa: F401  loaded here, used by the children

    torch.set_num_threads(1)  # two threads on small products are slower than one
    private = Path(
        tempfile.mkdtemp(prefix="pace-")
    )  # the folder's own path may be too long for one
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(private / "door"))
        door.listen()
        if worker := os.fork():
            where = {"socket": str(private / "door"), "pid": worker}
            atomic.write(folder / PLACE, json.dumps(where).encode(), private=True)
            os._exit(0)  # whoever started us knows by this that the worker listens
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
        try:
            serve(door, owner)
        finally:
            shutil.rmtree(private, ignore_errors=True)


def serve(door: socket.socket, owner: int) -> None:
    """Fork a child for each who calls, until the owner has ended or nobody calls any more."""
    end = time.monotonic() + IDLE
    with selectors.DefaultSelector() as waiting:
        waiting.register(door, selectors.EVENT_READ)
        told = os.pidfd_open(owner) if hasattr(os, "pidfd_open") and alive(owner) else None
        if told is not None:  # it tells of an end that nobody has collected yet
            waiting.register(told, selectors.EVENT_READ)
        while alive(owner) and (left := end - time.monotonic()) > 0:
            wait = left if told is not None else min(left, LOOK)
            ready = [key.fileobj for key, _ in waiting.select(wait)]
            if told in ready:
                return
            if door in ready:
                end = time.monotonic() + IDLE
                caller, _ = door.accept()
                with caller:
                    if os.fork() == 0:
                        door.close()
                        step(caller)


def step(caller: socket.socket) -> None:
    """One step in a child, which then ends."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with caller.makefile("rb") as stream:
            asked: Asked = json.loads(stream.readline())
            returned, roll = (stream.read(asked["bytes"][key]) for key in ("return", "roll"))
        caller.sendall(f"{os.getpid()}\n".encode())
        threading.Thread(target=_end_with, args=[caller], daemon=True).start()
        caller.sendall(json.dumps(answer(asked, returned, roll)).encode() + b"\n")
        code = 0
    finally:
        os._exit(code)


def answer(asked: Asked, returned: bytes, roll: bytes) -> dict[str, str]:
    """What came of it: `ok` and the file that was made, or the code of what went wrong."""
    try:
        from pace.runtimes.network import site_steps

        node = Node.of(asked["node"])
        if asked["step"] == UPLOAD:
            log(f"{node.name}: asked for the upload of job {asked['job'][:16]}")
            made: Path = site_steps.upload(node, asked["job"])
        else:
            log(f"{node.name}: the return of job {asked['job'][:16]} came, {len(returned):,} bytes")
            made = site_steps.adopt(node, asked["job"], returned, roll)
        return {"code": OK, "made": str(made)}
    except Exception as error:
        return {"code": code_of(error)}


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _end_with(caller: socket.socket) -> None:
    while caller.recv(1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
