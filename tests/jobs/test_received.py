"""What a receiver's report says about what came back."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
import torch
from benchmarks.backdoor import LIAR, Trigger, columns, poisoned

from pace.jobs.disclosure import LONG, received, received_sentences
from pace.methods import Limited, Pace
from pace.protocol import steps, wire
from pace.protocol.method import External
from tests.bench.test_attacks import EPOCHS, trained
from tests.graphs import clients, federation
from tests.protocol.test_steps import messages


@pytest.mark.fault(37)
@pytest.mark.parametrize("method", [Pace(), Limited()], ids=["pace", "limited"])
def test_a_backdoor_shows_in_the_receivers_report(method: Pace) -> None:
    graphs, gcn, models = trained(4)
    agreed = type(federation(method))(gcn, method, epochs=EPOCHS)
    fitted = [
        steps.share(model, graph, agreed) for model, graph in zip(models, graphs, strict=True)
    ]
    honest = [upload for _, upload in fitted]
    lie = wire.encode(poisoned(models[LIAR], graphs[LIAR], agreed, Trigger()), agreed.digest)
    words = columns(graphs[LIAR], Trigger())
    for uploads, tied in ((honest, False), ([lie, *honest[1:]], True)):
        kept, graph = fitted[1][0], graphs[1]
        (external,) = steps.adopt(
            graph, kept, steps.merge(uploads, agreed)[1], agreed
        ).model.externals
        found = received(external, kept.local, agreed.start, ())
        assert bool(found.long_columns) == tied
        assert {f"number {word}" for word in words.tolist()} <= set(found.long_columns) or not tied
        assert (found.shortened > 0) == isinstance(method, Limited)
        assert (found.left_out > 0.3) == (tied and isinstance(method, Limited))
        said = " ".join(received_sentences(found))
        assert ("more than 10 times the median" in said) == tied
        assert ("Left out" in said) == isinstance(method, Limited)


def test_the_numbers_by_hand() -> None:
    start = {"0.weight": torch.zeros(1, 4), "0.bias": torch.zeros(1)}
    local = {"0.weight": torch.full((1, 4), 0.5), "0.bias": torch.zeros(1)}  # an update of norm 1
    step = torch.tensor([[1.0, 1.0, 1.0, LONG + 1]])
    returned = local | {"0.weight": local["0.weight"] + step}
    used = local | {"0.weight": local["0.weight"] + torch.tensor([[1.0, 1.0, 1.0, 0.0]])}
    found = received(External(used, returned=returned), local, start, ("a", "b", "c", "d"))
    assert found.size == pytest.approx((3 + (LONG + 1) ** 2) ** 0.5)
    assert found.long_columns == ("d",)
    assert found.shortened == 1
    assert found.left_out == pytest.approx((LONG + 1) ** 2 / (3 + (LONG + 1) ** 2))
    assert len(found.flags) == 2
    nothing = received(External(local), local, start, ())
    assert (nothing.size, nothing.left_out, nothing.flags) == (0.0, 0.0, ())
    assert received_sentences(nothing) == []


def test_what_is_not_finite_is_said_and_fits_into_json() -> None:
    (graph,) = clients(1)
    agreed = federation(Pace())
    (kept,), _ = messages([graph], agreed)
    broken = {name: torch.full_like(value, torch.inf) for name, value in kept.local.items()}
    found = received(External(broken), kept.local, agreed.start, ())
    assert found.flags == ("what came back is not finite",)
    json.dumps(asdict(found), allow_nan=False)
