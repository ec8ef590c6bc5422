"""Many models in one pass say what each says alone."""

from __future__ import annotations

import pytest
import torch

from pace.models import GCN
from pace.training import Forward
from pace_gpu.cohort import CohortForward
from tests.graphs import CLASSES, FEATURES, clients


@pytest.mark.parametrize("widths", [(), (16,), (16, 8)])
def test_a_cohorts_pass_gives_each_models_logits(widths: tuple[int, ...]) -> None:
    graphs = [*clients(2), *clients(1, nodes=50)]
    gcn = GCN((FEATURES, *widths, CLASSES))
    models = [[gcn.start(10 * client + model) for model in range(3)] for client in range(3)]
    forward = CohortForward(graphs, gcn)
    forward.batch(gcn, range(3), models)
    ((key, operators),) = forward.operators.items()
    together = forward.batch(gcn, range(3), models)
    assert forward.operators == {key: operators}  # made once
    for client, (graph, alone) in enumerate(zip(graphs, Forward(graphs, gcn)(models), strict=True)):
        for model, logits in enumerate(alone):
            torch.testing.assert_close(together[client, model, : graph.nodes], logits)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_a_gpu_gives_the_same_logits() -> None:
    graphs = clients(3)
    gcn = GCN((FEATURES, 16, CLASSES))
    models = [[gcn.start(10 * client + model) for model in range(2)] for client in range(3)]
    there = Forward.on(graphs, gcn, "cuda")(models)
    assert there[0][0].is_cuda
    for found, expected in zip(there, Forward(graphs, gcn)(models), strict=True):
        for logits, alone in zip(found, expected, strict=True):
            torch.testing.assert_close(logits.cpu(), alone, atol=1e-5, rtol=1e-4)
