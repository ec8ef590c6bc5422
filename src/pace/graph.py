"""One client's graph: nodes, edges, labels and masks, and how messages travel on it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from pace.errors import GraphError

if TYPE_CHECKING:
    from torch_geometric.data import Data

Derived = TypeVar("Derived")

UNKNOWN = -1  # the label of a node whose class nobody knows


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected graph with features, labels and three disjoint masks.

    `edges` holds every edge in both directions, without self-loops; `Graph.build` makes it so.

    Raises:
        GraphError: shapes, labels or masks do not fit, or a feature is not finite.

    Example:
        >>> import torch
        >>> from pace import Graph
        >>> path = torch.tensor([[0, 1], [1, 2]])
        >>> Graph.build(torch.eye(3), path, torch.tensor([0, 1, 0])).edges.shape
        torch.Size([2, 4])
    """

    x: Tensor  # (n, d) float32, finite
    edges: Tensor  # (2, m) int64
    y: Tensor  # (n,) int64, UNKNOWN where there is no label
    train: Tensor  # (n,) bool
    val: Tensor  # (n,) bool
    test: Tensor  # (n,) bool

    def __post_init__(self) -> None:
        _check(self)

    @classmethod
    def build(
        cls,
        x: Tensor,
        edges: Tensor,
        y: Tensor,
        *,
        train: Tensor | None = None,
        val: Tensor | None = None,
        test: Tensor | None = None,
    ) -> Graph:
        """A graph from edges in any order, direction and multiplicity. A missing mask is empty."""
        none = torch.zeros(len(x), dtype=torch.bool)
        masks = [none if mask is None else mask.bool() for mask in (train, val, test)]
        return cls(x.float().contiguous(), undirected(edges, len(x)), y.reshape(-1).long(), *masks)

    @classmethod
    def from_pyg(cls, data: Data) -> Graph:
        """A PyG `Data` with `x`, `edge_index` and, if it has them, `y` and its three masks.

        Without `y` no node has a label: such a graph can be predicted, not trained on.
        """
        for name in ("x", "edge_index"):
            if getattr(data, name, None) is None:
                raise GraphError(f"the PyG data has no `{name}`: a graph needs x and edge_index")
        labels = getattr(data, "y", None)
        if labels is None:
            labels = torch.full((len(data.x),), UNKNOWN)
        masks = {name: getattr(data, f"{name}_mask", None) for name in ("train", "val", "test")}
        return cls.build(data.x, data.edge_index, labels, **masks)

    def to_pyg(self) -> Data:
        """The same graph for PyG."""
        from torch_geometric.data import Data

        masks = {"train_mask": self.train, "val_mask": self.val, "test_mask": self.test}
        return Data(x=self.x, edge_index=self.edges, y=self.y, **masks)

    @property
    def nodes(self) -> int:
        return self.x.shape[0]

    @property
    def features(self) -> int:
        return self.x.shape[1]

    @property
    def training_labels(self) -> Tensor:
        """The labels a client learns from: y[train], in node order."""
        return self.y[self.train]

    def induced(self, nodes: Tensor) -> Graph:
        """The subgraph on `nodes`, numbered in their order; edges that leave it vanish."""
        place = torch.full((self.nodes,), -1, dtype=torch.int64)
        place[nodes] = torch.arange(len(nodes))
        edges = place[self.edges]
        edges = edges[:, (edges >= 0).all(0)]
        masks = {name: getattr(self, name)[nodes] for name in ("train", "val", "test")}
        return Graph.build(self.x[nodes], edges, self.y[nodes], **masks)

    def to(self, device: torch.device | str) -> Graph:
        """The same graph with its tensors on `device`."""
        if self.x.device == torch.device(device):
            return self
        parts = (self.x, self.edges, self.y, self.train, self.val, self.test)
        moved = Graph(*(part.to(device) for part in parts))
        moved._derived.update({name: value.to(device) for name, value in self._derived.items()})
        return moved

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of all it holds: tells whether two runs were on the same graph."""
        sha = hashlib.sha256()
        for part in (self.x, self.edges, self.y, self.train, self.val, self.test):
            sha.update(repr(tuple(part.shape)).encode())
            sha.update(part.cpu().contiguous().numpy().tobytes())
        return sha.hexdigest()

    def derived(self, name: str, make: Callable[[Graph], Derived]) -> Derived:
        """A constant of the graph, such as P, made when first asked for and kept with it."""
        if name not in self._derived:
            self._derived[name] = make(self)
        constant: Derived = self._derived[name]
        return constant

    @cached_property
    def _derived(self) -> dict[str, Any]:
        return {}


def undirected(edges: Tensor, nodes: int) -> Tensor:
    """Both directions of every edge, once each, sorted, without self-loops."""
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise GraphError(f"edges have shape {tuple(edges.shape)}, expected (2, number of edges)")
    if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < nodes:
        raise GraphError(
            f"edges name nodes {int(edges.min())} to {int(edges.max())}, but the graph has nodes "
            f"0 to {nodes - 1}: number the nodes from zero"
        )
    source, target = edges.long()
    keep = source != target
    source, target = source[keep], target[keep]
    pairs = torch.unique(torch.cat([source * nodes + target, target * nodes + source]))
    return torch.stack([pairs // max(1, nodes), pairs % max(1, nodes)])


def _check(graph: Graph) -> None:
    """Refuse what cannot be trained on, saying where the first trouble is."""
    n = len(graph.x)
    if graph.x.ndim != 2 or n == 0:
        raise GraphError(f"features have shape {tuple(graph.x.shape)}, expected (nodes, features)")
    # A finite sum has finite terms, and is ten times faster to get than a look at each of them.
    if not torch.isfinite(graph.x.sum()) and not (finite := torch.isfinite(graph.x)).all():
        row, column = (~finite).nonzero()[0].tolist()
        raise GraphError(
            f"feature {column} of node {row} is {float(graph.x[row, column])}: "
            "features must be finite numbers; fill or drop missing values"
        )
    if graph.y.shape != (n,):
        raise GraphError(f"labels have shape {tuple(graph.y.shape)}, expected ({n},)")
    if int(graph.y.min()) < UNKNOWN:
        raise GraphError(
            f"the smallest label is {int(graph.y.min())}: classes are numbered from 0, "
            f"{UNKNOWN} stands for an unknown label"
        )
    for name in ("train", "val", "test"):
        mask = getattr(graph, name)
        if mask.shape != (n,):
            raise GraphError(f"mask `{name}` has shape {tuple(mask.shape)}, expected ({n},)")
        if (graph.y[mask] == UNKNOWN).any():
            raise GraphError(f"mask `{name}` holds nodes without a label: take them out of it")
    if (graph.train & graph.val | graph.train & graph.test | graph.val & graph.test).any():
        raise GraphError("the masks train, val and test overlap: a node may be in one of them only")
