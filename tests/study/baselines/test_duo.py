"""pace-duo: two corrections in half the bytes, and what its parts fall back to."""

import math
from dataclasses import replace

import pytest
import torch

from pace.datasets import load
from pace.datasets.partition import divide
from pace.errors import SettingError
from pace.gates.mixture import weigh
from pace.graph import Graph
from pace.merging.carrier import dense, pack, unpack
from pace.merging.correction import correction
from pace.merging.moments import uniform
from pace.methods import Pace, make
from pace.methods.pace import read
from pace.models.networks import GCN
from pace.protocol import layouts, steps, wire
from pace.protocol.federation import Federation
from pace.protocol.uploads import Messages
from pace_study.baselines.duo import (
    BLOCK,
    PaceDuo,
    joined,
    parted,
    peer_consensus,
    peer_weights,
)
from tests.batches import in_batches

# Features, classes and the most it may cost: Cora, CiteSeer, PubMed, CS, Computers; ogbn-arxiv, whose
# model is so small that scales and names weigh more.
SIZES = [
    (1433, 7, 0.52),
    (3703, 6, 0.52),
    (500, 3, 0.52),
    (6805, 15, 0.52),
    (767, 10, 0.52),
    (128, 40, 0.54),
]


@pytest.fixture(scope="module")
def graphs() -> list[Graph]:
    return divide(load("synthetic:nodes=600,features=40"), "louvain", BLOCK + 2)


def agreed(graphs: list[Graph], method: Pace, epochs: int = 15) -> Federation:
    classes = 1 + max(int(graph.y.max()) for graph in graphs)
    return Federation(GCN((graphs[0].features, 16, classes)), method, epochs=epochs)


@pytest.mark.parametrize(("features", "classes", "most"), SIZES)
def test_both_directions_cost_about_half_of_pace(features: int, classes: int, most: float) -> None:
    gcn = GCN((features, 64, classes))
    duo, pace = Federation(gcn, PaceDuo()), Federation(gcn, Pace())
    for layout in (layouts.upload_layout, layouts.return_layout):
        assert layout(duo).size <= most * layout(pace).size


def test_the_first_correction_is_paces_and_the_second_that_of_the_peers(
    graphs: list[Graph],
) -> None:
    duo = agreed(graphs, PaceDuo(numbers="float32"))
    fitted = [steps.fit(graph, duo) for graph in graphs]
    messages = [steps.check_upload(upload, duo) for _, upload in fitted]
    returned = list(duo.method.merge(Messages(messages), duo))
    plain = list(Pace().merge(Messages(messages), duo))
    pairs = [read(message, duo.start) for message in messages]
    weights = peer_weights(torch.stack([moments["0.weight"] for _, moments in pairs]))
    assert len(returned) == len(graphs) > BLOCK
    for place, message in enumerate(returned):
        first, second = parted(message, duo.start)
        for name, value in plain[place].items():
            assert torch.equal(first[name], value)
        (view,) = peer_consensus(in_batches(pairs), weights[place : place + 1])
        expected = dense(correction(view, pairs[place][0]))
        for name, value in dense(unpack(second, duo.start)).items():
            torch.testing.assert_close(value, expected[name], atol=1e-6, rtol=1e-5)


def test_joined_and_back_with_factors_without_and_dense(graphs: list[Graph]) -> None:
    for rank in (2, 6, None):
        method = PaceDuo(rank=rank)
        agreement = agreed(graphs, method)
        message = pack(unpack(method.share(agreement.start, graphs[0], agreement), agreement.start))
        other = {name: value + 1 for name, value in message.items()}
        back = parted(joined([message, other]), agreement.start)
        for each, given in zip(back, (message, other), strict=True):
            assert list(each) == list(given)
            assert all(torch.equal(each[name], given[name]) for name in given)


def test_adoption_mixes_three_models_and_is_local_where_nothing_helps(graphs: list[Graph]) -> None:
    duo = agreed(graphs, PaceDuo(level=1.0))
    fitted = [steps.fit(graph, duo) for graph in graphs]
    returns = steps.merge([upload for _, upload in fitted], duo)
    mixed = 0
    for graph, (kept, _), returned in zip(graphs, fitted, returns, strict=True):
        found = steps.adopt(graph, kept, returned, duo)
        assert len(found.externals) == 2
        assert len(found.weights) == 3
        assert 0 <= found.alpha <= 1
        mixed += found.alpha > 0
        if found.alpha == 0:
            assert found.logits is found.local
    assert mixed > 0
    blind = replace(graphs[0], val=torch.zeros_like(graphs[0].val))
    assert steps.adopt(blind, fitted[0][0], returns[0], duo).weights == (1.0, 0.0, 0.0)


def test_a_hostile_return_leaves_local(graphs: list[Graph]) -> None:
    duo = agreed(graphs, PaceDuo(numbers="float32"))
    kept, upload = steps.fit(graphs[0], duo)
    (honest,) = steps.merge([upload], duo)
    frame = wire.decode(honest, layouts.return_layout(duo))
    wild = {name: torch.full_like(value, 3e38) for name, value in frame.message.items()}
    returned = wire.encode(wild, duo.digest, kept.upload, duo.numbers)
    found = steps.adopt(graphs[0], kept, returned, duo)
    assert found.weights == (1.0, 0.0, 0.0)
    assert found.logits is found.local


def test_a_guard_that_nothing_passes_keeps_local_everywhere(graphs: list[Graph]) -> None:
    strict = agreed(graphs, PaceDuo(level=1e-300))
    fitted = [steps.fit(graph, strict) for graph in graphs[:3]]
    returns = steps.merge([upload for _, upload in fitted], strict)
    for graph, (kept, _), returned in zip(graphs, fitted, returns, strict=False):
        assert steps.adopt(graph, kept, returned, strict).alpha == 0


def test_names_build_what_they_say() -> None:
    assert make("pace-duo") == PaceDuo()
    assert make("pace-duo", rank=4) == PaceDuo(rank=4)
    assert make("pace-duo:numbers=float32,level=1") == PaceDuo(numbers="float32", level=1.0)
    assert Federation(GCN((5, 4, 2)), make("pace-duo")).numbers == "int8"
    assert Federation(GCN((5, 4, 2)), make("pace-duo"), numbers="float16").numbers == "float16"
    assert Federation(GCN((5, 4, 2)), make("pace")).numbers == "float32"


@pytest.mark.parametrize(
    "wrong",
    [
        {"level": 0.0},
        {"most": 0.0},
        {"level": 1.5},
        {"ridge": -1.0},
        {"ridge": math.inf},
        {"sharpness": -1.0},
        {"sharpness": math.nan},
        {"geometry": uniform},
    ],
)
def test_settings_out_of_bounds_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingError):
        PaceDuo(**wrong)  # type: ignore[arg-type]


def test_the_ridge_of_a_method_is_its_gates() -> None:
    random = torch.Generator().manual_seed(5)
    labels = torch.randint(3, (60,), generator=random)
    knows = torch.nn.functional.one_hot(labels, 3).double()
    noise = torch.randn(2, 60, 3, generator=random).double()
    sets = [0.2 * knows + 0.1 * noise[0], 0.5 * knows + 0.1 * noise[1]]
    for ridge in (0.2, 2.0, 20.0):
        method = PaceDuo(ridge=ridge, level=1.0)
        assert method.gate(sets, labels) == weigh(sets, labels, ridge)
    assert PaceDuo().ridge == 2.0
    sums = [sum(PaceDuo(ridge=ridge, level=1.0).gate(sets, labels)) for ridge in (0.2, 2.0, 20.0)]
    assert sums == sorted(sums, reverse=True)
    assert sums[0] > 1.2 * sums[2]
