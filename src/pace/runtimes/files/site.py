"""A site's own graph, as the job reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pace.datasets import Dataset
from pace.datasets.file import read
from pace.datasets.partition.split import client_graphs, generator
from pace.errors import GraphError
from pace.graph import Graph
from pace.jobs.job import Job
from pace.protocol import steps


@dataclass(frozen=True, eq=False)
class Site:
    """The graph with its masks, and what its nodes are called."""

    graph: Graph
    nodes: tuple[str, ...]
    drawn: tuple[float, ...] | None  # the ratios of masks that were drawn, the file having none


def load_site(path: Path, job: Job) -> Site:
    """The graph of a file, with the job's features and classes.

    A file without a split gets masks from a fixed seed: the same in every step.
    """
    return site_of_dataset(read(path), job, path)


def site_of_dataset(dataset: Dataset, job: Job, path: Path) -> Site:
    """The same of a dataset that is in memory; `path` is what messages call it."""
    book = job.codebook is not None
    _same("feature", dataset.names.features, job.features, path, book=book)
    _same("class", dataset.names.classes, job.classes, path, book=book)
    steps.check(dataset.graph, job.federation)
    names = dataset.names.nodes or tuple(map(str, range(dataset.graph.nodes)))
    if dataset.has_split:
        return Site(dataset.graph, names, None)
    return Site(_with_masks(dataset, job), names, dataset.ratios)


def _with_masks(dataset: Dataset, job: Job) -> Graph:
    everybody = [list(range(dataset.graph.nodes))]
    classes = job.model.classes
    (graph,) = client_graphs(dataset.graph, everybody, classes, generator(), dataset.ratios)
    return graph


def _same(
    kind: str, found: Sequence[str], agreed: Sequence[str], path: Path, *, book: bool
) -> None:
    """Numbers mean the same at every site only if names stand in the same order."""
    if not found or not agreed or tuple(found) == tuple(agreed):
        return
    place, mine, theirs = next(
        (place, mine, theirs)
        for place, (mine, theirs) in enumerate(zip((*found, None), (*agreed, None), strict=False))
        if mine != theirs
    )
    option = "--classes" if kind == "class" else "--features"
    if book:
        raise GraphError(
            f"{kind} {place} of {path} is {mine!r}, the job's is {theirs!r}: import the tables by the "
            "job's codebook, `pace graph import --job JOB`"
        )
    raise GraphError(
        f"{kind} {place} of {path} is {mine!r}, the job's is {theirs!r}: import the graph again "
        f"with {option} in the job's order, which `pace show` lists"
    )
