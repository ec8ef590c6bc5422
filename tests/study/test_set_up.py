"""The paper's sentences about how it was done, each held against what is done here."""

import json
from pathlib import Path

import pytest
import torch

from pace.datasets.dataset import RATIOS
from pace.datasets.partition import ALPHA, DATA_SEED, DELTA, RESOLUTION
from pace.gates.cnll import BISECTIONS, calibrate
from pace.merging.carrier import RANK
from pace.methods import make
from pace.models.networks import GCN
from pace.protocol.federation import describe
from pace.registry import METHODS
from pace_study.cell import HIDDEN, LAYERS, Store
from pace_study.claims import sentences
from pace_study.study import AVAILABLE, NAMES, PARTS, SEEDS, UNPUBLISHED

ROOT = Path(__file__).parents[2]
SET_UP = {sentence.id: sentence.text for sentence in sentences() if sentence.kind == "set-up"}
SHOWN_BY = {  # sentence -> the test below that shows it
    "louvain-10-clients": "cells",
    "six-benchmarks": "cells",
    "one-cache": "cells",
    "choices-fixed": "cells",
    "partitions-only": "cells",
    "partitions-cover": "cells",
    "proportions": "constants",
    "training": "constants",
    "five-seeds": "constants",
    "nine-rivals": "constants",
    "rank-6": "constants",
    "rank-6-global": "constants",
    "rank-6-frozen-globally": "constants",
    "louvain-settings": "constants",
    "dirichlet-alpha": "constants",
    "bisections": "constants",
    "fedaux-one-round": "matched",
    "matched-controls": "matched",
    "endpoints": "gate",
    "no-validation": "gate",
}


def test_every_sentence_about_the_set_up_has_its_test() -> None:
    assert SET_UP.keys() == SHOWN_BY.keys()


@pytest.mark.parametrize("name", ["main", "metis", "dirichlet"])
def test_cells(name: str) -> None:
    """All that the paper prints is stored, but for ogbn-arxiv; one data seed for all methods."""
    stored = Store(ROOT / "results" / "cells").rows
    cells = PARTS[name].cells(SEEDS)
    needed = [c for c in cells if c.dataset in AVAILABLE and c.method not in UNPUBLISHED]
    assert [cell for cell in needed if cell not in stored] == []
    assert {cell.data_seed for cell in cells} == {2024}
    assert {cell.clients for cell in cells} == {10}


def test_constants() -> None:
    recipe, shape = make("pace").recipe, GCN((1, *[HIDDEN] * (LAYERS - 1), 1))
    assert RATIOS == (0.2, 0.4, 0.4)
    assert (LAYERS, HIDDEN, shape.dropout) == (2, 64, 0.5)
    assert (recipe.optimiser, recipe.rate, recipe.decay) == ("adam", 0.01, 0.0005)
    assert recipe.epochs == 100
    assert SEEDS == (104729, 130363, 155921, 181081, 206639)
    assert len([name for name in NAMES if name not in UNPUBLISHED]) == 8
    assert RANK == 6
    assert describe(make("pace"))["gate"] == "cnll"
    assert (DATA_SEED, RESOLUTION, DELTA) == (2024, 1.0, 20)
    assert ALPHA == 0.5
    assert BISECTIONS == 64


def test_matched_budgets_but_for_networks_and_solvers() -> None:
    """FedNova and FedRCL need SGD, FedPub and FedAux networks of their own, to give its numbers."""
    shape, plain = GCN((1, HIDDEN, 1)), make("pace").recipe
    methods = {name: make(name) for name in METHODS.groups["all"]}
    networks = {n for n, m in methods.items() if describe(m.network(shape)) != describe(shape)}
    solvers = {n for n, m in methods.items() if m.recipe.optimiser != plain.optimiser}
    assert networks == {"fedpub", "fedaux"}
    assert solvers == {"fednova", "fedrcl"}
    assert {method.recipe.epochs for method in methods.values()} == {100}


def test_gate() -> None:
    """External against the labels, along them, and along half of them; no validation node."""
    labels = torch.tensor([0, 0, 1, 1])
    local = torch.zeros(4, 2)
    right = torch.nn.functional.one_hot(labels, 2).float()
    mixed = torch.cat([right[:3], 1 - right[3:]]) * 4
    wrong, along, between = (calibrate([(local, e, labels)])[0] for e in (1 - right, right, mixed))
    assert (wrong, along) == (0, 1)
    assert 0 < between < 1
    nothing = torch.zeros(0, 2)
    assert calibrate([(nothing, nothing, torch.zeros(0, dtype=torch.int64))])[0] == 0


def test_the_settings_of_stored_cells_are_those_of_the_paper() -> None:
    rows = Store(ROOT / "results" / "cells").rows
    stored = json.loads(next(row["settings"] for c, row in rows.items() if c.method == "pace"))
    assert stored["network"] == {"kind": "GCN", "widths": [1, 64, 1], "dropout": 0.5}
    assert stored["recipe"]["epochs"] == 100
