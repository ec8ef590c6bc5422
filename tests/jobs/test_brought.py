"""What each site brought, from real uploads: who sends nothing of use shows up at ten sites."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch

import pace
from pace.graph import Graph
from pace.jobs.disclosure import Brought, brought
from pace.protocol import steps

SITES = tuple(f"site-{number}" for number in range(10))
DATASET = "synthetic:nodes=2000,features=120,communities=20,classes=4"


@cache
def graphs() -> tuple[Graph, ...]:
    return tuple(pace.divide(pace.load(DATASET), "louvain", clients=len(SITES)))


def told(method: str, first: Graph) -> Brought:
    """With another graph at the first site."""
    others = graphs()[1:]
    federation = pace.agree(graphs(), method, hidden=8, epochs=1)
    uploads = [steps.fit(graph, federation)[1] for graph in (first, *others)]
    found = brought(steps.received(uploads, federation), federation, SITES)
    assert found is not None
    return found


def changed(kind: str) -> Graph:
    """The first site's graph with its labels flipped, or with everything made up."""
    graph, generator = graphs()[0], torch.Generator().manual_seed(1)
    if kind == "flipped labels":
        return replace(graph, y=(graph.y + 1) % 4)
    columns = torch.randperm(graph.features, generator=generator)
    drawn = torch.randint(0, 4, graph.y.shape, generator=generator)
    return replace(graph, x=graph.x[:, columns], y=drawn)


@pytest.mark.parametrize("method", ["pace-ridge", "pace-ridge-sums"])
def test_honest_sites_are_not_accused(method: str) -> None:
    found = told(method, graphs()[0])
    assert not any(map(found.flags, SITES))
    assert sum(found.shapley) > 0
    assert set(found.to_receiver("site-3")) == set(SITES) - {"site-3"}


@pytest.mark.parametrize("method", ["pace-ridge", "pace-ridge-sums"])
@pytest.mark.parametrize("kind", ["flipped labels", "a free rider"])
def test_flipped_labels_and_a_free_rider_show_at_ten_sites(method: str, kind: str) -> None:
    found = told(method, changed(kind))
    assert [name for name in SITES if found.flags(name)] == ["site-0"]
    assert "nobody else would miss it" in found.flags("site-0")
    worse = "what the others learn is worse than nothing on it"
    assert (worse in found.flags("site-0")) == (kind == "flipped labels")


def test_a_method_without_regressions_and_many_sites_say_nothing() -> None:
    federation = pace.agree(graphs(), "pace:rank=2", hidden=8, epochs=1)
    uploads = [steps.fit(graph, federation)[1] for graph in graphs()[:2]]
    received = steps.received(uploads, federation)
    assert brought(received, federation, SITES[:2]) is None
