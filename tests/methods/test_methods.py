"""What holds for every method: real bytes both ways, its own seed, training labels only."""

from dataclasses import replace
from itertools import combinations

import pytest
import torch

from pace.errors import SettingError
from pace.gates.gate import cnll
from pace.graph import UNKNOWN, Graph
from pace.methods import METHODS, Fixed, Pace, PaceRidge, make
from pace.methods.baselines import FedProx
from pace.models.networks import GCN
from pace.protocol import layouts, steps
from pace.protocol.federation import Federation
from pace.protocol.method import Method
from pace.registry import PAPER
from pace.runtimes.simulation import by_training
from pace.training.optimiser import Recipe
from pace_study.baselines.ablations import Direct
from pace_study.baselines.duo import PaceDuo
from pace_study.baselines.fedaux import FedAux
from pace_study.baselines.fedpub import FedPub
from pace_study.baselines.fedrcl import FedRCL
from tests.graphs import CLASSES, FEATURES, clients, federation, none

RELEASED = Recipe(epochs=5, rate=0.1, decay=1e-3, optimiser="sgd", clip=10.0)
READINGS: dict[str, Method] = {
    "fedaux, wide kernel": FedAux(sigma=10.0),
    "fedrcl, its release's solver": FedRCL(solver=RELEASED, levels=(0,)),
    "duo, without a guard": PaceDuo(level=1.0),
    "duo, exact numbers": PaceDuo(numbers="float32"),
    "ridge, neighbours only": PaceRidge(hops=(2,)),
    "ridge, one strength": PaceRidge(strengths=(3.0,)),
    "ridge, not corrected": PaceRidge(own=None),
    "ridge, every class": PaceRidge(smallest_class=1, nodes_per_row=1),
}
EVERY = {name: make(name) for name in METHODS} | READINGS


def run(graphs: list[Graph], agreed: Federation) -> tuple[list[bytes], list[bytes]]:
    """The uploads and the returns."""
    uploads = [steps.fit(graph, agreed)[1] for graph in graphs]
    return uploads, steps.merge(uploads, agreed)


@pytest.mark.parametrize("method", EVERY.values(), ids=EVERY.keys())
def test_a_method_runs_over_bytes_and_its_receivers_keep_local(method: Method) -> None:
    graphs, agreed = clients(), federation(method)
    fitted = [steps.fit(graph, agreed) for graph in graphs]
    returns = steps.merge([upload for _, upload in fitted], agreed)
    for graph, (kept, upload), returned in zip(graphs, fitted, returns, strict=True):
        assert len(upload) == layouts.upload_layout(agreed).size
        adoption = steps.adopt(graph, kept, returned, agreed)
        assert adoption.external.shape == (graph.nodes, CLASSES)
        assert torch.isfinite(adoption.external).all()
        assert 0 <= adoption.alpha <= 1
        torch.testing.assert_close(
            adoption.local, agreed.network(kept.local, graph).logits, rtol=0, atol=0
        )


@pytest.mark.parametrize("method", EVERY.values(), ids=EVERY.keys())
def test_the_same_seed_gives_the_same_bytes_whatever_the_global_generator(method: Method) -> None:
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = run(clients(2), federation(method, epochs=3))
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert run(clients(2), federation(method, epochs=3)) == first


@pytest.mark.parametrize("method", EVERY.values(), ids=EVERY.keys())
def test_only_training_labels_reach_the_messages(method: Method) -> None:
    graphs = clients(2)
    blind = []
    for graph in graphs:
        read = graph.train | graph.val if getattr(method, "every_label", False) else graph.train
        labels = torch.where(read, graph.y, (graph.y + 1) % CLASSES)
        blind.append(Graph(graph.x, graph.edges, labels, graph.train, graph.val, graph.test))
    agreed = federation(method, epochs=3)
    assert run(graphs, agreed) == run(blind, agreed)


@pytest.mark.parametrize("method", EVERY.values(), ids=EVERY.keys())
def test_nothing_depends_on_which_nodes_are_held_out_for_the_test(method: Method) -> None:
    """Nor on their labels: messages, models and weights are the same where nobody knows of a test."""
    graphs, agreed = clients(), federation(method)
    hidden = [
        replace(graph, y=torch.where(graph.test, UNKNOWN, graph.y), test=none(graph.nodes))
        for graph in graphs
    ]
    fitted, blind = ([steps.fit(each, agreed) for each in some] for some in (graphs, hidden))
    assert [upload for _, upload in fitted] == [upload for _, upload in blind]
    returns = steps.merge([upload for _, upload in fitted], agreed)
    for graph, other, (kept, _), returned in zip(graphs, hidden, fitted, returns, strict=True):
        one, two = (steps.adopt(each, kept, returned, agreed) for each in (graph, other))
        assert one.weights == two.weights
        assert torch.equal(one.logits, two.logits)
        for mine, theirs in zip(one.externals, two.externals, strict=True):
            assert torch.equal(mine, theirs)


def test_an_average_weighs_clients_by_all_their_nodes() -> None:
    """As in OpenFGL, however few of them are for training."""
    graphs, agreed = clients(), federation(make("fedavg"))
    graphs[0] = graphs[0].induced(torch.arange(40))
    graphs[1] = replace(graphs[1], train=graphs[1].train & (torch.arange(90) < 30))
    fitted = [steps.fit(graph, agreed) for graph in graphs]
    returned = steps.merge([upload for _, upload in fitted], agreed)[0]
    (external,) = steps.adopt(graphs[0], fitted[0][0], returned, agreed).model.externals
    for name, value in external.params.items():
        expected = sum(
            graph.nodes * kept.local[name] for graph, (kept, _) in zip(graphs, fitted, strict=True)
        )
        torch.testing.assert_close(value, expected / 220)


@pytest.mark.parametrize("method", EVERY.values(), ids=EVERY.keys())
def test_a_client_without_training_nodes_or_edges_takes_part(method: Method) -> None:
    whole = clients(2)
    alone = Graph(
        whole[0].x[:1],
        torch.zeros((2, 0), dtype=torch.int64),
        whole[0].y[:1],
        none(1),
        none(1),
        ~none(1),
    )
    agreed = federation(method, epochs=3)
    fitted = [steps.fit(graph, agreed) for graph in (*whole, alone)]
    returns = steps.merge([upload for _, upload in fitted], agreed)
    for graph, (kept, _), returned in zip((*whole, alone), fitted, returns, strict=True):
        assert torch.isfinite(steps.adopt(graph, kept, returned, agreed).logits).all()


def test_settings_are_part_of_the_digest() -> None:
    digests = {name: federation(method).digest for name, method in EVERY.items()}
    for one, other in combinations(digests, 2):
        assert digests[one] != digests[other], f"{one} and {other} could be mistaken"


def test_methods_with_one_recipe_share_one_training() -> None:
    agreed = {name: Federation(GCN((FEATURES, 8, CLASSES)), make(name)) for name in METHODS}
    groups = {frozenset(group) for group in by_training(agreed).values()}
    shared = ("ablations", "beyond")
    plain = {"local", "fedavg", "fedtad", "fedgta", "pace", "pace-duo"}.union(
        *(METHODS.groups[name] for name in shared)
    )
    refitted = {"pace-full", "pace-full-sums"}
    own = {"fedprox", "fednova", "fedrcl", "fedpub", "fedaux"}
    alone = {frozenset({name}) for name in own}
    assert groups == {frozenset(plain - refitted), frozenset(refitted), *alone}


def test_the_presets_are_those_that_fit_the_paper() -> None:
    """docs/reproduce.md and each baseline's docstring say why."""
    assert FedProx().mu == 1e-3
    assert FedPub().tau == 10.0
    assert (FedAux().tau, FedAux().sigma) == (10.0, 1.0)
    contrast = FedRCL()
    assert (contrast.contrast, contrast.relaxation) == (1.0, 1.0)
    assert (contrast.temperature, contrast.threshold, contrast.levels) == (0.05, 0.7, None)


def test_all_is_the_papers_ten_and_ablations_are_paces() -> None:
    assert len(METHODS.expand("all")) == 10
    assert METHODS.expand("all") == tuple(PAPER)
    assert all(name.startswith("pace-") for name in METHODS.expand("ablations"))


def test_rank_is_for_pace_and_its_ablations() -> None:
    assert make("pace", rank=2) == Pace(rank=2)
    assert make("pace-direct", rank=None) == Direct(rank=None)
    assert make("pace-half", rank=4) == Pace(rank=4, gate=Fixed(0.5))
    assert make("fedavg", rank=2) == make("fedavg")


def test_a_name_nobody_has_is_refused_with_a_suggestion() -> None:
    with pytest.raises(SettingError, match="did you mean 'fedavg'"):
        make("fedvag")
    with pytest.raises(SettingError, match="choose from local, fedavg"):
        METHODS.expand("zzz")


def test_the_gates_of_the_ablations() -> None:
    graph, local, external = clients(1)[0], torch.randn(90, CLASSES), torch.randn(90, CLASSES)
    weights = {
        name: make(name).gate([local, external], graph.y)
        for name in ("pace-transport", "pace-half")
    }
    assert weights == {"pace-transport": (0.0, 1.0), "pace-half": (0.5, 0.5)}
    assert make("pace").gate is cnll
    assert FedProx().gate is cnll
