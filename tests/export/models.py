"""Models of every kind as a site would have them, without a federation: made-up Locals and Externals."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from pace.graph import Graph
from pace.jobs.job import Job
from pace.protocol import steps
from pace.runtimes.files.model import Model
from pace.runtimes.files.outcome import Outcome
from tests.graphs import clients
from tests.sites import job


def random_like(shapes: dict[str, tuple[int, ...]], seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: 2 * torch.randn(shape, generator=generator) / max(1, shape[-1]) ** 0.5
        for name, shape in shapes.items()
    }


def made(*, share: float = 0.6, of: Callable[..., Job] = job, **settings: Any) -> Model:
    """A model of a job of these settings, of which `share` is not Local's."""
    agreed = of(**settings)
    federation = agreed.federation
    shapes = {name: tuple(value.shape) for name, value in federation.start.items()}
    externals = tuple(
        random_like(dict(layout), place)
        for place, layout in enumerate(steps.external_layouts(federation), start=1)
    )
    weights = (1 - share, *[share / len(externals)] * len(externals))
    about = Outcome(name="north", alpha=share, weights=weights)
    return Model(agreed, random_like(shapes, 0), externals, weights, about)


def graph(*, weighted: bool = False) -> Graph:
    """A client's graph with two nodes that have no edge; with weights if asked."""
    found = copy.copy(clients(1)[0])
    edges = found.edges[:, (found.edges > 1).all(0)]
    weights = None
    if weighted:
        low, high = edges.min(0).values, edges.max(0).values
        weights = 0.5 + ((low * 7 + high * 13) % 11) / 4  # the same both ways
    return replace(found, edges=edges, weights=weights)
