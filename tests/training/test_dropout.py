"""Dropout's draws belong to one client and one seed."""

import pytest
import torch

from pace.graph import Graph
from pace.training.dropout import AHEAD, Activation, Dropout, scale, threshold


def ring(nodes: int, step: int) -> Graph:
    """Every node joined to the one `step` places on."""
    here = torch.arange(nodes)
    edges = torch.stack([here, (here + step) % nodes])
    return Graph.build(torch.ones(nodes, 2), edges, torch.zeros(nodes, dtype=torch.int64))


def drawn(seed: int, graph: Graph) -> torch.Tensor:
    return Dropout(0.5, seed, graph)(torch.ones(64, 32))


def test_the_same_client_and_seed_draw_the_same() -> None:
    assert torch.equal(drawn(3, ring(30, 1)), drawn(3, ring(30, 1)))


@pytest.mark.parametrize(
    ("seed", "graph"),
    [(3, ring(30, 2)), (4, ring(30, 1)), (3, ring(31, 1))],
    ids=["other edges", "other seed", "other nodes"],
)
def test_another_client_or_seed_draws_independently(seed: int, graph: Graph) -> None:
    """As many nodes and edges, only other ends: about half of the draws agree."""
    same = (drawn(seed, graph) == drawn(3, ring(30, 1))).float().mean()
    assert float(same) == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("dropout", [0.5, 0.3])
def test_masks_drawn_ahead_are_the_stream_epoch_by_epoch(dropout: float) -> None:
    """Beyond the epochs that are drawn at once, masks go on along the stream and do not repeat."""
    shapes = [(64, 32), (16, 8)]
    stream = Dropout(dropout, 3, ring(30, 1))
    activate = Activation(Dropout(dropout, 3, ring(30, 1)), shapes)
    ahead = AHEAD // (4 * (64 * 32 + 16 * 8))
    assert ahead > 1
    for _ in range(2 * ahead + 1):
        for layer, (rows, width) in enumerate(shapes):
            hidden = activate(torch.ones(rows, width), torch.zeros(width), layer)
            (kept,) = stream.kept(1, [rows * width])
            assert torch.equal(hidden, kept.view(rows, width).float())


@pytest.mark.parametrize(
    ("dropout", "below"),
    [(0.0, 0), (0.5, 2**15), (0.3, 19661), (0.7, 45875), (0.999999, 2**16 - 1)],
)
def test_a_chance_is_the_nearest_multiple_that_still_keeps_something(
    dropout: float, below: int
) -> None:
    assert threshold(dropout) == below
    assert scale(dropout) == pytest.approx(1 / (1 - below / 2**16))
