"""The process in which a node works: one step, then it ends. `python -m pace.runtimes.network.worker`.

The first line of stdin is a JSON object, followed by the bytes of a return. stdin then stays open:
when it closes, whoever asked is gone, and this process ends too. stdout gets one JSON object with a
fixed code; everything in words goes to stderr, which stays on this machine.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from pace.runtimes.network.codes import OK, code_of
from pace.runtimes.network.messages import UPLOAD
from pace.runtimes.network.node import Node


def main() -> None:
    asked = json.loads(sys.stdin.buffer.readline())
    returned = sys.stdin.buffer.read(asked["bytes"])
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    print(json.dumps(answer(asked, returned)), flush=True)


def answer(asked: dict[str, Any], returned: bytes) -> dict[str, str]:
    """What came of it: `ok` and the file that was made, or the code of what went wrong."""
    try:
        import torch

        from pace.runtimes.network import site_steps

        torch.set_num_threads(1)  # two threads on small products are slower than one
        node = Node.of(asked["node"])
        if asked["step"] == UPLOAD:
            made: Path = site_steps.upload(node, asked["job"])
        else:
            made = site_steps.adopt(node, asked["job"], returned)
        return {"code": OK, "made": str(made)}
    except Exception as error:
        return {"code": code_of(error)}


def _end_with_stdin() -> None:
    while os.read(0, 1):  # not `sys.stdin`: its lock would be held while Python shuts down
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
