"""A division as files: the `pace-partition-1` JSON of the reference partitions, or a graph a client."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unicodedata import category, normalize

import torch

from pace.datasets.dataset import Dataset, Names
from pace.datasets.file import SUFFIX, write_graph
from pace.datasets.partition.divide import ALPHA, DELTA, RESOLUTION, Division, with_masks
from pace.errors import SettingError
from pace.graph import MASKS, induced
from pace.io import atomic, untrusted
from pace.registry import installed

FORMAT = "pace-partition-1"
LARGEST = 2**28  # bytes; twenty million nodes fit
LONGEST = 160  # bytes, of at most 255 that a file's name has
PARAMS: dict[str, dict[str, float]] = {
    "louvain": {"resolution": RESOLUTION, "delta": DELTA},
    "dirichlet": {"alpha": ALPHA},
}
LIBRARIES = ("scikit-network", "pymetis", "torch-geometric", "torch", "numpy")


def write_partition(path: Path, dataset: Dataset, division: Division) -> None:
    """Put the division at `path`, completely or not at all."""
    versions = installed(["pace-fgl", *LIBRARIES])
    clients = []
    for nodes, graph in zip(map(torch.as_tensor, division.nodes), division, strict=True):
        masks = {mask: nodes[getattr(graph, mask)].tolist() for mask in MASKS}
        edges = graph.edges.shape[1]
        clients.append({"nodes": nodes.tolist(), **masks, "num_directed_edges": edges})
    content = {
        "format": FORMAT,
        "dataset": dataset.title or dataset.name,
        "partition": division.partition,
        "num_clients": len(division),
        "data_seed": division.data_seed,
        "params": PARAMS.get(division.partition, {}),
        "split": "own" if dataset.has_split else dataset.ratios,
        "source": f"pace {versions['pace-fgl']}",
        "versions": {key.replace("-", "_"): versions[key] for key in LIBRARIES if key in versions},
        "num_nodes": dataset.graph.nodes,
        "clients": clients,
    }
    atomic.write(path, json.dumps(content, separators=(",", ":")).encode())


def read_partition(path: str | Path, dataset: Dataset) -> Division:
    """The client graphs that a partition file makes of the dataset, if it fits it."""
    remedy = "make it with `pace partition`"
    try:
        content = untrusted.json(untrusted.read(Path(path), LARGEST))
        clients = [
            {kind: client[kind] for kind in ("nodes", *MASKS)} for client in content["clients"]
        ]
        if any(
            type(node) is not int for client in clients for kind in client.values() for node in kind
        ):
            raise ValueError("a node is not a whole number")
        stated = content["format"], content["num_nodes"], content["dataset"]
    except OSError as error:
        raise SettingError(
            f"cannot read the partition {path} ({error.strerror}): {remedy}"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise SettingError(f"{path} is not a partition ({error!r}): {remedy}") from error
    title, count = dataset.title or dataset.name, dataset.graph.nodes
    if stated != (FORMAT, count, title):
        raise SettingError(
            f"{path} is a {stated[0]} of {stated[2]} with {stated[1]!r} nodes, expected a {FORMAT} "
            f"of {title} with {count}: use the dataset it was made of"
        )
    held = [client["nodes"] for client in clients]
    if not all(held):
        raise SettingError(f"{path} has a client without nodes: leave it out")
    if sorted(node for nodes in held for node in nodes) != list(range(count)):
        raise SettingError(f"{path} does not give every node to exactly one client: make it again")
    graphs = []
    for graph, client in zip(induced(dataset.graph, held), clients, strict=True):
        index = {node: number for number, node in enumerate(client["nodes"])}
        if not all(index.keys() >= set(client[mask]) for mask in MASKS):
            raise SettingError(f"{path} has masks with nodes of other clients: make it again")
        graphs.append(with_masks(graph, [[index[node] for node in client[mask]] for mask in MASKS]))
    return Division(graphs, nodes=held, dataset=dataset, partition=str(path), data_seed=None)


def write_graphs(folder: Path, dataset: Dataset, division: Division) -> list[Path]:
    """Write `NAME.graph` for each client, as if it had imported its own, with the dataset's names.

    A client without a name is `client-0`, `client-1`, … A name comes from the dataset's
    file: what could leave the folder, or be no file's name, is replaced by underscores.
    """
    names = dataset.names.clients
    if len(names) != len(division):
        names = tuple(f"client-{client}" for client in range(len(division)))
    ids, paths = dataset.names.nodes, []
    rows = zip(names, _file_names(names), division.nodes, division, strict=True)
    for name, stem, nodes, graph in rows:
        own = tuple(ids[int(node)] for node in nodes) if ids else ()
        known = Names(dataset.names.classes, dataset.names.features, (), own)
        paths.append(folder / f"{stem}{SUFFIX}")
        write_graph(paths[-1], Dataset(name, graph, dataset.classes, names=known))
    return paths


def _file_names(names: Sequence[str]) -> list[str]:
    """Names of files that resemble these, and that every disk tells apart."""
    stems: dict[str, str] = {}  # as a disk may compare them -> as they are written
    for number, name in enumerate(names):
        usual = (c if c in " ._-" or category(c)[0] in "LMN" else "_" for c in name)
        stem = "".join(usual).encode()[:LONGEST].decode(errors="ignore").strip(" .") or "client"
        while (compared := normalize("NFKC", stem).casefold()) in stems:
            stem = f"{stem}-{number}"
        stems[compared] = stem
    return list(stems.values())


def describe_clients(dataset: Dataset, division: Division) -> list[dict[str, Any]]:
    """Each client in numbers. Edges are counted once, whatever their direction; lost ones lead away."""
    degree = torch.bincount(dataset.graph.edges[0], minlength=dataset.graph.nodes)
    names = dataset.names.clients
    if len(names) != len(division):
        names = tuple(map(str, range(len(division))))
    return [
        {
            "name": name,
            "nodes": graph.nodes,
            "edges": graph.edges.shape[1] // 2,
            "lost": int(degree[torch.as_tensor(nodes)].sum()) - graph.edges.shape[1],
            "labels": torch.bincount(graph.y[graph.y >= 0], minlength=dataset.classes).tolist(),
            "unlabelled": int((graph.y < 0).sum()),
            **{mask: int(getattr(graph, mask).sum()) for mask in MASKS},
        }
        for name, nodes, graph in zip(names, division.nodes, division, strict=True)
    ]
