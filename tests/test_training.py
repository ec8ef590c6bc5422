import subprocess
import sys

import pytest
import torch
from torch.nn.functional import cross_entropy

from pace.federation import Federation, Recipe
from pace.gcn import GCN
from pace.graph import Graph
from pace.methods import Local
from pace.params import Params
from pace.training import Noise, train
from tests.graphs import CLASSES, FEATURES, clients, federation, none
from tests.test_gcn import pyg_layers, pyg_logits


def trained(graph: Graph, recipe: Recipe, *, dropout: float = 0.5, seed: int = 1) -> Params:
    gcn = GCN((FEATURES, 16, CLASSES), dropout)
    return train(graph, gcn, gcn.start(5), recipe=recipe, seed=seed)


@pytest.mark.parametrize("recipe", [Recipe(), Recipe(optimiser="sgd", rate=0.1, momentum=0.9)])
def test_training_is_the_plain_pyg_loop(recipe: Recipe) -> None:
    """Without dropout there is no noise: a hundred steps of PyG's layers end at the same place."""
    graph = clients(1)[0]
    start = GCN((FEATURES, 16, CLASSES)).start(5)
    layers = pyg_layers(start)
    parameters = [value for conv in layers for value in (conv.lin.weight, conv.bias)]
    optimiser = (
        torch.optim.Adam(parameters, lr=0.01, weight_decay=5e-4)
        if recipe.optimiser == "adam"
        else torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=5e-4)
    )
    for _ in range(100):
        optimiser.zero_grad()
        loss = cross_entropy(pyg_logits(layers, graph)[graph.train], graph.y[graph.train])
        loss.backward()
        optimiser.step()
    local = trained(graph, recipe, dropout=0.0)
    for ours, theirs in zip(local.values(), parameters, strict=True):
        torch.testing.assert_close(ours, theirs.detach(), rtol=1e-3, atol=1e-4)


def test_training_lowers_the_loss() -> None:
    graph = clients(1)[0]
    gcn = GCN((FEATURES, 16, CLASSES))
    local = trained(graph, Recipe())

    def loss(params: Params) -> float:
        logits = gcn(params, graph).logits[graph.train]
        return float(cross_entropy(logits, graph.y[graph.train]))

    assert loss(local) < 0.2 * loss(gcn.start(5))


def test_only_training_labels_are_read() -> None:
    graph = clients(1)[0]
    hidden = graph.y.clone()
    hidden[~graph.train] = (hidden[~graph.train] + 1) % CLASSES
    other = Graph(graph.x, graph.edges, hidden, graph.train, graph.val, graph.test)
    for ours, theirs in zip(
        trained(graph, Recipe(epochs=5)).values(),
        trained(other, Recipe(epochs=5)).values(),
        strict=True,
    ):
        assert torch.equal(ours, theirs)


def test_the_same_seed_gives_the_same_bytes_and_another_does_not() -> None:
    graph = clients(1)[0]
    first, again = trained(graph, Recipe(epochs=10)), trained(graph, Recipe(epochs=10))
    other = trained(graph, Recipe(epochs=10), seed=2)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["0.weight"], other["0.weight"])


def test_the_global_generator_is_neither_read_nor_moved() -> None:
    graph = clients(1)[0]
    torch.manual_seed(1)
    first = trained(graph, Recipe(epochs=3))
    state = torch.get_rng_state()
    torch.manual_seed(2)
    again = trained(graph, Recipe(epochs=3))
    assert torch.equal(first["0.weight"], again["0.weight"])
    torch.manual_seed(1)
    assert torch.equal(torch.get_rng_state(), state)


DIGEST = """
import torch
from pace.methods import Pace
from pace.protocol import fit
from tests.graphs import clients, federation
torch.set_num_threads(1)
print(fit(clients(3)[1], federation(Pace()))[1].hex())
"""


def test_another_process_learns_the_same() -> None:
    runs = [
        subprocess.run([sys.executable, "-c", DIGEST], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert runs[0].stdout == runs[1].stdout
    assert len(runs[0].stdout) > 1000


def test_a_client_without_training_nodes_keeps_the_start() -> None:
    graph = clients(1)[0]
    idle = Graph.build(graph.x, graph.edges, graph.y, train=none(graph.nodes))
    agreed: Federation = federation(Local())
    local = train(idle, agreed.model, agreed.start, recipe=agreed.recipe, seed=1)
    for name, value in agreed.start.items():
        assert torch.equal(local[name], value)


@pytest.mark.parametrize("dropout", [0.5, 0.3, 0.9])
def test_dropout_drops_as_often_as_asked_and_keeps_the_mean(dropout: float) -> None:
    noise = Noise(dropout, 3, clients(1)[0])
    dropped = noise(torch.ones(2000, 50))
    assert set(dropped.unique().tolist()) == {0.0, float(dropped.max())}
    assert float(dropped.mean()) == pytest.approx(1, abs=0.03)
    assert float((dropped == 0).float().mean()) == pytest.approx(dropout, abs=0.01)
    again = noise(torch.ones(2000, 50))
    kept_twice = ((dropped != 0) & (again != 0)).float().mean()
    assert float(kept_twice) == pytest.approx((1 - dropout) ** 2, abs=0.01)


def test_progress_is_told_of_every_epoch() -> None:
    told: list[int] = []
    gcn = GCN((FEATURES, CLASSES))
    train(clients(1)[0], gcn, gcn.start(0), recipe=Recipe(epochs=3), seed=0, progress=told.append)
    assert told == [1, 2, 3]
