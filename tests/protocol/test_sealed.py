"""A sealed federation adopts what an open one adopts, whatever hooks its method has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from benchmarks.backdoor import Trigger, outcome

from pace.graph import Graph
from pace.jobs import signatures
from pace.methods import METHODS, Limited, Pace, make
from pace.params import Params
from pace.protocol import layouts, steps
from pace.protocol.federation import Federation
from pace.protocol.method import Method, Summable
from pace.protocol.steps import Adoption
from tests.bench.test_attacks import EPOCHS, trained
from tests.graphs import clients, federation

SEALABLE = [name for name in METHODS if isinstance(make(name), Summable) and not make(name).needs]


def sealed(plain: Federation, clients: int) -> Federation:
    return replace(plain, sealed=True, clients=clients)


def adoptions(
    graphs: Sequence[Graph], models: Sequence[Params], agreed: Federation
) -> list[Adoption]:
    """What every client adopts, from models that are already trained."""
    names = [f"{client}" for client in range(len(graphs))]
    seals = (
        signatures.ephemeral_seals(names, agreed.digest) if agreed.sealed else [None] * len(graphs)
    )
    fitted = [
        steps.share(model, graph, agreed, seal)
        for model, graph, seal in zip(models, graphs, seals, strict=True)
    ]
    returns = steps.merge([upload for _, upload in fitted], agreed)
    return [
        steps.adopt(graph, kept, returned, agreed)
        for graph, (kept, _), returned in zip(graphs, fitted, returns, strict=True)
    ]


@pytest.mark.parametrize("name", SEALABLE)
def test_a_sealed_federation_adopts_what_an_open_one_does(name: str) -> None:
    graphs = clients(3)
    plain = federation(make(name), epochs=20)
    models = [steps.fit(graph, plain)[0].local for graph in graphs]
    close = 1e-4
    for one, other in zip(
        adoptions(graphs, models, plain),
        adoptions(graphs, models, sealed(plain, 3)),
        strict=True,
    ):
        torch.testing.assert_close(other.weights, one.weights, rtol=0, atol=close)
        torch.testing.assert_close(other.externals, one.externals, rtol=0, atol=close)
        torch.testing.assert_close(other.logits, one.logits, rtol=0, atol=close)


READ: set[str] = set()  # attributes of `Probe` that a round has read


@dataclass(frozen=True)
class Probe(Limited):
    """`pace-limited` that notes what is asked of it."""

    def __getattribute__(self, name: str) -> object:
        if name in vars(Method) or name in vars(Summable):
            READ.add(name)
        return object.__getattribute__(self, name)


# What a server that reads uploads asks of a method, and what one that reads their sum asks instead.
# Of sealed uploads there is no reading, and no weight of one (`layouts.explain_uploads`).
OPEN_ONLY = {"check", "merge", "reading", "weights"}
SEALED_ONLY = {"needs", "sums_reveal", "statistic_of", "check_total", "personal"}


def test_sealing_leaves_out_no_hook() -> None:
    """A hook added to `Method` and used on the way of an open round alone makes this fail."""
    graphs = clients(3)
    asked = []
    for hidden in (False, True):
        READ.clear()
        agreed = federation(Probe(), epochs=3)
        agreed = sealed(agreed, 3) if hidden else agreed
        for cached in (layouts.upload_layout, layouts.return_layout, layouts.blank_externals):
            cached.cache_clear()
        seal = signatures.ephemeral_seals(["a", "b", "c"], b"salt")[0] if hidden else None
        kept, upload = steps.fit(graphs[0], agreed, seal=seal)
        layouts.explain_uploads(steps.received([upload], agreed), agreed).weights()
        steps.check_upload(upload, agreed)
        adoptions(graphs, [kept.local] * 3, agreed)
        layouts.blank_externals(agreed)
        asked.append(set(READ))
    when_open, when_sealed = asked
    assert when_open - when_sealed <= OPEN_ONLY
    assert when_sealed - when_open <= SEALED_ONLY
    hooks = {name for name in vars(Method) if not name.startswith("_")}
    reported = {"needs"}  # for people, before a round begins
    reported |= {"every_label"}
    assert hooks - reported - OPEN_ONLY <= when_sealed


def test_a_backdoor_is_limited_sealed_as_it_is_open() -> None:
    graphs, gcn, models = trained(4)
    hits = {}
    for method in (Pace(), Limited()):
        plain = Federation(gcn, method, epochs=EPOCHS)
        for agreed in (plain, sealed(plain, 4)):
            found = outcome(graphs, models, agreed, Trigger())
            hits[type(method).__name__, agreed.sealed] = found.hit
    assert hits["Limited", True] == pytest.approx(hits["Limited", False], abs=0.5)
    assert hits["Pace", True] == pytest.approx(hits["Pace", False], abs=0.5)
    assert hits["Limited", True] < hits["Pace", True] / 2
