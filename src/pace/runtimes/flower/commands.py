"""Many of Flower's commands in one process: `python -m pace.runtimes.flower.commands`.

Starting `flwr` costs a second or two, which hundreds of nodes would pay each. A line of stdin is the
JSON list of a command's words; what the command prints is followed by a line with END. The command is
what Flower installs as `flwr`, called as its own script calls it.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from importlib.metadata import entry_points

END = "\x1e"  # ASCII's record separator


def main() -> None:
    (script,) = entry_points(group="console_scripts", name="flwr")
    command = script.load()
    for line in sys.stdin:
        with suppress(SystemExit):  # each command ends with it, well or badly
            command(json.loads(line))
        print(f"\n{END}", flush=True)


if __name__ == "__main__":
    main()
