"""The comparisons, one function each."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields

from benchmarks import peers
from benchmarks.clock import Point, Row, compared, timed, versus
from pace.errors import SettingError
from pace.graph import Graph
from pace.merging import dense, propagated, unpack
from pace.methods import Pace, make
from pace.models import GCN, Model
from pace.protocol import KINDS, SEEDS, Federation, steps, wire
from pace.runtimes.simulation import run_trials
from pace.task import accuracy, pooled
from pace.training import train_cohort

EPOCHS = 100  # the paper's budget
SAMPLE = 10  # epochs of it that the plain loop is made to run on a CPU, where a step is slow
SHARED = ("local", "fedavg", "fedtad", "fedgta", "pace")  # methods that one training serves
LOOP = "the plain PyG loop"


def plain_gcn(federation: Federation) -> GCN:
    """The federation's model, which the plain loop can train if it is the GCN."""
    if not isinstance(federation.model, GCN):
        raise SettingError("the plain loop trains the GCN only: choose the model gcn")
    return federation.model


def fresh(graph: Graph) -> Graph:
    """The graph with nothing computed yet; it has been checked before."""
    again = object.__new__(Graph)
    for field in fields(Graph):
        object.__setattr__(again, field.name, getattr(graph, field.name))
    return again


def training(
    name: str, graphs: Sequence[Graph], federation: Federation, device: str, turns: int
) -> Iterator[Row]:
    """From client graphs to local models: one seed on a CPU, five at once on a GPU."""
    gcn = plain_gcn(federation)
    seeds = SEEDS if device == "cuda" else SEEDS[:1]
    starts = {seed: gcn.start(seed) for seed in seeds}

    def ours(epochs: int = EPOCHS) -> None:
        again = [fresh(graph) for graph in graphs]
        recipe = Federation(gcn, federation.method, epochs=epochs).recipe
        train_cohort(again, gcn, starts, recipe=recipe, device=device)

    loop = plain_loop(graphs, gcn, device)
    whole = compared("training", name, ours, (LOOP, loop), turns=turns, peer_times=len(seeds))
    yield whole
    if device == "cuda":
        # Most of a short training on a GPU is setting up: graphs, dropout, a capture.
        more = [(timed(lambda: ours(3 * EPOCHS)) - timed(ours)) / 2 for _ in range(turns)]
        if min(more) > 0:  # otherwise the clock's own noise is longer than they are
            yield versus("100 more epochs", whole, more)


def plain_loop(graphs: Sequence[Graph], gcn: GCN, device: str) -> Callable[[], float]:
    """The seconds that the plain loop takes for all clients and the paper's whole budget, one seed."""
    placed = [graph.to(device) for graph in graphs]

    def loop(epochs: int) -> None:
        for graph in placed:
            peers.pyg_loop(graph, gcn, epochs, device)

    return whole_budget(loop, device)


def whole_budget(loop: Callable[[int], None], device: str) -> Callable[[], float]:
    """The seconds of a loop over that many epochs for the paper's budget.

    On a GPU all of it is run, with the data already there. On a CPU set-up and steps are timed apart
    and only the steps are scaled, from `SAMPLE` epochs to the budget.
    """

    def seconds() -> float:
        if device == "cuda":
            return timed(lambda: loop(EPOCHS))
        ready = timed(lambda: loop(0))
        return ready + (timed(lambda: loop(SAMPLE)) - ready) * EPOCHS / SAMPLE

    return seconds


def study(
    name: str, graphs: Sequence[Graph], federation: Federation, device: str, turns: int
) -> Iterator[Row]:
    """Five methods that one training serves, through bytes, against a loop that trains for each."""
    methods = {method: make(method) for method in SHARED}
    gcn = plain_gcn(federation)
    seeds = SEEDS if device == "cuda" else SEEDS[:1]

    def ours() -> None:
        again = [fresh(graph) for graph in graphs]
        list(run_trials(again, gcn, methods, seeds, device=device))

    said = f"{LOOP}, trained for each of {len(SHARED)} methods"
    times = len(SHARED) * len(seeds)
    loop = plain_loop(graphs, gcn, device)
    yield compared("study", name, ours, (said, loop), turns=turns, peer_times=times)


def step_rows(
    name: str, graphs: Sequence[Graph], federation: Federation, turns: int
) -> Iterator[Row]:
    """Moments, messages, merge and adopt at this dataset's shape."""
    gcn, graph = plain_gcn(federation), graphs[0]
    starts = {federation.seed: federation.start}
    locals_ = train_cohort(graphs, gcn, starts, recipe=federation.recipe)[federation.seed]
    kept = [
        steps.share(local, each, federation) for local, each in zip(locals_, graphs, strict=True)
    ]
    frames = [upload for _, upload in kept]
    decoded = [wire.decode(frame).message for frame in frames]
    returned = steps.merge(frames, federation)[0]

    def moments() -> None:
        propagated(gcn(locals_[0], fresh(graph)), graph)

    naive = (
        "dense messages of every node",
        lambda: peers.dense_moments(locals_[0], fresh(graph), gcn),
    )
    yield compared("moments", name, moments, naive, turns=turns)

    def there_and_back() -> None:
        wire.decode(wire.encode(decoded[0], federation.digest))

    safetensors = ("safetensors", lambda: peers.stored(decoded[0]))
    yield compared("encode and decode", name, there_and_back, safetensors, turns=turns)

    rank = federation.method.rank if isinstance(federation.method, Pace) else None
    svd = ("a dense SVD a client", lambda: peers.dense_merge(decoded, federation.start, rank or 1))
    yield compared("merge", name, lambda: steps.merge(frames, federation), svd, turns=turns)

    net = peers.Net(gcn)
    change = dense(unpack(wire.decode(returned).message, federation.start))
    two = ("two passes of PyG's layers", lambda: peers.pyg_adopt(net, locals_[0], change, graph))
    yield compared(
        "adopt",
        name,
        lambda: steps.adopt(graph, kept[0][0], returned, federation),
        two,
        turns=turns,
    )


def partitioning(name: str, graph: Graph, turns: int) -> Iterator[Row]:
    """Louvain communities."""
    import networkx

    from pace.datasets import computed

    def naive() -> None:
        whole: networkx.Graph[int] = networkx.Graph()
        whole.add_nodes_from(range(graph.nodes))
        whole.add_edges_from(graph.edges.t().tolist())
        networkx.community.louvain_communities(whole, seed=0)

    yield compared(
        "partition",
        name,
        lambda: computed(graph.edges.numpy(), graph.nodes),
        ("networkx's Louvain", naive),
        turns=turns,
    )


def number_kinds(name: str, graphs: Sequence[Graph], gcn: Model) -> Iterator[Point]:
    """PACE with each kind of numbers: adopted accuracy over seeds, messages against a dense model."""
    for kind in KINDS:
        trials = list(run_trials(graphs, gcn, {"pace": Pace()}, SEEDS, numbers=kind))
        scores = [100 * accuracy(pooled(trial.counts["adopted"])) for trial in trials]
        yield {
            "dataset": name,
            "numbers": kind,
            "accuracy": statistics.fmean(scores),
            "std": statistics.stdev(scores),
            "upload_percent": 100 * trials[0].upload[0] / trials[0].dense,
            "return_percent": 100 * trials[0].returned[0] / trials[0].dense,
        }
