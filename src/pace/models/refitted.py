"""One network trained three times: on training nodes, on validation nodes, and on both.

The first two show how much Externals fitted on the same nodes are worth on the others. With very many
labels one training does: see `regrouped`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from pace.graph import Graph
from pace.models.base import Drop, Field, Network, Pass, identity
from pace.models.mapped import Excerpt, RowTable
from pace.params import Params

ALL = "all"
FITS = ("train", "val", ALL)
"""The nodes that a model is fitted on, by name; the last is the model that is used."""
HELD_OUT = 2048  # validation nodes to weigh on where labels are very many
MANY = 5 * HELD_OUT  # labels


@dataclass(frozen=True)
class Refitted:
    """A network with parameters for each of `FITS`; those of the last, without a prefix, predict."""

    inner: Network

    @property
    def dropout(self) -> float:
        return self.inner.dropout

    def start(self, seed: int) -> dict[str, Tensor]:
        return joined({FITS[0]: self.inner.start(seed)})

    def field(self, graph: Graph, centers: Tensor | None = None) -> Field:
        return self.inner.field(graph, centers)

    def forward(self, params: Params, field: Field, drop: Drop = identity) -> Pass:
        return self.inner.forward(fit_of(params, ALL), field, drop)

    def __call__(self, params: Params, graph: Graph) -> Pass:
        return self.inner(fit_of(params, ALL), graph)


def trained_fits(graph: Graph) -> tuple[str, ...]:
    """What a network is trained on: with very many labels, the first of `FITS` alone.

    Of a graph larger than memory a sample is trained on, and small enough for all.
    """
    many = int(graph.training_counts(0).sum() + graph.val.sum()) >= MANY
    return FITS[:1] if many and not isinstance(graph, Excerpt) else FITS


def regrouped(graph: Graph) -> Graph:
    """With very many labels, all validation nodes but `HELD_OUT` among the training nodes.

    A few weights need no more to be chosen on, and a model of four fifths of the labels or more is
    used as it is: one training, where there are three of fewer labels. A table of rows says itself what
    its Local was trained on.
    """
    if trained_fits(graph) == FITS or isinstance(graph, RowTable):
        return graph
    validation = graph.val.nonzero().flatten()
    order = torch.randperm(len(validation), generator=torch.Generator().manual_seed(0))
    held_out = torch.zeros_like(graph.val)
    held_out[validation[order[:HELD_OUT].to(validation.device)]] = True
    return graph.remasked(graph.train | graph.val & ~held_out, held_out, graph.test)


def fitted_nodes(graph: Graph, fit: str) -> Tensor:
    """The nodes of a fit, as a mask."""
    return graph.train | graph.val if fit == ALL else (graph.train, graph.val)[FITS.index(fit)]


def fitted_labels(graph: Graph, fit: str) -> Tensor:
    return graph.y[fitted_nodes(graph, fit)]


def fitted_on(graph: Graph, fit: str) -> Graph:
    """The graph with a fit's nodes as its training nodes and nothing to validate on."""
    nodes = fitted_nodes(graph, fit)
    return graph.remasked(nodes, torch.zeros_like(graph.val), graph.test)


def fitted_graphs(graph: Graph) -> dict[str, Graph]:
    """What a network is trained on, by fit; the last is trained for every graph."""
    whole = regrouped(graph)
    return {fit: fitted_on(whole, fit) for fit in reversed(trained_fits(graph))}


def joined(models: Mapping[str, Params]) -> dict[str, Tensor]:
    """The parameters of every fit as one set; the first fit's where no other was trained."""
    return {
        name if fit == ALL else f"{fit}/{name}": value
        for fit in FITS
        for name, value in models.get(fit, models[FITS[0]]).items()
    }


def fit_of(params: Params, fit: str) -> dict[str, Tensor]:
    """The parameters of one fit, by the inner network's names."""
    if fit == ALL:
        prefixes = tuple(f"{other}/" for other in FITS)
        return {name: value for name, value in params.items() if not name.startswith(prefixes)}
    own = f"{fit}/"
    return {name[len(own) :]: value for name, value in params.items() if name.startswith(own)}
