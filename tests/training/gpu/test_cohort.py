from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor

from pace.graph import Graph
from pace.models.networks import GCN
from pace.params import Params
from pace.training.dropout import Dropout
from pace.training.optimiser import Proximal, Recipe
from pace.training.train import train, train_cohort
from pace_gpu import cohort
from pace_gpu.blocks import Blocks, Chain, Sparse, fields
from pace_gpu.masks import DropoutMasks
from tests.graphs import CLASSES, FEATURES, clients, none
from tests.models.test_gcn import DEPTHS

# Without a GPU the same operations run on the CPU; TRITON_INTERPRET=1 runs our kernels there too,
# slowly, except the products on tensor cores: Triton's interpreter takes bfloat16 for integers.
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SEEDS = [3, 4]


def unequal() -> list[Graph]:
    """Clients of several sizes, and one whose nodes have no edges."""
    graphs = [clients(1, nodes, seed=nodes)[0] for nodes in (40, 90, 61)]
    apart = graphs[0]
    nothing = torch.zeros((2, 0), dtype=torch.int64)
    return [*graphs, Graph(apart.x, nothing, apart.y, apart.train, apart.val, apart.test)]


@pytest.mark.parametrize("dropout", [0.0, 0.5, 0.3])
@pytest.mark.parametrize("widths", DEPTHS)
def test_in_a_batch_each_client_learns_what_it_learns_alone(
    widths: tuple[int, ...], dropout: float
) -> None:
    graphs = unequal()
    gcn = GCN(widths, dropout)
    starts = {seed: gcn.start(seed) for seed in SEEDS}
    for epochs in (1, 2, 3, 20):
        recipe = Recipe(epochs=epochs)
        batch = cohort.learn(graphs, gcn, starts, recipe, DEVICE)
        for seed in SEEDS:
            for graph, found in zip(graphs, batch[seed], strict=True):
                alone = train(graph, gcn, starts[seed], recipe=recipe, seed=seed)
                torch.testing.assert_close(found, alone, rtol=1e-4, atol=2e-5)


def test_one_after_the_other_each_client_learns_what_it_learns_alone() -> None:
    """Byte for byte: the same operations in the same order."""
    graphs = unequal()
    gcn = GCN((FEATURES, 16, CLASSES))
    idle = Graph.build(graphs[0].x, graphs[0].edges, graphs[0].y, train=none(graphs[0].nodes))
    graphs.append(idle)
    starts = {seed: gcn.start(seed) for seed in SEEDS}
    told: list[int] = []
    recipe = Recipe(epochs=5)
    found = train_cohort(graphs, gcn, starts, recipe=recipe, progress=told.append)
    assert sorted(told) == sorted(SEEDS * len(graphs))
    for seed in SEEDS:
        for graph, local in zip(graphs, found[seed], strict=True):
            alone = train(graph, gcn, starts[seed], recipe=recipe, seed=seed)
            assert all(torch.equal(local[name], alone[name]) for name in alone)


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(penalty=Proximal(0.05)),
        Recipe(optimiser="sgd", rate=0.1),
        Recipe(optimiser="sgd", rate=0.1, momentum=0.9, penalty=Proximal(0.05)),
    ],
)
@pytest.mark.parametrize("words", [0, 900])
def test_every_recipe_of_a_batch_is_that_of_a_client_alone(recipe: Recipe, words: int) -> None:
    """Also where features are bags of words, most of which a client never sees."""
    graphs = [bag_of_words(graph, words) if words else graph for graph in unequal()]
    gcn = GCN((graphs[0].features, 16, CLASSES))
    starts = {seed: gcn.start(seed) for seed in SEEDS}
    recipe = replace(recipe, epochs=12)
    batch = cohort.learn(graphs, gcn, starts, recipe, DEVICE)
    for seed in SEEDS:
        for graph, found in zip(graphs, batch[seed], strict=True):
            alone = train(graph, gcn, starts[seed], recipe=recipe, seed=seed)
            torch.testing.assert_close(found, alone, rtol=1e-4, atol=2e-5)


def test_the_pull_of_fedprox_is_autograds() -> None:
    """The same term as a loss that only autograd knows."""
    graph = bag_of_words(clients(1)[0], 900)
    gcn = GCN((900, 16, CLASSES))
    pull = Proximal(0.3)

    def unknown(
        params: Params, start: Params, outputs: tuple[Tensor, ...], labels: Tensor
    ) -> Tensor:
        return pull(params, start, outputs, labels)

    for epochs, clip in product((1, 2, 20), (0.05, None)):
        recipe = Recipe(epochs=epochs, clip=clip)
        found = [
            train(graph, gcn, gcn.start(5), recipe=replace(recipe, penalty=penalty), seed=1)
            for penalty in (pull, unknown, None)
        ]
        torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(found[0]["0.weight"], found[2]["0.weight"], atol=1e-3)


def test_a_gpu_takes_batch_by_batch_and_is_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels and captured graphs run on the current GPU; the CPU plays its part here."""
    graphs = unequal()
    gcn = GCN((FEATURES, 16, CLASSES))
    starts = {seed: gcn.start(seed) for seed in SEEDS}
    recipe = Recipe(epochs=5)
    current: list[str] = []
    learn = cohort.learn

    @contextmanager
    def device(name: str) -> Iterator[None]:
        current.append(name)
        yield
        current.pop()

    def on_the_cpu(
        graphs: list[Graph],
        gcn: GCN,
        starts: dict[int, Params],
        recipe: Recipe,
        device: str,
    ) -> dict[int, list[dict[str, Tensor]]]:
        assert current == [device] == ["cuda:1"]
        return learn(graphs, gcn, starts, recipe, "cpu")

    monkeypatch.setattr(torch.cuda, "device", device)
    monkeypatch.setattr(cohort, "batches", lambda *settings: [[0, 3], [2, 1]])
    monkeypatch.setattr(cohort, "learn", on_the_cpu)
    found = train_cohort(graphs, gcn, starts, recipe=recipe, device="cuda:1")
    for seed in SEEDS:
        for graph, local in zip(graphs, found[seed], strict=True):
            alone = train(graph, gcn, starts[seed], recipe=recipe, seed=seed)
            torch.testing.assert_close(local, alone, rtol=1e-4, atol=2e-5)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_where_there_is_no_gpu_torch_says_so() -> None:
    gcn = GCN((FEATURES, CLASSES))
    with pytest.raises((AssertionError, RuntimeError), match=r"CUDA|NVIDIA"):
        train_cohort(clients(1), gcn, {1: gcn.start(1)}, recipe=Recipe(epochs=1), device="cuda")


def test_a_batch_fits_with_its_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [40, 900, 41, 40]
    graphs = {place: clients(1, nodes)[0] for place, nodes in enumerate(sizes)}
    starts = {seed: GCN((FEATURES, 16, CLASSES)).start(seed) for seed in SEEDS}

    def found(free: int) -> list[list[int]]:
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, free))
        return cohort.batches(graphs, starts, "cuda")

    assert found(2**40) == [[0, 3, 2, 1]]
    assert found(20 * 2**20) == [[0, 3, 2], [1]]  # three of forty nodes are not padded to 900
    assert found(0) == [[0], [3], [2], [1]]
    monkeypatch.setattr(cohort, "GRID", 5)
    assert found(2**40) == [[0, 3], [2, 1]]


@pytest.mark.parametrize("dropout", [0.5, 0.3])
@pytest.mark.parametrize("ahead", [2**20, 1])
def test_the_draws_of_a_batch_are_the_streams_of_its_members(
    dropout: float, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pace_gpu.masks.PREFETCHED_BYTES", ahead)
    graphs = unequal()[:2]
    rows = [torch.tensor([37, 20]), torch.tensor([11, 13])]  # by layer, of each client
    widths, taken = [16, 5], torch.zeros((), device=DEVICE)
    noises = [[Dropout(dropout, seed, graph) for seed in SEEDS] for graph in graphs]
    single = [[Dropout(dropout, seed, graph) for seed in SEEDS] for graph in graphs]
    draws = DropoutMasks(noises, [each.to(DEVICE) for each in rows], widths, 3, taken)
    assert draws.prefetched_epochs == (1 if ahead == 1 else 3)
    for epoch in range(3):
        if epoch % draws.prefetched_epochs == 0:
            draws.refill()
        for layer, (counts, width) in enumerate(zip(rows, widths, strict=True)):
            ones = torch.ones(2, 2, 40, width, device=DEVICE)
            kept = draws.activate(ones, torch.zeros(2, 2, 1, width, device=DEVICE), layer).cpu()
            for client, place in product(range(2), range(2)):
                height = int(counts[client])
                (expected,) = single[client][place].kept(1, [height * width])
                expected = expected.view(height, width)
                assert torch.equal(kept[client, place, :height], expected.float())
                assert not kept[client, place, height:].any()
        taken += 1


@pytest.mark.parametrize("filled", [0.01, 0.5])
def test_blocks_multiply_every_client_and_seed(filled: float) -> None:
    generator = torch.Generator().manual_seed(0)
    parts = torch.rand(3, 50, 60, generator=generator)
    parts *= torch.rand(parts.shape, generator=generator) < filled
    parts[2, 12:] = 0  # a smaller client
    place, row, column = parts.nonzero(as_tuple=True)
    rows, columns = (place * 50 + row).to(DEVICE), (place * 60 + column).to(DEVICE)
    matrix = Sparse.of(rows, columns, parts[place, row, column].to(DEVICE), (3 * 50, 3 * 60))
    dense = torch.rand(3, 2, 60, 5, generator=generator)
    gradient = torch.rand(3, 2, 50, 5, generator=generator)
    for blocks in (Blocks(matrix, 3), Blocks(parts.to(DEVICE), 3)):
        product, back = blocks @ dense.to(DEVICE), blocks.back(gradient.to(DEVICE))
        torch.testing.assert_close(product.cpu(), parts[:, None] @ dense)
        torch.testing.assert_close(back.cpu(), parts.mT[:, None] @ gradient)


@pytest.mark.parametrize("words", [0, 900])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_fields_of_a_batch_are_those_of_its_clients(layers: int, words: int) -> None:
    graphs = [bag_of_words(graph, words) if words else graph for graph in unequal()]
    operators, _ = fields(graphs, layers, 2.0, DEVICE)
    assert isinstance(operators[0], Chain if words else Blocks)
    for client, graph in enumerate(graphs):
        alone = GCN.sized(graph.features, 8, layers, 3).field(graph, graph.train)
        factors = [1.0] + [2.0] * (layers - 1)
        for ours, theirs, factor in zip(operators, alone.operators, factors, strict=True):
            assert not isinstance(theirs, Tensor)
            expected = factor * theirs[torch.arange(theirs.shape[0])]
            rows, columns = expected.shape
            wide = columns if ours is operators[0] else int(height(ours))
            eye = torch.eye(wide, device=DEVICE)
            shown = (ours @ eye.expand(len(graphs), 1, wide, wide))[client, 0].cpu()
            torch.testing.assert_close(shown[:rows, :columns], expected)
            assert not shown[rows:].any()


def height(operator: Blocks | Chain) -> int:
    """The padded columns of a client."""
    assert isinstance(operator, Blocks)
    assert isinstance(operator.matrix, Sparse)
    return operator.matrix.shape[1] // operator.clients


def bag_of_words(graph: Graph, words: int) -> Graph:
    """The graph with features of which nearly all are zero, some in all of its nodes."""
    x = torch.zeros(graph.nodes, words)
    generator = torch.Generator().manual_seed(graph.nodes)
    chosen = torch.randint(words // 2, (graph.nodes, 3), generator=generator)
    x.scatter_(1, chosen, 1.0)
    return Graph(x, graph.edges, graph.y, graph.train, graph.val, graph.test)
