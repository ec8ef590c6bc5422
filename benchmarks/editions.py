"""What an edition of a job costs against a new job for the same sites: CPU seconds, files, bytes.

Five sites by files, of Cora by Louvain; a sixth comes late, then the second leaves. A new job would
have every site fit again. `python -m benchmarks.editions`
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

import pace
from pace.datasets import Dataset
from pace.datasets.file import write_graph
from pace.graph import Graph
from pace.jobs import DOWN, ROLL_SUFFIX, UP, Job, read_edition, render_job, signatures
from pace.methods import make
from pace.models import GCN
from pace.reports import Cell, Table
from pace.runtimes.files import (
    Changes,
    adopt_files,
    fit_files,
    load_site,
    merge_files,
    withdraw_files,
)

SITES = ("east", "north", "south", "west", "young", "zenith")


@dataclass
class Cost:
    """What one way took."""

    seconds: dict[str, float] = field(
        default_factory=lambda: {"fit": 0.0, "server": 0.0, "adopt": 0.0}
    )
    files: int = 0  # carried from one party to another
    bytes: int = 0

    def carry(self, *contents: int) -> None:
        self.files += len(contents)
        self.bytes += sum(contents)


class Parties:
    """Sites and a server in folders, with keys."""

    def __init__(self, root: Path, graphs: Sequence[Graph]) -> None:
        self.root, self.keys = root, {}
        self.classes = 1 + max(int(graph.y.max()) for graph in graphs)
        for name, graph in zip(SITES, graphs, strict=True):
            (root / name).mkdir(parents=True)
            write_graph(root / name / "mine.graph", Dataset(name, graph, self.classes))
        for name in (*SITES, "server"):
            paths = (root / f"{name}.key", root / f"{name}.pub")
            self.keys[name] = signatures.new_keys(*paths)

    def job(self, name: str, method: str, graphs: Sequence[Graph], members: Sequence[str]) -> Job:
        widths = (graphs[0].features, 64, self.classes)
        keys = {party: self.keys[party] for party in (*members, "server")}
        numbers = make(method).numbers
        settings = {"participants": tuple(members), "minimum": len(members), "keys": keys}
        return Job(name, GCN(widths), method, numbers=numbers, **settings)  # type: ignore[arg-type]

    def fit(self, job: Job, name: str, cost: Cost) -> None:
        began, site = time.process_time(), self.root / name
        upload = self.root / job.name / f"{name}{UP}"
        mine, kept = load_site(site / "mine.graph", job), site / f"{job.name}.local"
        fit_files(job, mine, kept, upload, key=self.root / f"{name}.key", editions=True)
        cost.seconds["fit"] += time.process_time() - began
        cost.carry(upload.stat().st_size)

    def merge(self, job: Job, out: str, cost: Cost, changes: Changes | None = None) -> None:
        began, folder = time.process_time(), self.root / job.name
        key, journal = self.root / "server.key", folder / "journal"
        merge_files(job, [folder], journal=journal, out=folder / out, key=key, changes=changes)
        cost.seconds["server"] += time.process_time() - began

    def adopt(self, job: Job, out: str, members: Sequence[str], cost: Cost) -> None:
        for name in members:
            began, site = time.process_time(), self.root / name
            paths = [self.root / job.name / out / f"{name}{end}" for end in (DOWN, ROLL_SUFFIX)]
            returned, roll = (path.read_bytes() for path in paths)
            mine, model = load_site(site / "mine.graph", job), site / f"{job.name}.model"
            kept = site / f"{job.name}.local"
            adopt_files(job, mine, kept, model, returned=returned, roll=roll)
            cost.seconds["adopt"] += time.process_time() - began
            cost.carry(len(returned), len(roll))


def whole_job(parties: Parties, job: Job, cost: Cost) -> None:
    """Everybody gets the job, fits, is merged and adopts."""
    (parties.root / job.name).mkdir()
    for name in job.participants:
        cost.carry(len(render_job(job).encode()))
        parties.fit(job, name, cost)
    parties.merge(job, "one", cost)
    parties.adopt(job, "one", job.participants, cost)


def measure(method: str, graphs: Sequence[Graph], root: Path) -> dict[str, Cost]:
    parties, first = Parties(root, graphs), SITES[:5]
    costs: dict[str, Cost] = {}

    def begun(title: str) -> Cost:
        return costs.setdefault(f"{method}: {title}", Cost())

    job = parties.job("job", method, graphs, first)
    whole_job(parties, job, begun("the first job, five sites"))
    cost = begun("edition 2, a sixth site comes")
    added = Changes(added={SITES[5]: parties.keys[SITES[5]]})
    parties.merge(job, "two", cost, added)
    record = root / "job" / "two" / "job.2.edition"
    cost.carry(len(render_job(job).encode()), record.stat().st_size)
    parties.fit(read_edition(record, job), SITES[5], cost)
    parties.merge(job, "two", cost)
    parties.adopt(job, "two", SITES, cost)
    whole_job(
        parties, parties.job("six", method, graphs, SITES), begun("a new job for the same six")
    )
    cost = begun("edition 3, one of six leaves")
    leaver, out = SITES[1], root / "north.withdrawal"
    key = root / f"{leaver}.key"
    withdraw_files(read_edition(record, job), root / leaver / "job.local", out, key=key)
    cost.carry(out.stat().st_size)
    (root / "job" / f"{leaver}{UP}").unlink()
    parties.merge(job, "three", cost, Changes(withdrawn=[out]))
    cost.carry((root / "job" / "three" / f"{leaver}.certificate").stat().st_size)
    rest = [name for name in SITES if name != leaver]
    parties.adopt(job, "three", rest, cost)
    whole_job(
        parties, parties.job("five", method, graphs, rest), begun("a new job for the same five")
    )
    return costs


def cost_table(costs: dict[str, Cost]) -> Table:
    heads = ["What happens", "Fit", "Merge", "Adopt", "Files carried", "Bytes carried"]
    rows: list[list[Cell]] = [
        [title, *(f"{s:.1f}" for s in cost.seconds.values()), cost.files, f"{cost.bytes:,}"]
        for title, cost in costs.items()
    ]
    return Table.of(
        "An edition against a new job, CPU seconds of all parties", heads, rows, words=0
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", default="pace,pace-ridge,pace-full")
    parser.add_argument("--dataset", default="cora")
    words = parser.parse_args()
    graphs = pace.divide(pace.load(words.dataset), "louvain", clients=len(SITES))
    torch.set_num_threads(1)
    costs: dict[str, Cost] = {}
    for method in words.methods.split(","):
        with tempfile.TemporaryDirectory() as folder:
            costs |= measure(method, graphs, Path(folder))
    print(cost_table(costs).markdown())


if __name__ == "__main__":
    main()
