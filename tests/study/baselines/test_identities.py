"""Identities of the methods: where two of them, or a method and plain arithmetic, must agree."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import Tensor

from pace.errors import WeightError
from pace.merging.carrier import compress, dense
from pace.merging.moments import propagated, uniform
from pace.methods import FedAvg, FedProx, Pace
from pace.params import Params, add, subtract
from pace.protocol.federation import Federation
from pace.protocol.method import Message, Method
from pace.protocol.uploads import Messages
from pace.training.optimiser import Recipe
from pace.training.train import train
from pace_study.baselines.ablations import Direct
from pace_study.baselines.fedaux import FedAux
from pace_study.baselines.fedgta import FedGTA, without_loops
from pace_study.baselines.fednova import FedNova
from pace_study.baselines.fedpub import FedPub, mask_of, unmasked
from pace_study.baselines.fedrcl import FedRCL
from pace_study.baselines.fedtad import FedTAD
from pace_study.baselines.mixing import attention, mixtures
from tests.graphs import clients, federation

GRAPHS = clients(3)


def locals_of(agreed: Federation) -> list[dict[str, Tensor]]:
    """Each client's Local model."""
    return [
        train(graph, agreed.network, agreed.start, recipe=agreed.recipe, seed=agreed.seed)
        for graph in GRAPHS
    ]


def merged(agreed: Federation, models: list[dict[str, Tensor]]) -> list[Params]:
    """Each receiver's External model."""
    uploads = [
        agreed.method.share(model, graph, agreed)
        for model, graph in zip(models, GRAPHS, strict=True)
    ]
    returns = agreed.method.merge(Messages(uploads), agreed)
    return [
        agreed.method.adopt(model, returned, graph, agreed)[0].params
        for model, graph, returned in zip(models, GRAPHS, returns, strict=True)
    ]


def plain_mean(models: list[dict[str, Tensor]], weights: list[float]) -> dict[str, Tensor]:
    """Σ w_i W_i / Σ w_i, by numpy."""
    return {
        name: torch.from_numpy(
            np.average([model[name].double().numpy() for model in models], 0, weights)
        ).float()
        for name in models[0]
    }


def assert_same(left: Params, right: Params, atol: float = 1e-6) -> None:
    assert set(left) == set(right)
    for name, value in left.items():
        torch.testing.assert_close(value, right[name], rtol=0, atol=atol)


def random_models(agreed: Federation) -> list[dict[str, Tensor]]:
    """Models that differ a lot, so that every weight matters."""
    random = torch.Generator().manual_seed(3)
    return [
        {name: torch.randn(value.shape, generator=random) for name, value in agreed.start.items()}
        for _ in GRAPHS
    ]


def test_fedavg_weighs_by_all_nodes() -> None:
    agreed = federation(FedAvg())
    models = random_models(agreed)
    unequal = [GRAPHS[0], GRAPHS[1].induced(torch.arange(30)), GRAPHS[2]]
    uploads = [agreed.method.share(m, g, agreed) for m, g in zip(models, unequal, strict=True)]
    expected = plain_mean(models, [90, 30, 90])
    for returned in agreed.method.merge(Messages(uploads), agreed):
        assert_same(returned, expected)


@pytest.mark.parametrize(
    ("method", "name", "value"),
    [
        (FedAvg(), "nodes", -5.0),
        (FedTAD(), "nodes", 0.0),
        (FedNova(), "amount", -1.0),
        (FedGTA(), "confidence", -1.0),
    ],
)
def test_a_weight_nobody_can_have_is_refused(method: Method, name: str, value: float) -> None:
    agreed = federation(method)
    honest = agreed.method.share(agreed.start, GRAPHS[0], agreed)
    agreed.method.check(honest, agreed)
    with pytest.raises(WeightError, match=name):
        agreed.method.check({**honest, name: torch.tensor([value])}, agreed)


def test_fedprox_without_mu_is_fedavg() -> None:
    for ours, theirs in zip(
        locals_of(federation(FedProx(mu=0.0))), locals_of(federation(FedAvg())), strict=True
    ):
        assert_same(ours, theirs, atol=1e-5)


def test_fedprox_stays_nearer_to_the_start_the_larger_mu() -> None:
    distances = []
    for mu in (0.0, 0.1, 10.0):
        agreed = federation(FedProx(mu=mu), epochs=30)
        moved = subtract(locals_of(agreed)[0], agreed.start)
        distances.append(sum(float(value.square().sum()) for value in moved.values()))
    assert distances == sorted(distances, reverse=True)


def test_fednova_with_equal_steps_is_fedavg_of_the_same_models() -> None:
    agreed = federation(FedNova())
    models = locals_of(agreed)
    for nova, average in zip(
        merged(agreed, models), merged(federation(FedAvg()), models), strict=True
    ):
        assert_same(nova, average)


def test_fednova_with_unequal_steps_is_its_formula() -> None:
    agreed = federation(FedNova())
    models, amounts, nodes = random_models(agreed), [5.0, 20.0, 1.0], [90.0, 30.0, 60.0]
    uploads = [
        {**model, "nodes": torch.tensor([node]), "amount": torch.tensor([amount])}
        for model, node, amount in zip(models, nodes, amounts, strict=True)
    ]
    shares = [node / sum(nodes) for node in nodes]
    tau = sum(share * amount for share, amount in zip(shares, amounts, strict=True))
    returned = next(iter(agreed.method.merge(Messages(uploads), agreed)))
    for name, value in agreed.start.items():
        expected = value + sum(
            share * tau / amount * (model[name] - value)
            for share, amount, model in zip(shares, amounts, models, strict=True)
        )
        torch.testing.assert_close(returned[name], expected, rtol=1e-5, atol=1e-5)


def test_a_client_without_a_step_gives_fednova_no_direction() -> None:
    agreed = federation(FedNova())
    models = locals_of(agreed)
    still = replace(GRAPHS[2], train=torch.zeros(90, dtype=torch.bool))
    models[2] = dict(agreed.start)
    uploads = [
        agreed.method.share(model, graph, agreed)
        for model, graph in zip(models, (*GRAPHS[:2], still), strict=True)
    ]
    assert float(uploads[2]["amount"]) == 0
    average = plain_mean(models, [1, 1, 1])
    moved = {  # τ = 2/3 of the others' steps, along the mean of their displacements
        name: value + 2 / 3 * (average[name] - value) for name, value in agreed.start.items()
    }
    assert_same(next(iter(agreed.method.merge(Messages(uploads), agreed))), moved)


def test_fedrcl_without_its_losses_is_the_uniform_mean_under_its_optimiser() -> None:
    @dataclass(frozen=True)
    class Plain(FedRCL):
        """The same solver and no penalty at all."""

        @property
        def recipe(self) -> Recipe:
            return self.solver

    zero = federation(FedRCL(contrast=0.0, relaxation=0.0))
    models, plain = locals_of(zero), locals_of(federation(Plain()))
    for ours, theirs in zip(models, plain, strict=True):
        assert_same(ours, theirs, atol=1e-5)
    assert_same(merged(zero, models)[0], plain_mean(models, [1, 1, 1]))


@pytest.mark.parametrize("kind", [FedPub, FedAux])
def test_without_sharpness_everyone_counts_the_same(kind: type[FedPub] | type[FedAux]) -> None:
    agreed = federation(kind(tau=0.0))
    models = random_models(agreed)
    expected = plain_mean(models, [1, 1, 1])
    for model, external in zip(models, merged(agreed, models), strict=True):
        own = {name: value for name, value in model.items() if name.endswith(".mask")}
        assert_same(external, expected | own)


@pytest.mark.parametrize("kind", [FedPub, FedAux])
def test_with_endless_sharpness_everyone_gets_its_own(kind: type[FedPub] | type[FedAux]) -> None:
    agreed = federation(kind(tau=1e6))
    models = random_models(agreed)
    for model, external in zip(models, merged(agreed, models), strict=True):
        assert_same(external, model, atol=0)


@pytest.mark.parametrize("kind", [FedPub, FedAux])
def test_masks_stay_at_home(kind: type[FedPub] | type[FedAux]) -> None:
    agreed = federation(kind())
    models = locals_of(agreed)
    assert not torch.equal(models[0]["0.mask"], models[1]["0.mask"])
    upload = agreed.method.share(models[0], GRAPHS[0], agreed)
    assert not any(name.endswith(".mask") for name in upload)
    for model, external in zip(models, merged(agreed, models), strict=True):
        for name in unmasked(model):
            if name.endswith(".weight"):
                assert torch.equal(external[mask_of(name)], model[mask_of(name)])


def test_attention_is_the_softmax_of_cosines_and_mixtures_its_means() -> None:
    random = torch.Generator().manual_seed(0)
    signatures = torch.randn(4, 6, generator=random, dtype=torch.float64)
    weights = attention(signatures, 10.0)
    rows = signatures.numpy()
    norms = np.linalg.norm(rows, axis=1)
    raised = np.exp(10.0 * rows @ rows.T / norms[:, None] / norms)
    np.testing.assert_allclose(weights.numpy(), raised / raised.sum(1, keepdims=True), rtol=1e-9)
    models = [{"w": torch.randn(3, 2, generator=random)} for _ in range(4)]
    for row, mixed in zip(weights, mixtures(Messages(models), weights, models[0]), strict=True):
        assert_same(mixed, plain_mean(models, row.tolist()))


@pytest.mark.parametrize("confidence", [1.0, 0.0])
def test_fedgta_without_threshold_and_equal_confidence_is_the_uniform_mean(
    confidence: float,
) -> None:
    """Clients without an edge have no confidence at all, and are equals too."""
    agreed = federation(FedGTA(threshold=-1.0))
    models = random_models(agreed)
    uploads: list[Message] = [
        {**agreed.method.share(model, graph, agreed), "confidence": torch.tensor([confidence])}
        for model, graph in zip(models, GRAPHS, strict=True)
    ]
    expected = plain_mean(models, [1, 1, 1])
    for returned in agreed.method.merge(Messages(uploads), agreed):
        assert_same(returned, expected)


def test_fedgta_with_an_endless_threshold_returns_ones_own() -> None:
    agreed = federation(FedGTA(threshold=1.1))
    models = random_models(agreed)
    for model, external in zip(models, merged(agreed, models), strict=True):
        assert_same(external, model)


def test_fedgta_averages_the_peers_above_the_threshold_by_confidence() -> None:
    agreed = federation(FedGTA())
    models = random_models(agreed)
    signatures = [[1.0, 0.0], [1.0, 0.5], [0.0, 1.0]]  # cosines .89, 0 and .45: 0 and 1 are peers
    uploads = [
        {**model, "moments": torch.tensor(moment), "confidence": torch.tensor([weight])}
        for model, moment, weight in zip(models, signatures, (1.0, 3.0, 5.0), strict=True)
    ]
    returns = list(agreed.method.merge(Messages(uploads), agreed))
    pair = plain_mean(models[:2], [1.0, 3.0])
    for returned, expected in zip(returns, (pair, pair, models[2]), strict=True):
        assert_same(returned, expected)


def test_fedgtas_operator_has_no_loops_and_unit_radius() -> None:
    matrix = without_loops(GRAPHS[0]).matrix.to_dense().double()
    adjacency = torch.zeros(90, 90, dtype=torch.float64)
    adjacency[GRAPHS[0].edges[0], GRAPHS[0].edges[1]] = 1
    root = adjacency.sum(1).clamp_min(1).rsqrt()
    torch.testing.assert_close(matrix, root[:, None] * adjacency * root, rtol=1e-6, atol=1e-7)


def test_fedtad_without_rounds_is_fedavg_bit_for_bit() -> None:
    models = locals_of(federation(FedAvg()))
    for ours, theirs in zip(
        merged(federation(FedTAD(rounds=0)), models),
        merged(federation(FedAvg()), models),
        strict=True,
    ):
        assert_same(ours, theirs, atol=0)


def test_fedtad_moves_the_average_by_its_small_steps() -> None:
    models = locals_of(federation(FedAvg()))
    average, distilled = (merged(federation(method), models)[0] for method in (FedAvg(), FedTAD()))
    moved = max(float(value.abs().max()) for value in subtract(distilled, average).values())
    assert 1e-3 < moved <= 25 * 1e-3 * 1.5  # 25 steps of Adam at a rate of 1e-3


@pytest.mark.parametrize("rank", [None, 3])
def test_direct_returns_the_compressed_consensus_to_everyone(rank: int | None) -> None:
    agreed = federation(Direct(rank=rank, geometry=uniform))
    models = locals_of(agreed)
    sent = [dense(compress(subtract(model, agreed.start), rank)) for model in models]
    shared = {name: torch.stack([each[name] for each in sent]).double().mean(0) for name in sent[0]}
    expected = add(agreed.start, dense(compress(shared, rank)))
    for external in merged(agreed, models):
        assert_same(external, expected)


def test_dense_pace_and_dense_direct_have_the_same_external_model() -> None:
    """Without compression W_L + (Δ - Δ_L) = W_0 + Δ: the correction and the consensus agree."""
    models = locals_of(federation(Pace()))
    pairs: tuple[Method, Method] = (Pace(rank=None), Direct(rank=None))
    corrected, direct = (merged(federation(method), models) for method in pairs)
    for ours, theirs in zip(corrected, direct, strict=True):
        assert_same(ours, theirs, atol=1e-5)


def test_paces_moments_are_of_the_trained_model_not_of_the_start() -> None:
    agreed = federation(Pace())
    for local, graph in zip(locals_of(agreed), GRAPHS, strict=True):
        upload = agreed.method.share(local, graph, agreed)
        trained = propagated(agreed.network(local, graph), graph)
        untrained = propagated(agreed.network(agreed.start, graph), graph)
        assert torch.equal(upload["0.weight/m"], trained["0.weight"])
        assert torch.equal(upload["1.weight/m"], trained["1.weight"])
        assert not torch.allclose(trained["1.weight"], untrained["1.weight"], rtol=1e-2)
