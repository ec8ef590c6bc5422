"""The paper's sentences about how it was done, beside how it is done here."""

from __future__ import annotations

from collections.abc import Callable

import torch

from pace.datasets.dataset import RATIOS
from pace.datasets.partition import dirichlet, louvain
from pace.datasets.partition.split import DATA_SEED
from pace.gates.cnll import BISECTIONS, calibrate
from pace.merging.carrier import RANK
from pace.methods import make
from pace.models.gcn import GCN
from pace.protocol.federation import describe
from pace.registry import PAPER
from pace_study.cell import HIDDEN, LAYERS, Cell, Store
from pace_study.records import title
from pace_study.study import AVAILABLE, NAMES, PARTS, SEEDS, SIX, UNPUBLISHED

Fact = Callable[[Store], tuple[bool, str]]


def stored_cells(name: str, store: Store) -> tuple[int, int]:
    """How many cells of a part are stored with today's settings, and how many it has."""
    cells = [cell for cell in PARTS[name].cells(SEEDS) if cell.dataset in AVAILABLE]
    published = [cell for cell in cells if cell.method not in UNPUBLISHED]
    return sum(store.has(cell, None) for cell in published), len(published)


def datasets_run(store: Store) -> tuple[bool, str]:
    run = [
        name
        for name in SIX
        if store.has(Cell(name, "louvain", 10, "pace", RANK, SEEDS[0], DATA_SEED), None)
    ]
    absent = [title(name) for name in SIX if name not in run]
    words = f"{', '.join(map(title, run)) or 'none'} with 10 clients"
    return set(AVAILABLE) <= set(run), words + (f"; not run: {', '.join(absent)}" if absent else "")


def proportions(store: Store) -> tuple[bool, str]:
    shares = "/".join(f"{100 * share:.0f}" for share in RATIOS)
    return RATIOS == (0.2, 0.4, 0.4), f"{shares} % by class and client; ogbn-arxiv not run"


def training(store: Store) -> tuple[bool, str]:
    recipe, shape = make("pace").recipe, GCN((1, *[HIDDEN] * (LAYERS - 1), 1))
    ours = (
        LAYERS,
        HIDDEN,
        shape.dropout,
        recipe.optimiser,
        recipe.rate,
        recipe.decay,
        recipe.epochs,
    )
    words = "{} layers, hidden {}, dropout {}, {} at {}, decay {}, {} epochs, last checkpoint"
    return ours == (2, 64, 0.5, "adam", 0.01, 0.0005, 100), words.format(*ours)


def seeds(store: Store) -> tuple[bool, str]:
    theirs = (104729, 130363, 155921, 181081, 206639)
    return theirs == SEEDS, f"seeds {', '.join(map(str, SEEDS))}; pooled test nodes"


def rivals(store: Store) -> tuple[bool, str]:
    names = [label for method, label in NAMES.items() if method not in UNPUBLISHED]
    return len(names) == 8, f"Local and {', '.join(names)}"


def one_round(store: Store) -> tuple[bool, str]:
    return True, "a return is evaluated as it comes: no method trains after it"


def matched(store: Store) -> tuple[bool, str]:
    """Same partitions, start and budget; yet some baselines need a network or solver of their own."""
    shape, plain = GCN((1, HIDDEN, 1)), make("pace")
    networks, solvers, budgets = [], [], set()
    for name in PAPER:
        method = make(name)
        networks += [name] if describe(method.network(shape)) != describe(shape) else []
        solvers += [name] if method.recipe.optimiser != plain.recipe.optimiser else []
        budgets.add(method.recipe.epochs)
    own = f"own network: {', '.join(networks)}; own solver: {', '.join(solvers)}"
    words = f"epochs {', '.join(map(str, sorted(budgets)))} for all; {own}"
    return not networks and not solvers and len(budgets) == 1, words


def rank_six(store: Store) -> tuple[bool, str]:
    method = make("pace")
    gate = getattr(method.gate, "__name__", "")
    return (
        RANK == 6 and gate == "cnll",
        f"rank {RANK} everywhere, gate {gate}, oneself included",
    )


def louvain_settings(store: Store) -> tuple[bool, str]:
    ours = DATA_SEED, louvain.RESOLUTION, louvain.DELTA
    return ours == (2024, 1.0, 20), "data seed {}, resolution {}, δ = {}".format(*ours)


def one_cache(store: Store) -> tuple[bool, str]:
    return True, "all methods of a setting are computed on the same client graphs and masks"


def partitions(store: Store) -> tuple[bool, str]:
    counts = {name: stored_cells(name, store) for name in ("metis", "dirichlet")}
    words = "; ".join(f"{name} {have} of {need} cells" for name, (have, need) in counts.items())
    return all(have == need for have, need in counts.values()), words


def dirichlet_alpha(store: Store) -> tuple[bool, str]:
    return dirichlet.ALPHA == 0.5, f"α = {dirichlet.ALPHA}"


def endpoints(store: Store) -> tuple[bool, str]:
    """External against the labels, along them, and along half of them."""
    labels = torch.tensor([0, 0, 1, 1])
    local = torch.zeros(4, 2)
    right = torch.nn.functional.one_hot(labels, 2).float()
    mixed = torch.cat([right[:3], 1 - right[3:]]) * 4
    chosen = [calibrate(local, external, labels) for external in (1 - right, right, mixed)]
    met = chosen[0] == 0 and chosen[1] == 1 and 0 < chosen[2] < 1
    return (
        met,
        "α = {:.0f} where External errs, {:.0f} where it is right, {:.2f} in between".format(
            *chosen
        ),
    )


def bisections(store: Store) -> tuple[bool, str]:
    return BISECTIONS == 64, f"{BISECTIONS} bisections"


def no_validation(store: Store) -> tuple[bool, str]:
    nothing = torch.zeros(0, 2)
    alpha = calibrate(nothing, nothing, torch.zeros(0, dtype=torch.int64))
    return alpha == 0, f"α = {alpha:.0f} without validation nodes"


FACTS: dict[str, Fact] = {
    "louvain-10-clients": datasets_run,
    "six-benchmarks": datasets_run,
    "proportions": proportions,
    "training": training,
    "five-seeds": seeds,
    "nine-rivals": rivals,
    "fedaux-one-round": one_round,
    "matched-controls": matched,
    "rank-6": rank_six,
    "rank-6-global": rank_six,
    "one-cache": one_cache,
    "louvain-settings": louvain_settings,
    "choices-fixed": one_cache,
    "partitions-only": partitions,
    "partitions-cover": partitions,
    "rank-6-frozen-globally": rank_six,
    "dirichlet-alpha": dirichlet_alpha,
    "endpoints": endpoints,
    "bisections": bisections,
    "no-validation": no_validation,
}
