"""What the network costs: the same round over Flower on this machine, and in this process.

    python overhead.py [FOLDER] [--sites 3] [--before CHECKOUT]

`--before` measures the deployment of another checkout of this project in the same run.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from pace.datasets import file
from pace.jobs import read_job
from pace.protocol import steps

HERE = Path(__file__).parent


def deployed(
    work: Path, sites: int, folder: Path = HERE, **more: str
) -> tuple[float, dict[str, Any]]:
    """Seconds of the whole script, and what `pace flower run` said."""
    names = " ".join(f"site-{place}" for place in range(sites))  # for checkouts that ask for names
    settings = {"WORK": str(work), "SITES": str(sites), "NAMES": names, "PYTHON": sys.executable}
    command = [str(folder / "start.sh"), "--json"]
    began = time.perf_counter()
    done = subprocess.run(
        command, env={**os.environ, **settings, **more}, stdout=subprocess.PIPE, check=True
    )
    said = next(line for line in done.stdout.splitlines() if line.startswith(b"{"))
    return time.perf_counter() - began, json.loads(said)


def in_process(work: Path) -> float:
    """Seconds of fit, merge and adopt for all sites, one after the other."""
    torch.set_num_threads(1)
    federation = read_job(work / "job.pace").federation
    graphs = [file.read_graph(path).graph for path in sorted(work.glob("graphs/*.graph"))]
    began = time.perf_counter()
    fitted = [steps.fit(graph, federation) for graph in graphs]
    returns = steps.merge([upload for _, upload in fitted], federation)
    for graph, (kept, _), returned in zip(graphs, fitted, returns, strict=True):
        steps.adopt(graph, kept, returned, federation)
    return time.perf_counter() - began


def say(whole: float, said: dict[str, Any], sites: int) -> None:
    report = said["report"]
    for step in ("upload", "return"):
        seconds = [each["seconds"] for each in report["contacts"] if each["step"] == step]
        print(f"{step}: {min(seconds):.1f} to {max(seconds):.1f} s until a node's answer was here")
    print(f"the run: {said['seconds']:.1f} s; with set-up, start and stop: {whole:.1f} s")
    frames = sites * sum(report["bytes"][f"{kind}_frame"] for kind in ("upload", "return"))
    moved = said["bytes"]
    print(
        f"frames: {frames:,} bytes; moved, as Flower counts: {moved:,} ({moved / frames:.2f} times)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--sites", type=int, default=3)
    parser.add_argument("--before", type=Path, help="another checkout of this project")
    given = parser.parse_args()
    work = (given.folder or Path(tempfile.mkdtemp())).absolute()
    if given.before:
        examples = given.before.absolute() / "examples" / "flower_deployment"
        path = {"PYTHONPATH": str(given.before.absolute() / "src")}
        before = deployed(work / "before", given.sites, examples, **path)
        print(f"before, {given.before}:")
        say(*before, given.sites)
        print("now:")
    now = deployed(work, given.sites)
    say(*now, given.sites)
    if given.before:
        print(f"now against before: {now[1]['seconds'] / before[1]['seconds']:.2f} of the seconds")
    print(f"the same round in one process: {in_process(work):.2f} s")


if __name__ == "__main__":
    main()
