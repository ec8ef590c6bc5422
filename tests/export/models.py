"""Models of every kind as a site would have them, without a federation: made-up Locals and Externals."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from pace.graph import Graph
from pace.jobs.job import Job
from pace.protocol import layouts, wire
from pace.runtimes.files.model import SiteModel
from pace.runtimes.files.outcome import MaskScores, Outcome, ReadingScores
from pace.runtimes.files.site import Members
from tests.graphs import clients
from tests.sites import job


def random_like(shapes: dict[str, tuple[int, ...]], seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: 2 * torch.randn(shape, generator=generator) / max(1, shape[-1]) ** 0.5
        for name, shape in shapes.items()
    }


def made(*, share: float = 0.6, of: Callable[..., Job] = job, **settings: Any) -> SiteModel:
    """A model of a job of these settings, of which `share` is not Local's."""
    agreed = of(**settings)
    federation = agreed.federation
    shapes = {name: tuple(value.shape) for name, value in federation.start.items()}
    externals = tuple(
        replace(blank, params=random_like(wire.layout(blank.params), place))
        for place, blank in enumerate(layouts.blank_externals(federation), start=1)
    )
    weights = (1 - share, *[share / len(externals)] * len(externals))
    outcome = replace(unscored(share, weights, agreed.model.classes), job=agreed.digest)
    mine = clients(1)[0]
    members = Members.of(mine, tuple(map(str, range(mine.nodes))))
    return SiteModel(agreed, random_like(shapes, 0), externals, outcome, members)


def unscored(alpha: float, weights: tuple[float, ...], classes: int) -> Outcome:
    """An outcome of a site without labelled nodes."""
    none = ReadingScores()
    scores = MaskScores(
        mask="val",
        nodes=0,
        classes=classes,
        local=none,
        external=none,
        adopted=none,
    )
    return Outcome(
        job="",
        name="north",
        alpha=alpha,
        weights=weights,
        decision="made up",
        upload="",
        returned="",
        roll=None,
        validation=scores,
        test=scores,
        drawn=None,
        adopted="",
        versions={},
    )


def graph(*, weighted: bool = False) -> Graph:
    """A client's graph with two nodes that have no edge; with weights if asked."""
    found = copy.copy(clients(1)[0])
    edges = found.edges[:, (found.edges > 1).all(0)]
    weights = None
    if weighted:
        low, high = edges.min(0).values, edges.max(0).values
        weights = 0.5 + ((low * 7 + high * 13) % 11) / 4  # the same both ways
    return replace(found, edges=edges, weights=weights)
