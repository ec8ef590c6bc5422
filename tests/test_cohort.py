import numpy as np
import pytest
import torch
from scipy import sparse

from pace import cohort
from pace.blocks import Blocks, Chain, together
from pace.federation import Recipe
from pace.gcn import GCN
from pace.graph import Graph
from pace.noise import Noise
from pace.operator import Operator, csr_tensor
from pace.training import lesson, train, train_cohort
from tests.graphs import CLASSES, FEATURES, clients, none
from tests.test_gcn import DEPTHS

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
        lessons = [lesson(graph, gcn) for graph in graphs]
        batch = cohort.learn(lessons, starts, recipe, "cpu")
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


@pytest.mark.parametrize("dropout", [0.5, 0.3])
def test_packed_noise_is_the_same_stream(dropout: float) -> None:
    graph = clients(1)[0]
    shapes = [(37, 16), (11, 5)]
    packed = Noise(dropout, 1, graph).packed(4, shapes)
    single = Noise(dropout, 1, graph)
    for epoch in range(4):
        for part, (rows, width) in zip(packed, shapes, strict=True):
            shown = np.unpackbits(part[epoch], axis=1)[:, :width].reshape(-1)
            assert torch.equal(torch.from_numpy(shown), single.keep(rows * width))


@pytest.mark.parametrize("filled", [0.01, 0.5])
def test_blocks_multiply_every_client_and_seed(filled: float) -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = [(50, 40), (31, 60), (12, 7)]
    parts = [
        torch.rand(shape, generator=generator) * (torch.rand(shape, generator=generator) < filled)
        for shape in shapes
    ]
    blocks = together([Operator(csr_tensor(sparse.csr_array(part.numpy()))) for part in parts])
    assert isinstance(blocks, Blocks)
    assert (blocks.matrix.layout == torch.strided) == (filled > 0.1)
    dense = torch.rand(3, 2, 60, 5, generator=generator)
    gradient = torch.rand(3, 2, 50, 5, generator=generator)
    product, back = blocks @ dense, blocks.back(gradient)
    for client, (part, (rows, columns)) in enumerate(zip(parts, shapes, strict=True)):
        for seed in range(2):
            expected = part @ dense[client, seed, :columns]
            torch.testing.assert_close(product[client, seed, :rows], expected)
            assert not product[client, seed, rows:].any()
            expected = part.t() @ gradient[client, seed, :rows]
            torch.testing.assert_close(back[client, seed, :columns], expected)


def test_sparse_features_stay_in_factors() -> None:
    graph = clients(1)[0]
    wide = torch.zeros(graph.nodes, 5000)
    wide[torch.arange(graph.nodes), torch.arange(graph.nodes) * 17] = 1.0
    bags = Graph.build(wide, graph.edges, graph.y)
    assert isinstance(together([bags.messages] * 2), Chain)
    assert isinstance(together([graph.messages] * 2), Blocks)
