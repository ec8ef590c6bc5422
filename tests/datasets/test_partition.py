"""Partitions, client graphs and masks, as properties of random graphs."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pace.datasets.dataset import Dataset, Names
from pace.datasets.partition import (
    PARTITIONS,
    Random,
    by_dirichlet,
    by_louvain,
    cut,
    describe_clients,
    divide,
    pack,
    read_partition,
    split,
    write_partition,
)
from pace.datasets.synthetic import Synthetic, synthetic
from pace.errors import SettingError
from pace.graph import UNKNOWN, Graph, induced

MASKS = ("train", "val", "test")


def dataset(nodes: int = 200, seed: int = 0, unlabelled: float = 0.1) -> Dataset:
    """A small graph with some unlabelled nodes, owned by three clients."""
    graph = synthetic(
        Synthetic(nodes=nodes, classes=3, features=8, communities=7, words=3, seed=seed)
    )
    random = np.random.Generator(np.random.PCG64(seed))
    hidden = torch.from_numpy(random.random(nodes) < unlabelled)
    graph = dataclasses.replace(graph, y=graph.y.masked_fill(hidden, UNKNOWN))
    owner = torch.arange(nodes) % 3
    return Dataset("small", graph, 3, owner=owner, names=Names(clients=("a", "b", "c")))


@settings(max_examples=20)
@given(
    st.sampled_from(list(PARTITIONS)),
    st.integers(2, 5),
    st.integers(60, 200),
    st.integers(0, 2**32 - 1),
)
def test_every_partition_covers_each_node_once(
    partition: str, clients: int, nodes: int, seed: int
) -> None:
    if partition == "metis":
        pytest.importorskip("pymetis")
    whole = dataset(nodes, seed)
    try:
        made = divide(whole, partition, clients, seed)
    except SettingError:
        assert partition in ("louvain", "dirichlet")  # too few nodes to go round, and says so
        return
    assert sorted(int(node) for held in made.nodes for node in held) == list(range(nodes))
    for held, graph in zip(made.nodes, made, strict=True):
        order = torch.as_tensor(held)
        assert torch.equal(graph.x, whole.graph.x[order])
        assert torch.equal(graph.y, whole.graph.y[order])


@settings(max_examples=20)
@given(st.sampled_from(["louvain", "dirichlet", "column"]), st.integers(0, 2**32 - 1))
def test_masks_are_disjoint_and_cover_the_labelled_nodes(partition: str, seed: int) -> None:
    for graph in divide(dataset(), partition, 3, seed):
        times = graph.train.int() + graph.val.int() + graph.test.int()
        assert torch.equal(times, (graph.y != UNKNOWN).int())


@settings(max_examples=10)
@given(st.sampled_from(["louvain", "dirichlet", "column"]), st.integers(0, 2**32 - 1))
def test_partition_and_masks_depend_on_the_data_seed_alone(partition: str, seed: int) -> None:
    whole = dataset()
    np.random.seed(1)
    first = divide(whole, partition, 3, seed)
    np.random.seed(2)  # the global stream is nobody's business
    again = divide(whole, partition, 3, seed)
    assert [list(nodes) for nodes in first.nodes] == [list(nodes) for nodes in again.nodes]
    for one, two in zip(first, again, strict=True):
        assert all(torch.equal(getattr(one, mask), getattr(two, mask)) for mask in MASKS)


def test_another_data_seed_draws_other_masks() -> None:
    one, two = (divide(dataset(), "column", 3, seed) for seed in (1, 2))
    assert not all(torch.equal(a.train, b.train) for a, b in zip(one, two, strict=True))


@given(st.lists(st.integers(-1, 3), min_size=1, max_size=60), st.integers(0, 2**32 - 1))
def test_each_class_is_cut_by_the_ratios_rounded_down(labels: list[int], seed: int) -> None:
    y = np.array(labels)
    parts = split(y, 4, Random(seed), (0.2, 0.4, 0.4))
    for label in range(4):
        n = int((y == label).sum())
        sizes = [int((y[part] == label).sum()) for part in parts]
        assert sizes == [n // 5, 3 * n // 5 - n // 5, n - 3 * n // 5]


@given(st.integers(0, 100), st.integers(1, 6))
def test_all_client_graphs_at_once_are_those_made_one_by_one(seed: int, clients: int) -> None:
    graph = dataset(60, seed % 5).graph
    order = torch.randperm(60, generator=torch.Generator().manual_seed(seed))
    lists = [part.tolist() for part in order.tensor_split(clients)]
    for held, part in zip(lists, induced(graph, lists), strict=True):
        alone = graph.induced(torch.tensor(held))
        assert torch.equal(part.edges, alone.edges)
        assert torch.equal(part.x, alone.x)


def test_an_own_split_is_kept() -> None:
    whole = dataset()
    labelled = whole.graph.y != UNKNOWN
    third = torch.arange(whole.graph.nodes) % 3
    masks: dict[str, Any] = {
        mask: labelled & (third == number) for number, mask in enumerate(MASKS)
    }
    graph = dataclasses.replace(whole.graph, **masks)
    made = divide(dataclasses.replace(whole, graph=graph), "louvain", 4)
    for nodes, part in zip(made.nodes, made, strict=True):
        for mask in MASKS:
            assert torch.equal(getattr(part, mask), masks[mask][torch.as_tensor(nodes)])


def test_louvain_sees_directions_and_client_graphs_do_not() -> None:
    whole = dataset()
    upward = whole.graph.edges[:, whole.graph.edges[0] < whole.graph.edges[1]]
    made = divide(dataclasses.replace(whole, directed=upward), "louvain", 3)
    one_way = Graph.build(whole.graph.x, upward, whole.graph.y, directed=True)
    assert made.nodes == by_louvain(Dataset("one way", one_way, 4), 3)
    for nodes, graph in zip(made.nodes, made, strict=True):
        assert torch.equal(graph.edges, whole.graph.induced(torch.as_tensor(nodes)).edges)


def test_long_communities_are_cut_again_at_the_end_of_the_list() -> None:
    assert cut([[0, 1, 2, 3, 4], [5]], 2) == [[0, 1], [5], [2, 3], [4]]


class Dealt:
    """A stream that shuffles nothing and gives the shares it was told."""

    def __init__(self, *shares: list[float]) -> None:
        self.shares = iter(shares)

    def shuffle(self, members: object) -> None: ...

    def dirichlet(self, alphas: object) -> Any:
        return np.array(next(self.shares))


def test_a_client_with_its_even_share_takes_no_further_class() -> None:
    labels, none = torch.arange(2).repeat_interleave(10), torch.zeros(2, 0).long()
    whole = Dataset("two", Graph.build(torch.ones(20, 1), none, labels), 2)
    dealt: Any = Dealt([1.0, 0.0], [0.5, 0.5])
    first, second = by_dirichlet(whole, 2, dealt)
    assert (list(first), list(second)) == ([*range(10)], [*range(10, 20)])


def test_a_client_is_filled_until_the_next_group_would_overflow_it() -> None:
    assert pack([[0, 1, 2], [3, 4], [5]], 2, target=3, delta=1) == [[0, 1, 2], [3, 4, 5]]


def test_metis_separates_two_cliques() -> None:
    pytest.importorskip("pymetis")
    clique = torch.tensor([(i, j) for i in range(6) for j in range(6) if i != j]).t()
    graph = Graph.build(
        torch.zeros(12, 1),
        torch.cat([clique, clique + 6, torch.tensor([[0], [6]])], 1),
        torch.zeros(12).long(),
    )
    parts = divide(Dataset("cliques", graph, 1), "metis", 2).nodes
    assert sorted(map(list, parts)) == [list(range(6)), list(range(6, 12))]


def test_mistakes_are_said_in_a_sentence() -> None:
    whole = dataset()
    bare = dataclasses.replace(whole, owner=None)
    for settled, partition, clients, seed, said in [
        (whole, "luvain", 3, 1, "did you mean 'louvain'"),
        (whole, "louvain", 0, 1, "clients is 0"),
        (whole, "louvain", 201, 1, "expected 1 to 200"),
        (whole, "louvain", 3, -1, "data seed is -1"),
        (whole, "dirichlet", 100, 1, "fewer than 100 clients"),
        (bare, "column", 3, 1, "--client COLUMN"),
    ]:
        with pytest.raises(SettingError, match=said):
            divide(settled, partition, clients, seed)


def test_metis_without_pymetis_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(SettingError, match=r"pip install 'pace-fgl\[research\]'"):
        divide(dataset(), "metis", 2)


@pytest.mark.parametrize("partition", ["louvain", "dirichlet", "column"])
def test_a_partition_file_gives_the_same_graphs_back(partition: str, tmp_path: Path) -> None:
    whole = dataset()
    made = divide(whole, partition, 3, 5)
    path = tmp_path / "p.json"
    write_partition(path, whole, made)
    for one, two in zip(made, read_partition(path, whole), strict=True):
        for part in ("x", "edges", "y", *MASKS):
            assert torch.equal(getattr(one, part), getattr(two, part))


def test_a_partition_file_has_the_keys_of_the_reference(tmp_path: Path) -> None:
    whole, path = dataset(), tmp_path / "p.json"
    write_partition(path, whole, divide(whole, "louvain", 3))
    content = json.loads(path.read_text())
    expected = "format dataset partition num_clients data_seed params split source versions"
    assert list(content) == [*expected.split(), "num_nodes", "clients"]
    assert list(content["clients"][0]) == ["nodes", "train", "val", "test", "num_directed_edges"]
    assert content["format"] == "pace-partition-1"
    assert content["params"] == {"resolution": 1.0, "delta": 20}


def test_a_partition_of_something_else_is_refused(tmp_path: Path) -> None:
    whole, path = dataset(), tmp_path / "p.json"
    write_partition(path, whole, divide(whole, "column", 3))
    with pytest.raises(SettingError, match="use the dataset it was made of"):
        read_partition(path, dataset(100))
    content = json.loads(path.read_text())
    content["clients"][0]["nodes"][0] = content["clients"][1]["nodes"][0]
    empty = dict.fromkeys(("nodes", "train", "val", "test"), ())
    for damage, said in [
        (json.dumps(content), "every node to exactly one client"),
        (json.dumps(content | {"clients": [*content["clients"], empty]}), "or a client none"),
        ("{", "is not a partition"),
        ("[]", "is not a partition"),
        ("\0" * 5000, "is not a partition"),
    ]:
        path.write_text(damage)
        with pytest.raises(SettingError, match=said):
            read_partition(path, whole)
    path.write_bytes(b"\x89PNG" + 5000 * b"\0")
    with pytest.raises(SettingError, match=r"is not a partition .{,250}: make it"):
        read_partition(path, whole)
    with pytest.raises(SettingError, match=r"is not a partition .* \(FileNotFoundError"):
        read_partition(tmp_path / "nowhere.json", whole)


def test_what_clients_lost_is_what_the_graph_had_more() -> None:
    whole = dataset()
    made = divide(whole, "column", 3)
    clients = describe_clients(whole, made)
    edges = whole.graph.edges.shape[1] // 2
    assert sum(c["lost"] for c in clients) == 2 * (edges - sum(c["edges"] for c in clients))
    assert [client["name"] for client in clients] == ["a", "b", "c"]
    assert all(sum(c["labels"]) + c["unlabelled"] == c["nodes"] for c in clients)
    assert all(sum(c["labels"]) == c["train"] + c["val"] + c["test"] for c in clients)


@pytest.mark.slow
@pytest.mark.parametrize("partition", ["louvain", "metis", "dirichlet"])
def test_a_graph_of_ogbn_arxivs_size_is_divided(partition: str) -> None:
    if partition == "metis":
        pytest.importorskip("pymetis")
    size = Synthetic(nodes=169_343, classes=40, features=8, communities=200, degree=13.8, words=3)
    whole = Dataset("large", synthetic(size), 40)
    made = divide(whole, partition, 10)
    held = np.sort(np.concatenate(made.nodes))
    np.testing.assert_array_equal(held, np.arange(size.nodes))
    assert min(map(len, made.nodes)) > size.nodes // 100
