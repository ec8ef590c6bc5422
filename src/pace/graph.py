"""One client's graph: nodes, edges, labels and masks, and how messages travel on it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import torch
from torch import Tensor

from pace.errors import GraphError

if TYPE_CHECKING:
    from torch_geometric.data import Data

Derived = TypeVar("Derived")

UNKNOWN = -1  # the label of a node whose class is not known
MASKS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph with features, labels, three disjoint masks and, if it has them, edge weights.

    `edges` holds every edge in both directions, without self-loops; `Graph.build` makes it so. Where
    directions were asked for, an edge goes from its first row to its second, as PyG's do.

    Raises:
        GraphError: shapes, labels or masks do not fit, or a feature is not finite.

    Example:
        >>> import torch
        >>> from pace import Graph
        >>> path = torch.tensor([[0, 1], [1, 2]])
        >>> Graph.build(torch.eye(3), path, torch.tensor([0, 1, 0])).edges.shape
        torch.Size([2, 4])
    """

    has_edges: ClassVar[bool] = True
    """Whether a network can read it; a table of rows has lost its edges."""

    x: Tensor  # (n, d) float32, finite
    edges: Tensor  # (2, m) int64
    y: Tensor  # (n,) int64, UNKNOWN where there is no label
    train: Tensor  # (n,) bool
    val: Tensor  # (n,) bool
    test: Tensor  # (n,) bool
    weights: Tensor | None = None  # (m,) float32, above 0; None: all edges weigh the same
    directed: bool = False  # whether an edge may go one way only

    def __post_init__(self) -> None:
        """Refuse what cannot be trained on, saying where the first trouble is."""
        n = len(self.x)
        if self.x.ndim != 2 or n == 0:
            raise GraphError(f"features are {tuple(self.x.shape)}, expected (nodes, features)")
        # A finite sum has finite terms, and is ten times faster to get than a look at each of them.
        if not torch.isfinite(self.x.sum()) and not (finite := torch.isfinite(self.x)).all():
            row, column = (~finite).nonzero()[0].tolist()
            raise GraphError(
                f"feature {column} of node {row} is {float(self.x[row, column])}: fill or drop it"
            )
        _check_length("edge weights have", self.weights, self.edges.shape[1])
        _check_length("labels have", self.y, n)
        if self.weights is not None:
            wrong = ~(torch.isfinite(self.weights) & (self.weights > 0))
            if wrong.any():
                (source, target), weight = self.edges[:, wrong][:, 0], self.weights[wrong][0]
                raise GraphError(
                    f"the edge from node {source} to node {target} weighs {float(weight)}: "
                    "weights must be finite and above 0"
                )
        if int(self.y.min()) < UNKNOWN:
            raise GraphError(
                f"the smallest label is {int(self.y.min())}, expected from 0 on, or {UNKNOWN}: unknown"
            )
        for name in MASKS:
            _check_length(f"mask `{name}` has", mask := getattr(self, name), n)
            if (self.y[mask] == UNKNOWN).any():
                raise GraphError(f"mask `{name}` holds nodes without a label: take them out of it")
        if (self.train & self.val | self.train & self.test | self.val & self.test).any():
            raise GraphError("masks overlap: a node may be in one of train, val and test only")

    def __repr__(self) -> str:
        edges = self.edges.shape[1] // (1 if self.directed else 2)
        kind = "directed " * self.directed + "weighted " * (self.weights is not None)
        masks = ", ".join(f"{name} {int(getattr(self, name).sum())}" for name in MASKS)
        return f"Graph({self.nodes} nodes, {edges} {kind}edges, {self.features} features, {masks})"

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
        weights: Tensor | None = None,
        directed: bool = False,
    ) -> Graph:
        """A graph from edges in any order, direction and multiplicity. A missing mask is empty.

        Without `directed` every edge goes both ways. An edge given more than once, or in both
        directions, weighs the mean of its weights, so that a graph stays as it is when built again.
        """
        none = torch.zeros(len(x), dtype=torch.bool)
        given = zip(MASKS, (train, val, test), strict=True)
        masks = {name: none if mask is None else mask.bool() for name, mask in given}
        edges, weights = coalesced(edges, len(x), weights, directed=directed)
        if y.is_floating_point() or y.is_complex():
            raise GraphError(
                f"labels are of type {str(y.dtype).removeprefix('torch.')}, and no model here predicts "
                "numbers: if they are classes, number them from 0 and give y.long()"
            )
        features, labels = x.float().contiguous(), y.long()
        labels = labels.reshape(-1) if y.numel() == len(x) else labels
        return cls(features, edges, labels, **masks, weights=weights, directed=directed)

    @classmethod
    def from_pyg(cls, data: Data, *, directed: bool | None = None) -> Graph:
        """A PyG `Data` with `x`, `edge_index` and, if it has them, `y`, `edge_weight` and its masks.

        Without `y` no node has a label: such a graph can be predicted, not trained on. Nothing is
        dropped silently: a GraphError says what is missing, or what there is that would be lost. Edges
        that go one way need `directed`: True keeps directions, False lets every edge go both ways. Edge
        attributes, which no model here reads, are refused.
        """
        for name in ("x", "edge_index"):
            if getattr(data, name, None) is None:
                raise GraphError(f"the PyG data has no `{name}`: a graph needs x and edge_index")
        if getattr(data, "edge_attr", None) is not None:
            raise GraphError(
                "the PyG data has `edge_attr`, which no model here reads: use `edge_weight` or None"
            )
        weights = getattr(data, "edge_weight", None)
        if directed is None and not _goes_both_ways(data.edge_index, len(data.x), weights):
            raise GraphError(
                "edges of the PyG data go one way, or weigh more one way than the other: say "
                "Graph.from_pyg(data, directed=True) to keep directions, else directed=False"
            )
        x = data.x if getattr(data.x, "layout", None) is torch.strided else data.x.to_dense()
        labels = getattr(data, "y", None)
        if labels is None:
            labels = torch.full((len(x),), UNKNOWN)
        masks = {name: getattr(data, f"{name}_mask", None) for name in MASKS}
        ways = bool(directed)
        return cls.build(x, data.edge_index, labels, **masks, weights=weights, directed=ways)

    def to_pyg(self) -> Data:
        """The same graph for PyG."""
        from torch_geometric.data import Data

        masks = {f"{name}_mask": getattr(self, name) for name in MASKS}
        weights = {} if self.weights is None else {"edge_weight": self.weights}
        return Data(x=self.x, edge_index=self.edges, y=self.y, **masks, **weights)

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

    def training_counts(self, classes: int) -> Tensor:
        return torch.bincount(self.training_labels, minlength=classes)

    def edge_blocks(self) -> Iterator[Any]:
        """The bytes of `edges`, some at a time."""
        yield self.edges.cpu().contiguous().numpy()

    @cached_property
    def split(self) -> Tensor:
        """The index of each node's mask in `MASKS`, -1 where it is in none."""
        numbers = torch.full_like(self.train, -1, dtype=torch.int8)
        for number, name in enumerate(MASKS):
            numbers[getattr(self, name)] = number
        return numbers

    def induced(self, nodes: Tensor) -> Graph:
        """The subgraph on `nodes`, numbered in their order; edges that leave it vanish."""
        return induced(self, [nodes])[0]

    def to(self, device: torch.device | str) -> Graph:
        """The same graph with its tensors on `device`, and those constants that can be moved."""
        if self.x.device == torch.device(device):
            return self
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        parts: dict[str, Any] = {n: v.to(device) for n, v in values if isinstance(v, Tensor)}
        moved = replace(self, **parts)
        constants = self._derived.items()
        moved._derived.update({name: c.to(device) for name, c in constants if hasattr(c, "to")})
        return moved

    def remasked(self, train: Tensor, val: Tensor, test: Tensor) -> Graph:
        """The same nodes and edges under other masks; constants are shared: none depends on masks."""
        graph = replace(self, train=train, val=val, test=test)
        graph.__dict__["_derived"] = self._derived
        return graph

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of all it holds: tells whether two runs were on the same graph."""
        sha = hashlib.sha256(b"directed" if self.directed else b"")
        more = () if self.weights is None else (self.weights,)
        for part in (self.x, self.edges, self.y, self.train, self.val, self.test, *more):
            sha.update(repr(tuple(part.shape)).encode())
            sha.update(part.cpu().contiguous().numpy().tobytes())
        return sha.hexdigest()

    def derived(self, name: str, make: Callable[[Graph], Derived]) -> Derived:
        """A constant of the graph, such as P, made when first asked for and kept with it."""
        if name not in self._derived:
            self._derived[name] = make(self)
        return self._derived[name]  # type: ignore[no-any-return]

    @cached_property
    def _derived(self) -> dict[str, Any]:
        return {}


def _check_length(name: str, tensor: Tensor | None, length: int) -> None:
    if tensor is not None and tensor.shape != (length,):
        raise GraphError(f"{name} shape {tuple(tensor.shape)}, expected ({length},)")


def coalesced(
    edges: Tensor, nodes: int, weights: Tensor | None = None, *, directed: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Edges once each, sorted, without self-loops, in both directions unless `directed`; and weights.

    What is given more than once weighs the mean.
    """
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise GraphError(f"edges have shape {tuple(edges.shape)}, expected (2, number of edges)")
    if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < nodes:
        raise GraphError(
            f"edges name nodes {int(edges.min())} to {int(edges.max())}, but the graph has nodes "
            f"0 to {nodes - 1}: number the nodes from zero"
        )
    _check_length("edge weights have", weights, edges.shape[1])
    source, target = edges.long()
    keep = source != target
    source, target = source[keep], target[keep]
    ways = ((source, target),) if directed else ((source, target), (target, source))
    keys = torch.cat([first * nodes + second for first, second in ways])
    del source, target, ways
    if weights is None:
        pairs, means = _distinct(keys), None
    else:
        pairs, index, count = torch.unique(keys, return_inverse=True, return_counts=True)
        given = weights[keep].double().repeat(1 if directed else 2)
        means = (given.new_zeros(len(pairs)).index_add_(0, index, given) / count).float()
    del keys
    return torch.stack([pairs // max(1, nodes), pairs.remainder_(max(1, nodes))]), means


def _distinct(keys: Tensor) -> Tensor:
    """The different numbers among these, in order, which are sorted where they lie.

    `torch.unique` would take three times their memory: of edges there are many.
    """
    ordered = keys.cpu()
    ordered.numpy().sort()
    first = ordered[1:] != ordered[:-1]
    return torch.cat([ordered[:1], ordered[1:][first]]).to(keys.device)


def _goes_both_ways(edges: Tensor, nodes: int, weights: Tensor | None) -> bool:
    """Whether building the graph with and without directions gives the same edges and weights."""
    one, other = (coalesced(edges, nodes, weights, directed=way) for way in (True, False))
    if not torch.equal(one[0], other[0]) or one[1] is None or other[1] is None:
        return torch.equal(one[0], other[0])
    return torch.allclose(one[1], other[1], rtol=1e-6)


def expect_graph(value: object) -> None:
    """Refuse anything that is not a Graph, such as PyG's Data, with the way to make one."""
    if not isinstance(value, Graph):
        raise TypeError(
            f"the graph is a {type(value).__module__}.{type(value).__name__}, expected a pace.Graph: "
            "make one of a PyG Data with Graph.from_pyg(data)"
        )


def induced(graph: Graph, clients: Sequence[Any]) -> list[Graph]:
    """The subgraph of every client, masks included; edges between clients vanish.

    In one pass: nodes are renumbered client by client, and edges sorted once by their new ends.
    """
    lists = [torch.as_tensor(nodes, dtype=torch.int64) for nodes in clients]
    order = torch.cat(lists)
    sizes = torch.tensor([len(nodes) for nodes in lists])
    index = torch.full((graph.nodes,), -1, dtype=torch.int64)
    index[order] = torch.arange(len(order))
    owner = torch.full_like(index, -1)
    owner[order] = torch.repeat_interleave(torch.arange(len(lists)), sizes)
    ends = owner[graph.edges]
    kept = (ends[0] == ends[1]) & (ends[0] >= 0)
    inside = index[graph.edges[:, kept]]
    keys, sorted_by = torch.sort(inside[0] * max(1, len(order)) + inside[1])
    sources, targets = keys // max(1, len(order)), keys % max(1, len(order))
    starts = sizes.cumsum(0) - sizes
    counts = torch.bincount(owner[order[sources]], minlength=len(lists)).tolist()
    pairs = torch.split(torch.stack([sources, targets]), counts, dim=1)
    weights: Sequence[Tensor | None] = [None] * len(lists)
    if graph.weights is not None:
        weights = torch.split(graph.weights[kept][sorted_by], counts)
    parts = []
    for nodes, edges, start, weight in zip(lists, pairs, starts, weights, strict=True):
        rows: dict[str, Any] = {name: getattr(graph, name)[nodes] for name in ("x", "y", *MASKS)}
        parts.append(replace(graph, **rows, edges=edges - start, weights=weight))
    return parts
