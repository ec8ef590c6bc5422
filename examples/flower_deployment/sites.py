"""Folders of a server and three sites for the demonstration: real sites bring their own graphs.

python sites.py FOLDER NAME…
"""

import sys
from pathlib import Path

from pace.data import Dataset, file, load
from pace.jobs import job_file
from pace.jobs.job import Job
from pace.models.gcn import GCN
from pace.partition import divide


def main(folder: Path, names: list[str]) -> None:
    whole = load("synthetic:nodes=600,features=100,communities=6")
    graphs = divide(whole, "louvain", len(names))
    gcn = GCN((whole.graph.features, 64, whole.classes))
    job = Job("demo", gcn, participants=tuple(names), minimum=len(names))
    for name, graph in zip(names, graphs, strict=True):
        file.write(folder / name / "mine.graph", Dataset(name, graph, whole.classes))
    for place in (*names, "server"):
        job_file.write(folder / place / "job.pace", job)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
