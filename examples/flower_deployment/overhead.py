"""What the network costs: the same round over Flower on this machine, and in this process.

python overhead.py [FOLDER]
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from pace.data import file
from pace.jobs import job_file
from pace.protocol import steps

NAMES = ("north", "south", "west")


def deployed(work: Path) -> tuple[float, dict[str, Any]]:
    """Seconds of the whole script, and what `pace flower run` said."""
    settings = {"WORK": str(work), "NAMES": " ".join(NAMES), "PYTHON": sys.executable}
    command = [str(Path(__file__).with_name("start.sh")), "--json"]
    began = time.perf_counter()
    done = subprocess.run(
        command, env={**os.environ, **settings}, stdout=subprocess.PIPE, check=True
    )
    said = next(line for line in done.stdout.splitlines() if line.startswith(b"{"))
    return time.perf_counter() - began, json.loads(said)


def in_process(work: Path) -> float:
    """Seconds of fit, merge and adopt for all sites, one after the other."""
    torch.set_num_threads(1)
    federation = job_file.read(work / "server" / "job.pace").federation
    graphs = [file.read(work / name / "mine.graph").graph for name in NAMES]
    began = time.perf_counter()
    fitted = [steps.fit(graph, federation) for graph in graphs]
    returns = steps.merge([upload for _, upload in fitted], federation)
    for graph, (kept, _), returned in zip(graphs, fitted, returns, strict=True):
        steps.adopt(graph, kept, returned, federation)
    return time.perf_counter() - began


def main(work: Path) -> None:
    whole, said = deployed(work)
    report = said["report"]
    for step in ("upload", "return"):
        seconds = [each["seconds"] for each in report["contacts"] if each["step"] == step]
        print(f"{step}: {min(seconds):.1f} to {max(seconds):.1f} s until a node's answer was here")
    print(f"the run: {said['elapsed']:.1f} s; with certificates, start and stop: {whole:.1f} s")
    print(f"the same round in one process: {in_process(work):.2f} s")
    frames = len(NAMES) * sum(report["bytes"][f"{kind}_frame"] for kind in ("upload", "return"))
    moved = said["network-traffic"]["total-bytes"]
    print(
        f"frames: {frames:,} bytes; moved, as Flower counts: {moved:,} ({moved / frames:.2f} times)"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute() if sys.argv[1:] else Path(tempfile.mkdtemp()))
