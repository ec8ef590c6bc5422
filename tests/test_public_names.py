"""What meets the eye of somebody who tries the package in a shell."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import nn

import pace
from pace import GCN, Federation, Pace, adopt, fit, from_torch, merge
from pace.datasets import Dataset
from pace.datasets.partition import divide
from pace.methods import METHODS, make
from pace.runtimes.simulation import simulate
from tests.graphs import CLASSES, FEATURES, clients

MODEL = GCN((FEATURES, 8, CLASSES))
AGREED = Federation(MODEL, Pace(rank=2), 7, 3)


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Any, edge_index: Any) -> Any:
        return self.linear(x)


def adopted(data: Any) -> object:
    kept, upload = fit(clients(1)[0], AGREED)
    return adopt(data, kept, merge([upload], AGREED)[0], AGREED)


@pytest.mark.parametrize(
    "call",
    [
        lambda data: fit(data, AGREED),
        adopted,
        lambda data: simulate([data], {"pace": Pace()}, model=MODEL, seeds=[1], epochs=1),
        lambda data: MODEL(MODEL.start(0), data),
        lambda data: (own := from_torch(Own(), FEATURES, CLASSES))(own.start(0), data),
        lambda data: Dataset("mine", data, CLASSES),
        lambda data: divide(data, "louvain", 2),
    ],
    ids=["fit", "adopt", "simulate", "GCN", "from_torch", "Dataset", "divide"],
)
def test_a_pyg_data_is_answered_with_the_way_to_make_a_graph(
    call: Callable[[Any], object],
) -> None:
    with pytest.raises(
        TypeError, match=r"torch_geometric.*Data, expected .*Graph\.from_pyg\(data\)"
    ):
        call(clients(1)[0].to_pyg())


def test_a_repr_is_a_line_and_names_what_matters() -> None:
    graph = clients(1)[0]
    kept, upload = fit(graph, AGREED)
    adoption = adopt(graph, kept, merge([upload], AGREED)[0], AGREED)
    dataset = Dataset("mine", graph, CLASSES)
    (trial,) = simulate([graph], {"pace": Pace()}, model=MODEL, seeds=[1], epochs=1).trials
    for value in (graph, dataset, kept, adoption, AGREED, trial):
        assert len(repr(value)) < 250, repr(value)
        assert "\n" not in repr(value)
    edges = graph.edges.shape[1] // 2
    masks = ", ".join(
        f"{name} {int(getattr(graph, name).sum())}" for name in ("train", "val", "test")
    )
    size = f"{graph.nodes} nodes, {edges} edges, {FEATURES} features"
    assert repr(graph) == f"Graph({size}, {masks})"
    assert repr(adoption).startswith(f"Adoption(alpha={adoption.alpha:.4f}, {graph.nodes} nodes")
    assert repr(Pace(rank=2)) == "Pace(rank=2, geometry=propagated, gate=cnll)"


def test_no_method_shows_an_address() -> None:
    assert [name for name in METHODS if " at 0x" in repr(make(name))] == []


def test_dir_shows_the_public_names_alone() -> None:
    assert dir(pace) == sorted(pace.__all__)
    assert all(getattr(pace, name) is not None for name in dir(pace))
