"""Edge weights and directions in the models, against PyG's layers; and who refuses them."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch_geometric import nn as pyg

from pace.datasets import Dataset, file
from pace.datasets.partition import divide
from pace.errors import GraphError, SettingError
from pace.graph import Graph
from pace.methods import Pace
from pace.models import GCN, MODELS, make, sized
from pace.models.propagation import propagation
from pace.protocol import steps
from pace.protocol.federation import Federation
from pace.tables.importing import Columns, import_graph
from tests.graphs import CLASSES, FEATURES, clients

WEIGHTED = ("gcn", "sgc", "appnp", "mlp")


def weighted(directed: bool) -> Graph:
    """A client's graph with random weights; with directions a third of its edges goes one way."""
    plain = clients(1)[0]
    random = torch.Generator().manual_seed(5)
    keep = torch.rand(plain.edges.shape[1], generator=random) < (0.7 if directed else 1)
    edges = plain.edges[:, keep]
    weights = torch.rand(edges.shape[1], generator=random) + 0.1
    masks = {"train": plain.train, "val": plain.val, "test": plain.test}
    return Graph.build(plain.x, edges, plain.y, **masks, weights=weights, directed=directed)


def layer(kind: str, weight: Tensor, bias: Tensor) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    if kind == "gcn":
        conv = pyg.GCNConv(weight.shape[1], weight.shape[0])
        conv.lin.weight.data, conv.bias.data = weight, bias
        return conv  # type: ignore[no-any-return]
    if kind == "sgc":
        conv = pyg.SGConv(weight.shape[1], weight.shape[0], K=2)
        conv.lin.weight.data, conv.lin.bias.data = weight, bias
        return conv  # type: ignore[no-any-return]
    spread = pyg.APPNP(K=10, alpha=0.1)
    return lambda x, edges, weights: spread(x @ weight.t() + bias, edges, weights)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", ["gcn", "sgc", "appnp"])
def test_weights_enter_as_pyg_lets_them(kind: str, directed: bool) -> None:
    graph = weighted(directed)
    model = make(kind, (FEATURES, CLASSES))
    params = model.start(3)
    weight, bias = params.values()
    theirs = layer(kind, weight, bias)(graph.x, graph.edges, graph.weights)  # type: ignore[arg-type]
    ours = model(params, graph).logits
    torch.testing.assert_close(ours, theirs)
    assert not torch.allclose(ours, model(params, dataclasses.replace(graph, weights=None)).logits)
    field = model.field(graph, graph.train)
    torch.testing.assert_close(model.forward(params, field).logits, theirs[graph.train])


@pytest.mark.parametrize("kind", ["gcn", "sage", "gin", "gat"])
def test_directions_are_pygs(kind: str) -> None:
    graph = dataclasses.replace(weighted(directed=True), weights=None)
    model = sized(kind, FEATURES, 16, 1, CLASSES)
    params = dict(model.start(3))
    convs = {
        "gcn": lambda: pyg.GCNConv(FEATURES, CLASSES),
        "sage": lambda: pyg.SAGEConv(FEATURES, CLASSES),
        "gin": lambda: pyg.GINConv(
            torch.nn.Sequential(
                torch.nn.Linear(FEATURES, CLASSES),
                torch.nn.ReLU(),
                torch.nn.Linear(CLASSES, CLASSES),
            )
        ),
        "gat": lambda: pyg.GATConv(FEATURES, CLASSES, 8, concat=False),
    }
    order = {
        "gcn": ("0.bias", "0.weight"),
        "sage": ("0.neighbours.weight", "0.neighbours.bias", "0.root.weight"),
        "gin": tuple(params),
        "gat": ("0.attention.source", "0.attention.target", "0.bias", "0.weight"),
    }[kind]
    conv = convs[kind]()
    state = dict(zip(dict(conv.named_parameters()), (params[name] for name in order), strict=True))
    theirs = torch.func.functional_call(conv, state, (graph.x, graph.edges))
    torch.testing.assert_close(model(params, graph).logits, theirs)


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_that_reads_no_weights_says_so(kind: str) -> None:
    agreed = Federation(sized(kind, FEATURES, 16, 2, CLASSES), Pace(), 7, 3)
    graph = weighted(directed=False)
    if kind in WEIGHTED:
        kept, upload = steps.fit(graph, agreed)
        (returned,) = steps.merge([upload], agreed)
        steps.adopt(graph, kept, returned, agreed)
        return
    with pytest.raises(GraphError, match=r"has edge weights, which a .* does not read"):
        steps.fit(graph, agreed)


def test_closed_form_and_autograd_agree_on_weights_and_directions() -> None:
    from pace.training.optimiser import Recipe
    from pace.training.train import by_autograd, closed_form

    graph = weighted(directed=True)
    gcn = GCN((FEATURES, 16, CLASSES))
    recipe = Recipe(epochs=5)
    both = [
        next(way(graph, gcn, recipe, lambda epoch: None)(gcn.start(1), 1, [recipe.epochs]))
        for way in (closed_form, by_autograd)
    ]
    for name, value in both[0].items():
        torch.testing.assert_close(value, both[1][name], rtol=1e-4, atol=1e-5)


def test_a_pyg_data_is_answered_with_the_way_to_make_a_graph() -> None:
    agreed = Federation(sized("gcn", FEATURES, 16, 2, CLASSES), Pace(), 7, 3)
    with pytest.raises(TypeError, match=r"Graph\.from_pyg\(data\)"):
        steps.fit(clients(1)[0].to_pyg(), agreed)


@pytest.mark.parametrize("directed", [False, True])
def test_a_file_and_a_partition_keep_weights_and_directions(directed: bool, tmp_path: Path) -> None:
    graph = weighted(directed)
    file.write_graph(tmp_path / "mine.graph", Dataset("mine", graph, CLASSES))
    back = file.read_graph(tmp_path / "mine.graph")
    assert back.graph.fingerprint == graph.fingerprint
    whole = propagation(graph).matrix.to_dense()
    for part in divide(Dataset("mine", graph, CLASSES, owner=torch.arange(90) % 2), "column", 2):
        assert part.directed == directed
        assert part.weights is not None
        assert part.weights.shape == (part.edges.shape[1],)
    first = divide(Dataset("mine", graph, CLASSES, owner=torch.arange(90) * 0), "column", 1)[0]
    torch.testing.assert_close(propagation(first).matrix.to_dense(), whole)


def test_a_plain_file_is_written_as_before(tmp_path: Path) -> None:
    file.write_graph(tmp_path / "mine.graph", Dataset("mine", clients(1)[0], CLASSES))
    content = (tmp_path / "mine.graph").read_bytes()
    assert b"weights" not in content
    assert b"directed" not in content


NODES = "id,kind,a\nn0,x,1\nn1,y,2\nn2,x,0\n"


def tables(folder: Path, edges: str) -> tuple[Path, Path]:
    (folder / "nodes.csv").write_text(NODES)
    (folder / "edges.csv").write_text(edges)
    return folder / "nodes.csv", folder / "edges.csv"


def test_a_table_may_have_weights(tmp_path: Path) -> None:
    paths = tables(tmp_path, "source,target,strength,since\nn0,n1,2.5,2001\nn2,n1,0.5,1999\n")
    made = import_graph(*paths, Columns(label="kind", weight="strength"))
    assert made.dataset.graph.weights is not None
    assert made.dataset.graph.weights.tolist() == [2.5, 2.5, 0.5, 0.5]
    assert any("not used are since" in note and "weigh" not in note for note in made.notes)
    kept = import_graph(*paths, Columns(label="kind", weight="strength", directions="keep"))
    assert kept.dataset.graph.edges.t().tolist() == [[0, 1], [2, 1]]
    assert kept.dataset.graph.directed
    plain = import_graph(*paths, Columns(label="kind"))
    assert plain.dataset.graph.weights is None
    assert any("all edges weigh the same" in note for note in plain.notes)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (Columns(weight="strenght"), "--weight names 'strenght': edges.csv has no such column"),
        (Columns(weight="strength"), "row 3: 'strength' is 'much', expected a number above 0"),
        (Columns(directions="some"), "--directions is 'some', expected both or keep"),
    ],
)
def test_weights_in_tables_are_checked(columns: Columns, says: str, tmp_path: Path) -> None:
    paths = tables(tmp_path, "source,target,strength\nn0,n1,1\nn1,n2,much\n")
    with pytest.raises((SettingError, GraphError), match=says):
        import_graph(*paths, columns)
