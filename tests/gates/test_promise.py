"""The gate's promise on the numbers that are used: finite, and no worse than Local's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext

import numpy as np
import pytest
import torch
from fuzz import gates
from torch import Tensor

from pace.gates.gate import no_worse_than_local, promises
from pace.gates.mixture import Weights, local_alone, mix
from pace.methods import METHODS, Fixed, Pace
from pace.protocol import steps, wire
from pace.protocol.method import External, Method
from pace.runtimes.files import model
from pace.runtimes.files.site import Members
from pace.task import nll
from pace_study.baselines.duo import PaceDuo
from tests.export.models import unscored
from tests.graphs import clients, federation
from tests.protocol.test_steps import messages
from tests.sites import job

EACH = 24  # draws of each kind


def exact(logits: Tensor, labels: Tensor) -> Decimal:
    """The mean NLL of float32 logits to forty digits."""
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 40, -(10**15), 10**15
        total = Decimal(0)
        for row, label in zip(logits.tolist(), labels.tolist(), strict=True):
            numbers = [Decimal(each) for each in row]  # a float32 is a decimal without rounding
            top = max(numbers)
            rest = [each - top for each in numbers]
            total += sum((each.exp() for each in rest if each > -(10**6)), Decimal(0)).ln()
            total += top - numbers[label]
        return total / len(labels)


def hostile(kind: str) -> list[gates.Receiver]:
    """The fixed set: receivers with Externals of this kind, of eight shapes."""
    random = np.random.default_rng(7)
    kinds = tuple(each for each in gates.KINDS if each.__name__ == kind)
    return [each for _ in range(8) for each in gates.drawn(random, EACH // 8, kinds=kinds)]


def adopted(draw: gates.Receiver, chosen: Weights) -> Tensor:
    sets = draw.sets[: len(chosen)]
    return mix(sets, no_worse_than_local(sets, chosen, draw.validation, draw.labels))


@pytest.mark.fault(28)
@pytest.mark.parametrize("chooser", gates.CHOOSERS)
@pytest.mark.parametrize("kind", [each.__name__ for each in gates.KINDS])
def test_whatever_was_chosen_is_finite_and_no_worse_than_local(kind: str, chooser: str) -> None:
    random = np.random.default_rng(11)
    receivers = hostile(kind)
    for draw, chosen in zip(receivers, gates.CHOOSERS[chooser](receivers, random), strict=True):
        logits = adopted(draw, chosen)
        assert torch.isfinite(logits).all()
        if logits is draw.sets[0]:
            continue
        local = exact(draw.sets[0][draw.validation], draw.labels)
        found = exact(logits[draw.validation], draw.labels)
        assert found <= local + Decimal("1e-12") * (1 + local), (kind, chooser)


@pytest.mark.parametrize("chooser", ["cnll", "nobody"])
def test_the_set_is_hostile(chooser: str) -> None:
    """Without the promise many of these receivers would have been harmed."""
    random = np.random.default_rng(11)
    of = gates.drawn(random, 60, kinds=(gates.tied, gates.multiple, gates.one_class))
    receivers = list(of)
    without, broken = gates.judged(of, receivers, gates.CHOOSERS[chooser](receivers, random))
    assert without >= 3
    assert broken == 0


def test_gates_choose_alike_where_they_share_a_receivers_mixture() -> None:
    random = np.random.default_rng(5)
    receivers = list(gates.drawn(random, 30, fewest=12))
    for name in ("mixture", "guard", "chance"):
        alone = gates.CHOOSERS[name](receivers, random)
        with gates.shared():
            for other in ("mixture", "guard", "chance"):
                gates.CHOOSERS[other](receivers, random)
            assert gates.CHOOSERS[name](receivers, random) == alone


def test_the_judge_sees_harm_and_a_local_that_is_only_equal() -> None:
    """A promise that let everything through would not go unseen."""
    random = np.random.default_rng(3)
    receivers = gates.drawn(random, 40, kinds=(gates.tied, gates.infinite))
    local = receivers.sets[0]
    assert not (gates.harmful(local, receivers) & receivers.validation.any(1)).any()
    assert gates.harmful(np.full_like(local, np.nan), receivers).all()
    for receiver, risk in zip(receivers, gates.risks(local, receivers), strict=True):
        if len(receiver.labels):
            true = exact(receiver.sets[0][receiver.validation], receiver.labels)
            assert abs(Decimal(float(risk)) - true) <= Decimal("1e-12") * (1 + true)


def test_what_is_no_worse_is_left_as_the_gate_chose_it() -> None:
    labels = torch.tensor([0, 1, 2])
    sets = [torch.zeros(3, 3), torch.eye(3)]
    everybody = torch.ones(3, dtype=torch.bool)
    for weights in ((0.0, 1.0), (0.3, 0.7), (0.5, 2.0)):
        assert no_worse_than_local(sets, weights, everybody, labels) == weights
    assert no_worse_than_local(sets[::-1], (0.3, 0.7), everybody, labels) == (1.0, 0.0)


def test_the_comparison_is_of_the_rounded_logits() -> None:
    """Half of each is better than Local in float64, and worse as float32 rounds it."""
    local, external = torch.tensor([[6.0, 7.0]]), torch.full((1, 2), 33554428.0)
    label, half = torch.tensor([0]), (0.5, 0.5)
    assert nll(mix([local.double(), external.double()], half), label) < nll(local, label)
    assert nll(mix([local, external], half), label) > nll(local, label)
    everybody = torch.ones(1, dtype=torch.bool)
    assert no_worse_than_local([local, external], half, everybody, label) == (1.0, 0.0)


@pytest.mark.parametrize("kind", [each.__name__ for each in gates.KINDS])
def test_the_nll_is_right_to_its_last_digits_for_any_logits(kind: str) -> None:
    for draw in hostile(kind):
        logits, labels = draw.sets[1][draw.validation], draw.labels
        if len(labels) and torch.isfinite(logits).all():
            true = exact(logits, labels)
            bound = 5 * (len(labels) + logits.shape[1]) * Decimal(2) ** -53 * (1 + true)
            assert abs(Decimal(nll(logits, labels)) - true) <= bound


def test_a_node_that_no_gate_looks_at_must_be_finite_too() -> None:
    local, external = torch.zeros(2, 2), torch.tensor([[1.0, 0.0], [3.3e38, 0.0]])
    validation = torch.tensor([True, False])
    weights = no_worse_than_local([local, external], (0.0, 2.0), validation, torch.tensor([0]))
    assert weights == (1.0, 0.0)


def test_without_validation_nodes_it_is_local() -> None:
    sets, nobody = [torch.zeros(2, 2), torch.eye(2)], torch.zeros(2, dtype=torch.bool)
    nothing = torch.zeros(0, dtype=torch.int64)
    assert no_worse_than_local(sets, (0.5, 0.5), nobody, nothing) == local_alone(sets)


@dataclass(frozen=True)
class Careless:
    """A gate of somebody else's, who takes everything."""

    def __call__(self, sets: Sequence[Tensor], labels: Tensor) -> Weights:
        return 0.0, 1.0


def poisoned(method: Method, first: float) -> list[tuple[float, float, bool]]:
    """Validation NLL of (adopted, Local) at receivers of one hostile upload, and whether Local stayed.

    It is admitted: the first layer's factors are all `first`, everything behind them 1e9.
    """
    agreed = federation(method, hidden=64, epochs=20)
    graphs = clients(3)
    kept, uploads = messages(graphs, agreed)
    message = {
        name: value
        if name.endswith("/m")
        else torch.full_like(value, first if name.startswith("0.weight") else 1e9)
        for name, value in wire.decode(uploads[0]).message.items()
    }
    uploads[0] = wire.encode(message, agreed.digest, numbers=agreed.numbers)
    steps.check_upload(uploads[0], agreed)
    found = []
    returns = steps.merge(uploads, agreed)
    for place in (1, 2):
        graph = graphs[place]
        adoption = steps.adopt(graph, kept[place], returns[place], agreed)
        labels = graph.y[graph.val]
        pair = [nll(each[graph.val], labels) for each in (adoption.logits, adoption.local)]
        found.append((pair[0], pair[1], adoption.logits is adoption.local))
    return found


@pytest.mark.fault(9, 22, 28)
@pytest.mark.parametrize(
    "method", [Pace(), PaceDuo(), Pace(gate=Careless())], ids=["cnll", "mixture", "other"]
)
def test_one_huge_upload_harms_nobody(method: Method) -> None:
    for first in (1e2, 1e4, 1e7):
        for after, before, _ in poisoned(method, first):
            assert after <= before


def test_a_fixed_alpha_promises_nothing() -> None:
    """It is the paper's ablation, and takes what it is given."""
    assert [name for name in METHODS if not promises(METHODS[name]().gate)] == [
        "pace-transport",
        "pace-half",
    ]
    assert any(after > before for after, before, _ in poisoned(Pace(gate=Fixed(1.0)), 1e2))


@pytest.mark.fault(28)
def test_an_external_that_overflows_on_another_graph_leaves_local_alone() -> None:
    """The gate sees this site's graph; a model folder is used on others."""
    made = job()
    graph = clients(1)[0]
    local = steps.fit(graph, made.federation)[0].local
    external = {name: torch.full_like(value, 1e18) for name, value in local.items()}
    outcome, members = (
        unscored(0.5, (0.5, 0.5), made.model.classes),
        Members.of(graph, tuple(map(str, range(graph.nodes)))),
    )
    folder = model.SiteModel(made, local, (External(external),), outcome, members)
    assert torch.isfinite(folder(graph).logits).all()
    assert folder(graph).weights == (0.5, 0.5)
    large = folder(replace(graph, x=1e3 * graph.x))
    assert not torch.isfinite(large.externals[0]).all()
    assert large.logits is large.local


def test_weights_that_change_no_loss_are_kept() -> None:
    """No worse than Local is enough: an External that says what Local says may have any weight."""
    logits, labels = (
        torch.randn(12, 3, generator=torch.Generator().manual_seed(1)),
        torch.arange(12) % 3,
    )
    everyone = torch.ones(12, dtype=torch.bool)
    assert no_worse_than_local([logits, logits], (0.5, 0.5), everyone, labels) == (0.5, 0.5)
    assert no_worse_than_local([logits, -logits], (-0.5, 1.0), everyone, labels) == (1.0, 0.0)
