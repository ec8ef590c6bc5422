"""One network trained three times: on training nodes, on validation nodes, and on both.

The first two show how much Externals fitted on the same nodes are worth on the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pace.graph import Graph
from pace.models.base import Drop, Field, Network, Pass, identity
from pace.params import Params

ALL = "all"
FITS = ("train", "val", ALL)
"""The nodes that a model is fitted on, by name; the last is the model that is used."""


@dataclass(frozen=True)
class Refitted:
    """A network with parameters for each of `FITS`; those of the last, without a prefix, predict."""

    inner: Network

    @property
    def dropout(self) -> float:
        return self.inner.dropout

    def start(self, seed: int) -> dict[str, Tensor]:
        return joined(self.inner.start(seed) for _ in FITS)

    def field(self, graph: Graph, centers: Tensor | None = None) -> Field:
        return self.inner.field(graph, centers)

    def forward(self, params: Params, field: Field, drop: Drop = identity) -> Pass:
        return self.inner.forward(fit_of(params, ALL), field, drop)

    def __call__(self, params: Params, graph: Graph) -> Pass:
        return self.inner(fit_of(params, ALL), graph)


def fitted_nodes(graph: Graph, fit: str) -> Tensor:
    """The nodes of a fit, as a mask."""
    return graph.train | graph.val if fit == ALL else (graph.train, graph.val)[FITS.index(fit)]


def fitted_labels(graph: Graph, fit: str) -> Tensor:
    """The labels of a fit's nodes."""
    return graph.y[fitted_nodes(graph, fit)]


def fitted_on(graph: Graph, fit: str) -> Graph:
    """The graph with a fit's nodes as its training nodes and nothing to validate on."""
    nodes = fitted_nodes(graph, fit)
    return replace(graph, train=nodes, val=torch.zeros_like(graph.val), test=graph.test & ~nodes)


def joined(models: Iterable[Params]) -> dict[str, Tensor]:
    """The parameters of every fit, in the order of `FITS`, as one set."""
    return {
        name if fit == ALL else f"{fit}/{name}": value
        for fit, model in zip(FITS, models, strict=True)
        for name, value in model.items()
    }


def fit_of(params: Params, fit: str) -> dict[str, Tensor]:
    """The parameters of one fit, by the inner network's names."""
    if fit == ALL:
        prefixes = tuple(f"{other}/" for other in FITS)
        return {name: value for name, value in params.items() if not name.startswith(prefixes)}
    own = f"{fit}/"
    return {name[len(own) :]: value for name, value in params.items() if name.startswith(own)}
