"""A partition as a file: the `pace-partition-1` JSON of the reference partitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from pace.datasets.dataset import Dataset
from pace.datasets.partition.dirichlet import ALPHA
from pace.datasets.partition.divide import Division
from pace.datasets.partition.louvain import DELTA, RESOLUTION
from pace.datasets.partition.split import induced, with_masks
from pace.errors import SettingError
from pace.graph import Graph
from pace.io import atomic, untrusted
from pace.registry import installed

FORMAT = "pace-partition-1"
LARGEST = 2**28  # bytes; twenty million nodes fit
MASKS = ("train", "val", "test")
PARAMS: dict[str, dict[str, float]] = {
    "louvain": {"resolution": RESOLUTION, "delta": DELTA},
    "dirichlet": {"alpha": ALPHA},
}
LIBRARIES = ("scikit-network", "pymetis", "torch-geometric", "torch", "numpy")


def write_partition(path: Path, dataset: Dataset, division: Division) -> None:
    """Put the division at `path`, completely or not at all."""
    content = {
        "format": FORMAT,
        "dataset": dataset.title or dataset.name,
        "partition": division.partition,
        "num_clients": len(division),
        "data_seed": division.data_seed,
        "params": PARAMS.get(division.partition, {}),
        "split": "own" if dataset.has_split else dataset.ratios,
        "source": f"pace {installed(['pace-fgl'])['pace-fgl']}",
        "versions": _versions(),
        "num_nodes": dataset.graph.nodes,
        "clients": [
            _client(torch.as_tensor(nodes), graph)
            for nodes, graph in zip(division.nodes, division, strict=True)
        ],
    }
    try:
        atomic.write(path, json.dumps(content, separators=(",", ":")).encode())
    except OSError as error:
        raise SettingError(f"cannot write {path}: {error.strerror or error}") from error


def read_partition(path: str | Path, dataset: Dataset) -> Division:
    """The client graphs that a partition file makes of the dataset, if it fits it."""
    try:
        content = untrusted.json(untrusted.read(Path(path), LARGEST))
        clients = [
            {kind: _ints(each[kind]) for kind in ("nodes", *MASKS)} for each in content["clients"]
        ]
        found = content["format"], content["num_nodes"], content["dataset"]
    except OSError as error:
        raise SettingError(
            f"cannot read the partition {path} ({error.strerror}): make it with `pace partition`"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise SettingError(
            f"{path} is not a partition ({error!r}): make it with `pace partition`"
        ) from error
    title = dataset.title or dataset.name
    expected = FORMAT, dataset.graph.nodes, title
    if found != expected:
        raise SettingError(
            f"{path} is a {found[0]} of {found[2]} with {found[1]!r} nodes, expected a {FORMAT} "
            f"of {title} with {expected[1]}: use the dataset it was made of"
        )
    held = [each["nodes"] for each in clients]
    if not all(held):
        raise SettingError(f"{path} has a client without nodes: leave it out")
    if sorted(node for nodes in held for node in nodes) != list(range(dataset.graph.nodes)):
        raise SettingError(f"{path} does not give every node to exactly one client: make it again")
    place = {node: place for nodes in held for place, node in enumerate(nodes)}
    graphs = []
    for graph, each in zip(induced(dataset.graph, held), clients, strict=True):
        members = set(each["nodes"])
        if not all(members.issuperset(each[mask]) for mask in MASKS):
            raise SettingError(f"{path} has masks with nodes of other clients: make it again")
        graphs.append(with_masks(graph, [[place[node] for node in each[mask]] for mask in MASKS]))
    return Division(graphs, nodes=held, dataset=dataset, partition=str(path), data_seed=None)


def _client(nodes: torch.Tensor, graph: Graph) -> dict[str, list[int] | int]:
    masks = {mask: nodes[getattr(graph, mask)].tolist() for mask in MASKS}
    return {"nodes": nodes.tolist(), **masks, "num_directed_edges": graph.edges.shape[1]}


def _ints(values: list[Any]) -> list[int]:
    if not all(type(value) is int for value in values):
        raise ValueError("a node is not a whole number")
    return values


def _versions() -> dict[str, str]:
    """Of the libraries that a partition depends on, those that are installed."""
    versions = installed(LIBRARIES)
    return {name.replace("-", "_"): versions[name] for name in LIBRARIES if name in versions}
