"""The comparisons, one function each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import partial

from benchmarks import peers
from benchmarks.clock import Row, compared, timed, versus
from pace.graph import Graph
from pace.merging import RANK, dense, propagated, unpack
from pace.methods import Pace, make
from pace.models import GCN, MODELS, Model, sized
from pace.protocol import SEEDS, Federation, steps, wire
from pace.runtimes.simulation import run_trials
from pace.training import Recipe, train_cohort

EPOCHS = 100  # the paper's budget
SAMPLE = 10  # epochs of it that the plain loop is made to run on a CPU, where a step is slow
SHARED = ("local", "fedavg", "fedtad", "fedgta", "pace")  # methods that one training serves
LOOP = "the plain PyG loop"


def fresh(graph: Graph) -> Graph:
    """The graph with nothing computed yet; it has been checked before."""
    again = object.__new__(Graph)
    for field in fields(Graph):
        object.__setattr__(again, field.name, getattr(graph, field.name))
    return again


def training(
    name: str, graphs: Sequence[Graph], gcn: GCN, device: str, turns: int
) -> Iterator[Row]:
    """From client graphs to local models: one seed on a CPU, five at once on a GPU."""
    seeds = SEEDS if device == "cuda" else SEEDS[:1]
    whole = against_loop("training", name, graphs, ("gcn", gcn), seeds, device=device, turns=turns)
    yield whole
    if device == "cuda":
        # Most of a short training on a GPU is setting up: graphs, dropout, a capture.
        train = partial(train_anew, graphs, gcn, seeds, device)
        more = [
            (timed(partial(train, 3 * EPOCHS)) - timed(partial(train, EPOCHS))) / 2
            for _ in range(turns)
        ]
        if min(more) > 0:  # otherwise the clock's own noise is longer than they are
            yield versus("100 more epochs", whole, more)


def every_model(
    name: str, graphs: Sequence[Graph], gcn: GCN, device: str, turns: int
) -> Iterator[Row]:
    """Every kind of model with the GCN's widths, one seed."""
    features, hidden, classes = gcn.widths
    for kind in MODELS:
        model = kind, sized(kind, features, hidden, 2, classes)
        what = f"training {kind}"
        yield against_loop(what, name, graphs, model, SEEDS[:1], device=device, turns=turns)


def against_loop(
    what: str,
    name: str,
    graphs: Sequence[Graph],
    model: tuple[str, Model],
    seeds: Sequence[int],
    *,
    device: str,
    turns: int,
) -> Row:
    """One kind of model trained; what is constant is made anew in every turn."""
    ours = partial(train_anew, graphs, model[1], seeds, device, EPOCHS)
    peer = (LOOP, plain_loop(graphs, *model, device))
    return compared(what, name, ours, peer, turns=turns, peer_times=len(seeds))


def train_anew(
    graphs: Sequence[Graph], model: Model, seeds: Sequence[int], device: str, epochs: int
) -> None:
    starts = {seed: model.start(seed) for seed in seeds}
    train_cohort(list(map(fresh, graphs)), model, starts, recipe=Recipe(epochs), device=device)


def plain_loop(
    graphs: Sequence[Graph], kind: str, model: Model, device: str
) -> Callable[[], float]:
    """The seconds that the plain loop takes for all clients and the paper's whole budget, one seed.

    On a GPU all of it is run, with the data already there. On a CPU set-up and steps are timed apart
    and only the steps are scaled, from `SAMPLE` epochs to the budget.
    """
    placed = [graph.to(device) for graph in graphs]

    def loop(epochs: int) -> None:
        for graph in placed:
            peers.train_loop(peers.network(kind, model), graph, epochs, device)

    def seconds() -> float:
        if device == "cuda":
            return timed(lambda: loop(EPOCHS))
        ready = timed(lambda: loop(0))
        return ready + (timed(lambda: loop(SAMPLE)) - ready) * EPOCHS / SAMPLE

    return seconds


def study(name: str, graphs: Sequence[Graph], gcn: GCN, device: str, turns: int) -> Iterator[Row]:
    """Five methods that one training serves, through bytes, against a loop that trains for each."""
    methods = {method: make(method) for method in SHARED}
    seeds = SEEDS if device == "cuda" else SEEDS[:1]

    def ours() -> None:
        list(run_trials(list(map(fresh, graphs)), gcn, methods, seeds, device=device))

    said = f"{LOOP}, trained for each of {len(SHARED)} methods"
    times = len(SHARED) * len(seeds)
    loop = plain_loop(graphs, "gcn", gcn, device)
    yield compared("study", name, ours, (said, loop), turns=turns, peer_times=times)


def step_rows(name: str, graphs: Sequence[Graph], gcn: GCN, turns: int) -> Iterator[Row]:
    """Moments, messages, merge and adopt at this dataset's shape."""
    federation, graph = Federation(gcn, Pace()), graphs[0]
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

    svd = ("a dense SVD a client", lambda: peers.dense_merge(decoded, federation.start, RANK))
    yield compared("merge", name, lambda: steps.merge(frames, federation), svd, turns=turns)

    net = peers.network("gcn", gcn)
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
