import gc
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from pace.graph import Graph
from pace.methods import Local
from pace.models.networks import GCN
from pace.models.operator import Operator
from pace.models.propagation import propagation, times_features
from pace.params import Params
from pace.protocol.federation import Federation
from pace.training.dropout import Activation, Dropout
from pace.training.optimiser import Gradient, Proximal, Recipe, Target
from pace.training.train import train, train_through
from tests.graphs import CLASSES, FEATURES, clients, federation, none
from tests.models.test_gcn import DEPTHS, pyg_layers, pyg_logits


def trained(graph: Graph, recipe: Recipe, *, dropout: float = 0.5, seed: int = 1) -> Params:
    gcn = GCN((FEATURES, 16, CLASSES), dropout)
    return train(graph, gcn, gcn.start(5), recipe=recipe, seed=seed)


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(),
        Recipe(optimiser="sgd", rate=0.1),
        Recipe(optimiser="sgd", rate=0.1, momentum=0.9),
    ],
)
def test_training_is_the_plain_pyg_loop(recipe: Recipe) -> None:
    """Without dropout there is no noise: a hundred steps of PyG's layers end at the same place."""
    graph = clients(1)[0]
    start = GCN((FEATURES, 16, CLASSES)).start(5)
    layers = pyg_layers(start)
    parameters = [value for conv in layers for value in (conv.lin.weight, conv.bias)]
    optimiser = (
        torch.optim.Adam(parameters, lr=0.01, weight_decay=5e-4)
        if recipe.optimiser == "adam"
        else torch.optim.SGD(parameters, lr=0.1, momentum=recipe.momentum, weight_decay=5e-4)
    )
    for _ in range(100):
        optimiser.zero_grad()
        loss = cross_entropy(pyg_logits(layers, graph)[graph.train], graph.y[graph.train])
        loss.backward()
        optimiser.step()
    local = trained(graph, recipe, dropout=0.0)
    for ours, theirs in zip(local.values(), parameters, strict=True):
        torch.testing.assert_close(ours, theirs.detach(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("clip", [0.05, 1e3])
@pytest.mark.parametrize("mu", [0.0, 0.5])
def test_a_clipped_gradient_is_torchs(clip: float, mu: float) -> None:
    """The norm is over every parameter, those of columns that no node reads among them."""
    graph = clients(1)[0]
    graph = replace(graph, x=torch.where(torch.arange(FEATURES) < 5, graph.x, 0.0))
    gcn = GCN((FEATURES, 16, CLASSES), 0.0)
    anchor = gcn.start(5)
    leaves = {name: value.clone().requires_grad_() for name, value in anchor.items()}
    optimiser = torch.optim.SGD(leaves.values(), lr=0.5, weight_decay=5e-4)
    for _ in range(8):
        optimiser.zero_grad()
        pulled = sum(((leaves[name] - anchor[name]) ** 2).sum() for name in anchor)
        loss = cross_entropy(gcn(leaves, graph).logits[graph.train], graph.y[graph.train])
        (loss + mu / 2 * pulled).backward()
        torch.nn.utils.clip_grad_norm_(leaves.values(), clip)
        optimiser.step()
    penalty = Proximal(mu) if mu else None
    recipe = Recipe(8, 0.5, optimiser="sgd", clip=clip, penalty=penalty)
    local = train(graph, gcn, anchor, recipe=recipe, seed=1)
    for name, value in leaves.items():
        torch.testing.assert_close(local[name], value.detach(), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("dropout", [0.0, 0.5, 0.3])
@pytest.mark.parametrize("widths", DEPTHS)
def test_the_closed_form_is_autograds_step_by_step(widths: tuple[int, ...], dropout: float) -> None:
    """The same noise and a loss term of zero: the same models, by the path of any other network."""
    graph = clients(1)[0]
    gcn = GCN(widths, dropout)

    def nothing(
        params: Params, start: Params, outputs: tuple[Tensor, ...], labels: Tensor
    ) -> Tensor:
        return torch.zeros(())

    for epochs in (1, 2, 3, 30):
        recipe = Recipe(epochs=epochs)
        closed = train(graph, gcn, gcn.start(5), recipe=recipe, seed=1)
        other = train(graph, gcn, gcn.start(5), recipe=replace(recipe, penalty=nothing), seed=1)
        torch.testing.assert_close(closed, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("widths", DEPTHS)
def test_the_gradient_is_autograds_in_float64(widths: tuple[int, ...]) -> None:
    """On the whole dense graph, to the last digits."""
    graph = clients(1)[0]
    spread = propagation(graph).matrix.to_dense().double()
    params = {name: value.double() + 0.01 for name, value in GCN(widths).start(3).items()}
    gradients = {name: torch.zeros_like(value) for name, value in params.items()}
    rows = graph.train.nonzero().flatten()
    operators = [Operator(spread @ graph.x.double()), *[Operator(spread)] * (len(widths) - 3)]
    operators += [Operator(spread[rows])] if len(widths) > 2 else []
    first = operators[0] if len(widths) > 2 else Operator(operators[0].matrix[rows])
    labels = graph.y[rows]
    share = torch.full((1, len(rows)), 1 / len(rows), dtype=torch.float64)
    target = Target(-share * one_hot(labels, CLASSES).t(), share)
    gradient = Gradient(params, gradients, [first, *operators[1:]], target)
    gradient(lambda output, bias, layer: (output + bias).relu())

    leaves = {name: value.clone().requires_grad_() for name, value in params.items()}
    hidden = graph.x.double()
    for layer in range(len(widths) - 1):
        hidden = hidden.relu() if layer else hidden
        hidden = spread @ hidden @ leaves[f"{layer}.weight"].t() + leaves[f"{layer}.bias"]
    cross_entropy(hidden[rows], labels).backward()
    for name, leaf in leaves.items():
        torch.testing.assert_close(gradients[name], leaf.grad, rtol=1e-10, atol=1e-12)


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
from pace.protocol.steps import fit
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
    local = train(idle, agreed.network, agreed.start, recipe=agreed.recipe, seed=1)
    for name, value in agreed.start.items():
        assert torch.equal(local[name], value)


@pytest.mark.parametrize("dropout", [0.5, 0.3, 0.9])
def test_dropout_drops_as_often_as_asked_and_keeps_the_mean(dropout: float) -> None:
    noise = Dropout(dropout, 3, clients(1)[0])
    dropped = noise(torch.ones(2000, 50))
    assert set(dropped.unique().tolist()) == {0.0, float(dropped.max())}
    assert float(dropped.mean()) == pytest.approx(1, abs=0.03)
    assert float((dropped == 0).float().mean()) == pytest.approx(dropout, abs=0.01)
    again = noise(torch.ones(2000, 50))
    kept_twice = ((dropped != 0) & (again != 0)).float().mean()
    assert float(kept_twice) == pytest.approx((1 - dropout) ** 2, abs=0.01)


def test_dropout_of_nearly_everything_keeps_something() -> None:
    graph = clients(1)[0]
    assert Dropout(1 - 1e-9, 3, graph).scale == 2**16
    local = trained(graph, Recipe(epochs=3), dropout=1 - 1e-9)
    assert all(value.isfinite().all() for value in local.values())


def test_dense_features_are_not_copied_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """All their columns are active: a large client has no room for P X twice."""
    graph = clients(1)[0]
    x = torch.rand(graph.x.shape, generator=torch.Generator().manual_seed(0))
    graph = replace(graph, x=x)
    assert isinstance(times_features(propagation(graph), graph), Operator)
    monkeypatch.delattr(Operator, "columns")
    trained(graph, Recipe(epochs=1))


def test_progress_is_told_of_every_epoch() -> None:
    told: list[int] = []
    gcn = GCN((FEATURES, CLASSES))
    train(clients(1)[0], gcn, gcn.start(0), recipe=Recipe(epochs=3), seed=0, progress=told.append)
    assert told == [1, 2, 3]


@pytest.mark.parametrize("recipe", [Recipe(), Recipe(penalty=Proximal(0.1), clip=0.5)])
def test_a_look_on_the_way_is_what_training_so_far_gives(recipe: Recipe) -> None:
    graph, setting, stops = clients()[0], federation(Local()), (1, 4, 9)
    idle = graph.x.clone()
    idle[:, 0] = 0  # a column that only decays
    graph = replace(graph, x=idle)
    given = (graph, setting.model, setting.start)
    looks = train_through(*given, recipe, 5, stops)
    for epochs, look in zip(stops, looks, strict=True):
        alone = train(*given, recipe=replace(recipe, epochs=epochs), seed=5)
        assert all(torch.equal(look[name], value) for name, value in alone.items())


def test_who_has_no_training_nodes_keeps_the_start_at_every_look() -> None:
    graph, setting = clients()[0], federation(Local())
    empty = replace(graph, train=torch.zeros_like(graph.train))
    looks = train_through(empty, setting.model, setting.start, Recipe(), 5, (1, 2))
    assert len(looks) == 2
    assert all(torch.equal(look[name], setting.start[name]) for look in looks for name in look)


def test_a_training_leaves_no_memory_behind() -> None:
    """Masks drawn ahead are half a megabyte a training: in a cycle they would wait for a collection."""
    gc.collect()
    gc.disable()
    try:
        trained(clients(1)[0], Recipe(epochs=3))
        assert not [alive for alive in gc.get_objects() if type(alive) is Activation]
    finally:
        gc.enable()
