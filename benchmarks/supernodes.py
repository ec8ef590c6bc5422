"""How many SuperNodes one machine holds: real ones, against a real SuperLink with TLS, added in steps.

    python benchmarks/supernodes.py [--nodes 40] [--step 5] [--gib 12] [--seconds 480]

It needs the extra `flower`, and Linux: memory is the proportional set size of /proc, in which pages that
processes share are counted once. After each step it prints a JSON object: nodes online, seconds of the
step, memory in MiB. It stops at so many nodes, at so much memory or after so many seconds; unless it was
the seconds, one round is played with those who are there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from pace.datasets import Dataset, Synthetic, client_graphs, file, generator, synthetic
from pace.jobs import SERVER, Job, write_job
from pace.models import GCN
from pace_network.flower import kits

FEATURES, CLASSES, NODES = 100, 6, 200  # of a site's graph
PORT = 23080


def family(roots: set[int]) -> set[int]:
    """These processes and those that descend from them."""
    parents = {}
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            with suppress(OSError, ValueError):
                parents[int(path.name)] = int(
                    (path / "stat").read_text().rpartition(")")[2].split()[1]
                )
    found = set(roots)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def memory(pids: set[int]) -> float:
    """Their proportional set size, MiB."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += int(rollup.partition("\nPss:")[2].split()[0])
    return total / 1024


class Deployment:
    """Kits of many sites on this machine, started one after the other."""

    def __init__(self, work: Path, names: tuple[str, ...]) -> None:
        self.work, self.names = work, names
        job = Job("load", GCN((FEATURES, 64, CLASSES)), epochs=5, participants=names, minimum=3)
        write_job(work / "job.pace", job)
        kits.provision(work / "job.pace", "127.0.0.1", work / "kits", port=PORT, node_port=PORT + 2)
        sizes = Synthetic(nodes=NODES, classes=CLASSES, features=FEATURES, communities=2)
        (graph,) = client_graphs(synthetic(sizes), [range(NODES)], CLASSES, generator())
        for name in names:
            file.write_graph(work / "kits" / name / "mine.graph", Dataset(name, graph, CLASSES))
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        with (self.work / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [str(self.work / "kits" / name / "start.sh")],
                env={**os.environ, "PATH": beside},
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def pids(self) -> set[int]:
        roots = {each.pid for each in self.processes.values()}
        return family(roots)

    def says(self, name: str, words: str) -> int:
        return (self.work / f"{name}.log").read_text(errors="replace").count(words)

    def ready(self, name: str) -> bool:
        return bool(self.says(name, "SuperNode ID"))

    def run(self) -> dict[str, Any]:
        pace = [str(Path(sys.executable).with_name("pace")), "flower", "run", "--json"]
        here = self.work / "kits" / SERVER
        done = subprocess.run([*pace, "--deadline", "120"], cwd=here, capture_output=True)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def close(self) -> None:
        for name in sorted(self.processes, key=lambda name: name == SERVER):
            self.processes[name].terminate()
        for process in self.processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=40, help="at most")
    parser.add_argument("--step", type=int, default=5)
    parser.add_argument("--gib", type=float, default=12.0, help="of memory, at most")
    parser.add_argument("--seconds", type=float, default=480.0, help="at most, for all steps")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        names = tuple(f"site-{place:03}" for place in range(given.nodes))
        here = Deployment(Path(folder), names)
        try:
            measure(here, given)
        finally:
            here.close()


def measure(here: Deployment, given: argparse.Namespace) -> None:
    began = time.monotonic()
    here.start(SERVER)
    while here.says(SERVER, "Registered: ") < len(here.names):
        time.sleep(0.5)
    server = memory(here.pids())
    print(json.dumps({"registered": len(here.names), "seconds": round(time.monotonic() - began, 1),
                      "server_mib": round(server)}), flush=True)  # fmt: skip
    online: list[str] = []
    used = 0.0
    while len(online) < len(here.names) and used < 1024 * given.gib:
        step = here.names[len(online) : len(online) + given.step]
        since = time.monotonic()
        for name in step:
            here.start(name)
        while not all(map(here.ready, step)):
            if time.monotonic() - began > given.seconds:
                print(json.dumps({"stopped": f"after {given.seconds:.0f} s"}), flush=True)
                return
            time.sleep(0.5)
        online += step
        used = memory(here.pids())
        each = (used - server) / len(online)
        print(json.dumps({"online": len(online), "step_seconds": round(time.monotonic() - since, 1),
                          "mib": round(used), "mib_a_node": round(each)}), flush=True)  # fmt: skip
    found = here.run()
    took_part = len(found["report"]["took_part"])
    print(json.dumps({"round_of": took_part, "seconds": found["elapsed"],
                      "mib": round(memory(here.pids()))}))  # fmt: skip


if __name__ == "__main__":
    main()
