"""Speed, memory and growth against what everybody writes, measured beside it in the same run."""

import os
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated, Any
from unittest import mock

import numpy as np
import torch
import typer
from torch import nn
from torch.nn.functional import cross_entropy
from torch_geometric import nn as pyg

from benchmarks import server
from benchmarks.clock import Point, child, command, compared, timed
from pace import Graph, agree
from pace.datasets import data_root, divide, load
from pace.models import APPNP, GAT, GCN, GIN, MODELS, SAGE, SGC, Model
from pace.protocol import SEEDS
from pace.training import Recipe, train_cohort

SCRIPT = Path(__file__).with_name("plain_script.py")
PLAIN_SCRIPT = ("cora", "citeseer", "pubmed", "cs", "computers")  # what it can load
METHODS = "local,fedavg,pace"  # whose table it makes
PEER = "a script of PyG's loop, dense SVDs, SciPy and scikit-learn"
EPOCHS = 100  # the paper's budget
SAMPLE = 10  # epochs of it that the plain loop is made to run on a CPU, where a step is slow
LOOP = "the plain PyG loop"


def main(
    datasets: Annotated[str, typer.Option(help="separated by commas")] = "synthetic",
    only: Annotated[str, typer.Option(help="parts, separated by commas; all by default")] = "",
    clients: int = 10,
    turns: Annotated[int, typer.Option(help="of each comparison")] = 5,
    threads: Annotated[int, typer.Option(help="of both sides, on a CPU")] = 1,
    device: str = "cpu",
) -> Iterator[Point]:
    """Print what ran it, then a JSON object for each measurement."""
    names = datasets.split(",")

    def trained(measured: Callable[..., Iterable[Point]]) -> Iterator[Point]:
        for name in names:
            yield from measured(name, divide(load(name), "louvain", clients), device, turns)

    scripted = (from_start_to_table(name, device, turns) for name in names if name in PLAIN_SCRIPT)
    parts: dict[str, Iterable[Point]] = {
        "command": chain.from_iterable(scripted),
        "training": trained(training),
        "models": trained(every_model),
        "server": server.growth((10, 30, 100, 1_000, 10_000), turns),
        "sealing": server.sealed(turns),
    }
    chosen = only.split(",") if only else parts
    if unknown := sorted(set(chosen) - set(parts)):
        raise typer.BadParameter(
            f"--only names {', '.join(unknown)}, expected some of {', '.join(parts)}"
        )
    torch.set_num_threads(threads)
    machine = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    yield {"device": machine, "threads": threads, **versions, "numpy": np.__version__}
    for part in chosen:
        yield from ({"part": part, **point} for point in parts[part])


def from_start_to_table(name: str, device: str, turns: int) -> Iterator[Point]:
    """`pace run` from start to table, imports included, against a script that makes that table.

    Cold: with nothing cached, once. Warm: in turns, each side with what it keeps on disk. Each in
    seconds on the clock and in seconds of processors, which other work disturbs less.
    """
    with TemporaryDirectory() as folder, mock.patch.dict(os.environ):
        raw = Path(folder) / "raw"
        for path in data_root().resolve().rglob("raw"):  # beside it PyG puts what it processed
            copy = raw / path.relative_to(data_root().resolve())
            copy.parent.mkdir(parents=True)
            copy.symlink_to(path)
        os.environ |= {
            "OMP_NUM_THREADS": "1",
            "XDG_CACHE_HOME": f"{folder}/cache",
            "TRITON_CACHE_DIR": f"{folder}/triton",
            "PACE_DATA": str(raw),
        }
        ours = ("-m", "pace", "run", "--dataset", name, "--device", device, "--methods", METHODS)
        sides = (ours, ("-P", SCRIPT, name, raw, device))

        def turn() -> list[dict[str, float]]:
            return [child(*words)[0] for words in sides]

        for kind, pairs in (("cold", [turn()]), ("warm", [turn() for _ in range(turns)])):
            for clock in ("seconds", "cpu_seconds"):
                seconds = [(own[clock], theirs[clock]) for own, theirs in pairs]
                yield compared(f"command, {kind}, {clock}", name, PEER, seconds)


def training(name: str, graphs: Sequence[Graph], device: str, turns: int) -> Iterator[Point]:
    """From client graphs to local models: one seed on a CPU, five at once on a GPU."""
    gcn = agree(graphs).model
    seeds = SEEDS if device == "cuda" else SEEDS[:1]
    pairs = in_turns(graphs, gcn, seeds, device, turns)
    yield compared("training", name, LOOP, pairs)
    if device == "cuda":
        # Most of a short training on a GPU is setting up: graphs, dropout, a capture.
        longer = (ours(graphs, gcn, seeds, device, 3 * EPOCHS) for _ in pairs)
        more = [(seconds - own) / 2 for seconds, (own, _) in zip(longer, pairs, strict=True)]
        if min(more) > 0:  # otherwise the clock's own noise is longer than they are
            theirs = median(seconds for _, seconds in pairs)
            yield compared("100 more epochs", name, LOOP, [(own, theirs) for own in more])


def every_model(name: str, graphs: Sequence[Graph], device: str, turns: int) -> Iterator[Point]:
    """Every kind of model with the GCN's widths, one seed."""
    for kind in MODELS:
        pairs = in_turns(graphs, agree(graphs, model=kind).model, SEEDS[:1], device, turns)
        yield compared(f"training {kind}", name, LOOP, pairs)


def in_turns(
    graphs: Sequence[Graph], model: Model, seeds: Sequence[int], device: str, turns: int
) -> list[tuple[float, float]]:
    """Seconds of ours and of the plain loop for the paper's whole budget, after one turn that does not
    count. In turns, so that a busy machine slows both.

    On a GPU all of the loop is run, with the data already there. On a CPU set-up and steps are timed
    apart and only the steps are scaled, from `SAMPLE` epochs to the budget.
    """
    placed = [graph.to(device) for graph in graphs]

    def loop(epochs: int) -> None:
        for graph in placed:
            train_loop(network(model), graph, epochs)

    def theirs() -> float:
        if device == "cuda":
            return timed(loop, EPOCHS)
        ready, sample = timed(loop, 0), timed(loop, SAMPLE)
        return ready + max(0.0, sample - ready) * EPOCHS / SAMPLE

    pairs = ((ours(graphs, model, seeds, device), len(seeds) * theirs()) for _ in range(turns + 1))
    return list(pairs)[1:]


def ours(
    graphs: Sequence[Graph], model: Model, seeds: Sequence[int], device: str, epochs: int = EPOCHS
) -> float:
    """Seconds to train with all that is constant made anew."""
    fresh = list(map(replace, graphs))  # nothing is computed yet

    def work() -> None:
        starts = {seed: model.start(seed) for seed in seeds}
        train_cohort(fresh, model, starts, recipe=Recipe(epochs), device=device)

    return timed(work)


def train_loop(net: nn.Module, graph: Graph, epochs: int) -> None:
    """Full-batch Adam on the training nodes."""
    net.to(graph.x.device).train()
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(epochs):
        optimiser.zero_grad()
        out = net(graph.x, graph.edges)
        cross_entropy(out[graph.train], graph.y[graph.train]).backward()
        optimiser.step()


def network(model: Model) -> Any:
    """The same network as PyG has it; SGC's features are cached, as in its example."""
    features, hidden, classes = model.widths[0], model.widths[-2], model.widths[-1]
    sizes, dropout, travel = (features, hidden, 2, classes), model.dropout, "x, edges -> x"
    match model:
        case GCN():
            return pyg.GCN(*sizes, dropout=dropout)
        case SAGE():
            return pyg.GraphSAGE(*sizes, dropout=dropout)
        case SGC():
            return pyg.SGConv(features, classes, K=model.hops, cached=True)
        case GAT():  # PyG's own drops attention too
            first = pyg.GATConv(features, hidden // model.heads, model.heads)
            last = pyg.GATConv(hidden, classes, model.heads, concat=False)
        case GIN():  # PyG's own has a last layer that is narrower inside
            first = pyg.GINConv(pyg.MLP([features, hidden, hidden], norm=None))
            last = pyg.GINConv(pyg.MLP([hidden, hidden, classes], norm=None))
        case _:
            layers = [(pyg.MLP([features, hidden, classes], norm=None, dropout=dropout), "x -> x")]
            if isinstance(model, APPNP):
                layers.append((pyg.APPNP(model.hops, model.teleport), travel))
            return pyg.Sequential("x, edges", layers)
    between = nn.ReLU(), nn.Dropout(dropout)
    return pyg.Sequential("x, edges", [(first, travel), *between, (last, travel)])


if __name__ == "__main__":
    command(main)
