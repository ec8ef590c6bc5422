"""A dataset: one whole graph, before it is divided among clients."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from pace.graph import Graph, expect_graph

RATIOS = (0.2, 0.4, 0.4)  # train, validation, test


@dataclass(frozen=True)
class Names:
    """What a user's own graph calls things, each list in the order of the numbers; empty if unknown."""

    classes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Dataset:
    """A graph, how many classes it has and how they are to be split.

    The graph's masks are empty, unless it came with a split of its own, which is then kept.
    """

    name: str  # what `load` was asked for
    graph: Graph
    classes: int
    ratios: tuple[float, float, float] = RATIOS
    title: str = ""  # the name as the literature writes it, where that differs
    directed: Tensor | None = None  # (2, m) the edges as stored, where those have directions
    owner: Tensor | None = None  # (n,) the client of each node, where the user said so
    names: Names = Names()
    partition: str = "louvain"  # how it is divided unless somebody says otherwise

    def __post_init__(self) -> None:
        expect_graph(self.graph)

    def __repr__(self) -> str:
        return f"Dataset({self.name!r}, {self.graph!r}, {self.classes} classes)"

    @property
    def stored(self) -> Tensor:
        """The edges as the source stores them: Louvain reads these, directions and all."""
        return self.graph.edges if self.directed is None else self.directed

    @property
    def has_split(self) -> bool:
        """Whether the graph came with masks of its own."""
        return bool((self.graph.train | self.graph.val | self.graph.test).any())
