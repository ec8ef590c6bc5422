"""What an edition of a job costs against a new job for the same sites: fits, files and bytes carried.

Five sites by files, of Cora by Louvain; a sixth comes late, then the second leaves. A new job would
have every site fit again. `python -m benchmarks.editions`
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import pace
from pace.datasets import Dataset
from pace.datasets.file import write_graph
from pace.graph import Graph
from pace.jobs import DOWN, ROLL_SUFFIX, SERVER, UP, Job, read_edition, render_job, signatures
from pace.models import GCN
from pace.reports import Table
from pace.runtimes import files

METHOD, SITES = "pace-ridge", ("east", "north", "south", "west", "young", "zenith")


class Parties:
    """Sites and a server in one folder, with keys; what each way cost."""

    def __init__(self, root: Path, graphs: Sequence[Graph]) -> None:
        self.root, self.costs = root, dict[str, list[int]]()
        classes = 1 + max(int(graph.y.max()) for graph in graphs)
        self.model = GCN((graphs[0].features, 64, classes))
        for name, graph in zip(SITES, graphs, strict=True):
            write_graph(root / f"{name}.graph", Dataset(name, graph, classes))
        self.keys = {
            name: signatures.new_keys(root / f"{name}.key", root / f"{name}.pub")
            for name in (*SITES, SERVER)
        }

    def begin(self, title: str) -> None:
        """What follows is the cost of this."""
        self.cost = self.costs[title] = [0, 0, 0]  # fits, files carried, their bytes

    def carry(self, *contents: bytes) -> None:
        self.cost[1] += len(contents)
        self.cost[2] += sum(map(len, contents))

    def fit(self, job: Job, name: str) -> None:
        folder, mine = self.root / job.name, files.load_site(self.root / f"{name}.graph", job)
        kept, upload, key = (
            folder / f"{name}.local",
            folder / f"{name}{UP}",
            self.root / f"{name}.key",
        )
        files.fit_files(job, mine, kept, upload, key=key, editions=True)
        self.cost[0] += 1
        self.carry(upload.read_bytes())

    def merge(self, job: Job, edition: str, changes: files.Changes | None = None) -> Path:
        folder, key = self.root / job.name, self.root / f"{SERVER}.key"
        journal, out = folder / "journal", folder / edition
        files.merge_files(job, [folder], journal=journal, out=out, key=key, changes=changes)
        return out

    def adopt(self, job: Job, returns: Path, members: Sequence[str]) -> None:
        for name in members:
            folder, mine = self.root / job.name, files.load_site(self.root / f"{name}.graph", job)
            returned, roll = ((returns / f"{name}{s}").read_bytes() for s in (DOWN, ROLL_SUFFIX))
            kept, model = folder / f"{name}.local", folder / f"{name}.model"
            files.adopt_files(job, mine, kept, model, returned=returned, roll=roll)
            self.carry(returned, roll)

    def whole_job(self, name: str, members: Sequence[str]) -> Job:
        """Everybody gets a new job, fits, is merged and adopts."""
        keys = {party: self.keys[party] for party in (*members, SERVER)}
        sites: dict[str, Any] = {
            "participants": tuple(members),
            "minimum": len(members),
            "keys": keys,
        }
        job = Job(name, self.model, METHOD, numbers=pace.methods.make(METHOD).numbers, **sites)
        (self.root / name).mkdir()
        for site in members:
            self.carry(render_job(job).encode())
            self.fit(job, site)
        self.adopt(job, self.merge(job, "one"), members)
        return job


def measure(graphs: Sequence[Graph], root: Path) -> dict[str, list[int]]:
    """Fits, files and bytes of each way."""
    parties, late, leaver = Parties(root, graphs), SITES[5], SITES[1]
    rest = [name for name in SITES if name != leaver]
    parties.begin("the first job, five sites")
    job = parties.whole_job("job", SITES[:5])
    parties.begin("edition 2, a sixth site comes")
    comes = files.Changes({late: parties.keys[late]})
    record = parties.merge(job, "two", comes) / "job.2.edition"
    parties.carry(render_job(job).encode(), record.read_bytes())
    parties.fit(read_edition(record, job), late)
    parties.adopt(job, parties.merge(job, "two"), SITES)
    parties.begin("a new job for the same six")
    parties.whole_job("six", SITES)
    parties.begin("edition 3, one of six leaves")
    leaves, kept = root / "north.withdrawal", root / "job" / f"{leaver}.local"
    edition = read_edition(record, job)
    files.withdraw_files(edition, kept, leaves, key=root / f"{leaver}.key")
    (root / "job" / f"{leaver}{UP}").unlink()
    returns = parties.merge(job, "three", files.Changes(withdrawn=[leaves]))
    parties.carry(leaves.read_bytes(), (returns / f"{leaver}.certificate").read_bytes())
    parties.adopt(job, returns, rest)
    parties.begin("a new job for the same five")
    parties.whole_job("five", rest)
    return parties.costs


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        graphs = pace.divide(pace.load("cora"), "louvain", clients=len(SITES))
        costs = measure(graphs, Path(folder))
    rows = [[way, str(fits), str(count), f"{size:,}"] for way, (fits, count, size) in costs.items()]
    heads = ["What happens", "Fits", "Files carried", "Bytes carried"]
    print(Table.of("An edition against a new job", heads, rows, words=0).markdown())


if __name__ == "__main__":
    main()
