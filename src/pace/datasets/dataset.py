"""A dataset: one whole graph, before it is divided among clients; and a dataset in numbers."""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from pace.errors import GraphError
from pace.graph import MASKS, Graph, expect_graph
from pace.io import optional
from pace.models import density

RATIOS = (0.2, 0.4, 0.4)  # train, validation, test, as benchmarks have them
SITE_RATIOS = (0.6, 0.2, 0.2)  # of a site's own table
LEAST_TRAIN, LEAST_TEST = 10, 50  # nodes a class to learn from, and nodes to be judged by


@dataclass(frozen=True)
class Names:
    """What a user's own graph calls things, each list in the order of the numbers; empty if unknown."""

    classes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    nodes: tuple[str, ...] = optional(())


@dataclass(frozen=True, eq=False)
class Dataset:
    """A graph, how many classes it has and how they are to be split.

    The graph's masks are empty, unless it came with a split, which is then kept.
    """

    name: str  # what `load` was asked for
    graph: Graph
    classes: int
    ratios: tuple[float, float, float] = RATIOS
    title: str = ""  # the name as the literature writes it, where that differs
    directed: Tensor | None = None  # (2, m) the edges as stored, where those have directions
    owner: Tensor | None = None  # (n,) the client of each node, where the user said so
    names: Names = Names()
    partition: str = "louvain"  # how it is divided by default
    mapping: dict[str, Any] = field(default_factory=dict)
    """How the table's own columns became these; see `pace.tables`."""

    def __post_init__(self) -> None:
        expect_graph(self.graph)
        if self.owner is None:
            return
        if self.owner.shape != self.graph.y.shape or int(self.owner.min()) < 0:
            raise GraphError(
                f"owner has shape {tuple(self.owner.shape)} and begins at {int(self.owner.min())}, "
                f"expected the number of a client, from 0, for each of {self.graph.nodes} nodes"
            )
        clients, count = self.names.clients, int(self.owner.max()) + 1
        if not clients:  # a file names its clients
            clients = tuple(map(str, range(count)))
            object.__setattr__(self, "names", replace(self.names, clients=clients))
        if len(clients) < count:
            raise GraphError(f"there are {len(clients)} names of clients, and owner has {count}")

    def __repr__(self) -> str:
        return f"Dataset({self.name!r}, {self.graph!r}, {self.classes} classes)"

    @property
    def stored(self) -> Tensor:
        """The edges as the source stores them: Louvain reads these, directions and all."""
        return self.graph.edges if self.directed is None else self.directed

    @property
    def has_split(self) -> bool:
        """Whether the graph came with masks."""
        return bool((self.graph.train | self.graph.val | self.graph.test).any())


def few_labels(train: int, val: int, test: int, classes: int) -> str | None:
    """A sentence on too few labels to learn from or to judge by; None where there are enough."""
    counts = f"{train:,} labelled nodes to train on, {val:,} to choose by, {test:,} to test on"
    if train < LEAST_TRAIN * classes:
        return f"{counts}: fewer than {LEAST_TRAIN} a class to train on, so probabilities are rough"
    if min(val, test) < LEAST_TEST:
        points = 100 / max(min(val, test), 1) ** 0.5
        return f"{counts}: an accuracy on so few is uncertain by about {points:.0f} points"
    return None


def describe_graph(dataset: Dataset) -> dict[str, Any]:
    """Sizes, classes, masks and clients, as `pace inspect --json` prints them."""
    graph, names, owner = dataset.graph, dataset.names, dataset.owner
    source, target = graph.edges
    labelled = (graph.y[source] >= 0) & (graph.y[target] >= 0)
    alike = int((graph.y[source] == graph.y[target])[labelled].sum())
    counts = torch.bincount(graph.y[graph.y >= 0], minlength=dataset.classes).tolist()
    classes = names.classes or [str(label) for label in range(dataset.classes)]
    split = {name: int(getattr(graph, name).sum()) for name in MASKS}
    owned = [] if owner is None else torch.bincount(owner, minlength=len(names.clients)).tolist()
    return {
        "name": dataset.name,
        "nodes": graph.nodes,
        "edges": graph.edges.shape[1] // (1 if graph.directed else 2),  # whatever their direction
        "directed": graph.directed or dataset.directed is not None,
        "weighted": graph.weights is not None,
        "isolated": int((torch.bincount(source, minlength=graph.nodes) == 0).sum()),
        "mean_degree": graph.edges.shape[1] / graph.nodes,
        "homophily": alike / max(1, int(labelled.sum())),  # of edges between labelled nodes
        "features": graph.features,
        "feature_names": list(names.features),
        "feature_density": density(graph.x),
        "classes": dict(zip(classes, counts, strict=True)),
        "unlabelled": int((graph.y < 0).sum()),
        "split": split if dataset.has_split else None,
        "clients": None if owner is None else dict(zip(names.clients, owned, strict=True)),
    }
