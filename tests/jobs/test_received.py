"""What a receiver's report says about what came back."""

from __future__ import annotations

import re

import pytest
import torch
from benchmarks.backdoor import LIAR, Trigger, columns, poisoned

from pace.jobs.disclosure import LONG, noticed
from pace.methods import Limited, Pace
from pace.protocol import steps, wire
from pace.protocol.method import External
from tests.bench.test_attacks import EPOCHS, trained
from tests.graphs import federation


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
        said = " ".join(noticed(external, kept.local, agreed.start, ()))
        assert all((f"number {word}" in said) == tied for word in words.tolist())
        left_out = re.search(r"([\d.]+)% of the correction", said)
        assert (left_out is not None and float(left_out[1]) > 30) == (
            tied and isinstance(method, Limited)
        )
        assert ("more than 10 times the median" in said) == tied
        assert ("Left out" in said) == isinstance(method, Limited)


def test_the_numbers_by_hand() -> None:
    start = {"0.weight": torch.zeros(1, 4), "0.bias": torch.zeros(1)}
    local = {"0.weight": torch.full((1, 4), 0.5), "0.bias": torch.zeros(1)}  # an update of norm 1
    step = torch.tensor([[1.0, 1.0, 1.0, LONG + 1]])
    returned = local | {"0.weight": local["0.weight"] + step}
    used = local | {"0.weight": local["0.weight"] + torch.tensor([[1.0, 1.0, 1.0, 0.0]])}
    found = noticed(External(used, returned=returned), local, start, ("a", "b", "c", "d"))
    size, left_out = (3 + (LONG + 1) ** 2) ** 0.5, (LONG + 1) ** 2 / (3 + (LONG + 1) ** 2)
    assert f"changes the model {size:.3g} times as much" in found[0]
    assert "1 features change" in found[1]
    assert found[1].endswith("most of all d.")
    assert f"{100 * left_out:.1f}% of the correction, in 1 features" in found[2]
    assert noticed(External(local), local, start, ()) == []
