import pytest
import torch

from pace.datasets.synthetic import Synthetic, synthetic
from pace.errors import SettingError
from pace.graph import Graph
from pace.registry import DATASETS


def edge_share(graph: Graph, same: torch.Tensor) -> float:
    source, target = graph.edges
    return float((same[source] == same[target]).float().mean())


def test_the_same_seed_gives_the_same_graph() -> None:
    first, again, other = (synthetic(Synthetic(nodes=300, seed=seed)) for seed in (1, 1, 2))
    assert torch.equal(first.x, again.x)
    assert torch.equal(first.edges, again.edges)
    assert not torch.equal(first.x, other.x)


def test_the_default_is_citation_like() -> None:
    graph = synthetic(Synthetic())
    assert graph.nodes == 3000
    assert len(graph.y.unique()) == 6
    degrees = torch.bincount(graph.edges[0], minlength=graph.nodes).float()
    assert 2.5 < float(degrees.mean()) < 4.5  # duplicates and self-loops fall away
    assert float(degrees.max()) > 8 * float(degrees.mean())  # heavy tail
    assert float((graph.x != 0).float().mean()) < 0.05  # a sparse bag of words
    assert set(graph.x.unique().tolist()) == {0.0, 1.0}


def test_homophily_and_skew_do_what_they_say() -> None:
    mixed, alike = (
        synthetic(Synthetic(homophily=share, skew=10.0, communities=3)) for share in (0.0, 0.9)
    )
    assert edge_share(alike, alike.y) > 0.8
    assert edge_share(mixed, mixed.y) < 0.35


def test_nodes_of_a_class_share_words_unless_dialects_part_them() -> None:
    def likeness(dialect: float) -> float:
        graph = synthetic(Synthetic(dialect=dialect, topical=0.9, skew=10.0))
        centre = torch.stack([graph.x[graph.y == label].mean(0) for label in range(6)])
        spread = centre - centre.mean(0)
        return float(spread.norm() / centre.norm())

    assert likeness(0.0) > 2 * likeness(1.0)


def test_time_is_linear_enough_for_large_graphs() -> None:
    """A graph of a hundred thousand nodes is made without anything quadratic."""
    graph = synthetic(Synthetic(nodes=100_000, features=20, degree=10.0))
    assert graph.nodes == 100_000


def named(text: str) -> Synthetic:
    settings: Synthetic = DATASETS.prepare(text)()
    return settings


def test_settings_can_be_changed_by_name() -> None:
    assert named("synthetic") == Synthetic()
    assert named("synthetic:nodes=50,skew=2").nodes == 50
    assert named("synthetic-clash:words=3").dialect == 1


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("synthetic:node=3", "synthetic has no setting 'node': did you mean 'nodes'"),
        ("synthetic:nodes=few", "synthetic's nodes is 'few', expected a whole number"),
        ("synthetic:nodes=0", "nodes is 0"),
        ("synthetic:homophily=2", "homophily is 2.0, expected a share"),
        ("synthetic:degree=-1", "degree is -1.0, expected 0 or more"),
        ("synthetic:skew=nan", "skew is 'nan', expected a number"),
        ("synthetic:seed=-1", "seed is -1, expected 0 or more"),
    ],
)
def test_bad_settings_are_refused_with_the_reason(name: str, says: str) -> None:
    with pytest.raises(SettingError, match=says):
        named(name)
