"""Rows of a mapped graph: what travels is stored once, everything else is made where it is read."""

from __future__ import annotations

import torch
from torch import Tensor

from pace.errors import GraphError
from pace.models import propagation as travel
from pace.models.base import Later
from pace.models.mapped import READ, MappedGraph, digest_of
from pace.models.unit_rows import SHORTEST, degree_columns, label_columns, roots_of


def stored_unit_rows(graph: MappedGraph, hop: int) -> Later:
    """`unit_rows` of a mapped graph."""
    x = graph.stored
    if hop == 0:
        return Later(lambda nodes: _unit(roots_of(x[nodes])))

    def roots(nodes: Tensor, columns: slice) -> Tensor:
        return roots_of(x.part(nodes, columns))

    along = [travel.propagation(graph)] * hop
    stored = graph.stored_product(f"hop{hop}", x.shape[1], roots, along)
    return Later(lambda nodes: _unit(stored[nodes]))


def stored_neighbourhood(graph: MappedGraph) -> Later:
    """`neighbourhood_rows` of a mapped graph."""
    x, own, mean = graph.stored, stored_unit_rows(graph, 0), [travel.neighbour_mean(graph)]
    degrees = degree_columns(graph.degrees)
    blocks = torch.arange(graph.nodes).split(READ)
    lengths = torch.cat([x[some].abs().sum(1, keepdim=True) for some in blocks]).sqrt()
    lengths = lengths.clamp_min(SHORTEST)

    def scaled(nodes: Tensor, columns: slice) -> Tensor:
        return roots_of(x.part(nodes, columns)) / lengths[nodes]

    near = graph.stored_product("near", x.shape[1], scaled, mean)
    far = graph.stored_product("far", x.shape[1], near.part, mean)
    return Later(
        lambda nodes: _unit(torch.cat([own[nodes], near[nodes], far[nodes], degrees[nodes]], 1))
    )


def stored_labels(graph: MappedGraph, known: Tensor, classes: int) -> Later:
    """`label_rows` of a mapped graph."""
    if graph.directed:
        raise GraphError(
            "known labels of neighbours are not counted on a mapped graph with directions: import it "
            "without --directions keep, or use a job of pace-ridge"
        )
    labels = torch.where(known, graph.y, -1)
    name, sums = f"labels-{digest_of(labels)}", [travel.neighbour_sum(graph, 0.0)]

    def one_hot(nodes: Tensor, columns: slice) -> Tensor:
        wanted = torch.arange(columns.start, columns.stop)
        counted = (wanted == classes) & (labels[nodes] >= 0)[:, None]
        return ((labels[nodes][:, None] == wanted) | counted).float()

    near = graph.stored_product(f"{name}-near", classes + 1, one_hot, sums)
    far = graph.stored_product(f"{name}-far", classes + 1, near.part, sums)

    def rows(nodes: Tensor) -> Tensor:
        ways_back = graph.degrees[nodes] * one_hot(nodes, slice(0, classes + 1))
        return label_columns(near[nodes], far[nodes] - ways_back)

    return Later(rows)


def _unit(rows: Tensor) -> Tensor:
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / lengths.clamp_min(SHORTEST)
