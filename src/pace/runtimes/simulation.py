"""Runtime 1: every party in this process, every message through bytes."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pace import protocol
from pace.errors import SettingError
from pace.graph import Graph, expect_graph
from pace.jobs import ephemeral_seals
from pace.methods import METHODS, make
from pace.models import Model, kind_of, sized
from pace.params import Params, size
from pace.protocol import SEEDS, Federation, Method, Receiver, layouts, steps
from pace.reports import READINGS, RunResult, RunSettings, Trial
from pace.task import calibration_error, counted, reliability, roc_auc
from pace.training import Checkpoints, Forward, train_cohort


def simulate(
    graphs: Sequence[Graph],
    methods: Sequence[str] | Mapping[str, Method] = ("local", "fedavg", "pace", "pace-full"),
    *,
    model: str | Model = "gcn",
    hidden: int = 64,
    layers: int = 2,
    seeds: int | Sequence[int] = len(SEEDS),
    device: torch.device | str = "auto",
    command: str = "",
    progress: Callable[[str], None] = lambda step: None,
    checkpoints: str | Path | None = None,
    **settings: Any,
) -> RunResult:
    """Run every method on every seed: all clients, the server, every message through bytes.

    Args:
        graphs: one a client, as `pace.divide` gives them.
        methods: names, such as `pace`, `fedprox:mu=0.1` or the group `all`; or methods by name.
        model: a model, or a name such as `gat:heads=4`, which takes its widths from the graphs.
        hidden: width of the hidden layers of a model by name.
        layers: how many layers a model by name has.
        seeds: how many of the paper's five seeds, or seeds.
        device: where clients train: `cpu`, `cuda`, or `auto`.
        command: what to note as the command that made the result.
        progress: is told of each training of a client, and of each method that is done, by seed.
        checkpoints: a folder for models as they are trained; a run that was interrupted, called again
            with the same arguments, trains only what is missing. Delete it when the run is done.
        settings: of each `Federation`: `epochs`, `rate`, `decay`, `numbers`, `sealed`.

    Returns:
        Settings, trials and every view of them; its repr is the table of scores.

    Raises:
        SettingError: a name or a setting is unknown or out of range.

    Example:
        >>> import pace
        >>> dataset = pace.load("synthetic:nodes=90,features=12,communities=3,classes=3")
        >>> graphs = pace.divide(dataset, "dirichlet", clients=3)
        >>> result = pace.simulate(graphs, ["local", "pace"], seeds=1, epochs=5)
        >>> sorted({row.method for row in result.summary})
        ['local', 'pace']
    """
    model = _model_for(graphs, model, hidden, layers)
    if not isinstance(methods, Mapping):
        names = [methods] if isinstance(methods, str) else methods
        methods = {name: make(name) for text in names for name in METHODS.expand(text)}
    if isinstance(seeds, int):
        if not 1 <= seeds <= len(SEEDS):
            raise SettingError(f"seeds is {seeds}, expected 1 to {len(SEEDS)}, or a list of seeds")
        seeds = SEEDS[:seeds]
    if settings.get("sealed"):
        settings["clients"] = len(graphs)
        for name, method in methods.items():
            protocol.check_sealable(method, name)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    federations = {
        name: [Federation(model, method, seed, **settings) for seed in seeds]
        for name, method in methods.items()
    }
    ran = run_trials(graphs, federations, device=device, progress=progress, checkpoints=checkpoints)
    threads, order = torch.get_num_threads(), list(methods)
    torch.set_num_threads(1)  # two threads on small products are slower than one
    try:
        trials = sorted(ran, key=lambda trial: order.index(trial.method))
    finally:
        torch.set_num_threads(threads)
    setups = {}
    for name, (first, *_) in federations.items():
        gate = first.method.gate
        setups[name] = {**first.describe(), "gate": getattr(gate, "__name__", type(gate).__name__)}
    ran_with = RunSettings(
        command=command,
        dataset=getattr(graphs, "dataset", "graphs"),
        partition=getattr(graphs, "partition", "given"),
        data_seed=getattr(graphs, "data_seed", None),
        clients=len(graphs),
        seeds=tuple(seeds),
        device=str(device),
        model=kind_of(model),
        setups=setups,
    )
    return RunResult(ran_with, tuple(trials))


def agree(
    graphs: Graph | Sequence[Graph],
    method: str | Method = "pace",
    *,
    model: str = "gcn",
    hidden: int = 64,
    layers: int = 2,
    **settings: Any,
) -> Federation:
    """A federation whose model takes its widths from the graphs.

    Args:
        graphs: one graph, or one a client: they say how many features and classes there are.
        method: a name, such as `pace-ridge`, or a method.
        model: a name, such as `gcn` or `gat:heads=4`.
        hidden: width of the hidden layers.
        layers: how many layers the model has.
        settings: of the `Federation`, such as `seed` and `epochs`.

    Returns:
        What everybody has to agree on before `fit`.

    Raises:
        SettingError: a name or a setting is unknown or out of range.

    Example:
        >>> import pace
        >>> dataset = pace.load("synthetic:nodes=90,features=12,communities=3,classes=3")
        >>> pace.agree(dataset.graph, "pace", hidden=8, epochs=5).model.widths
        (12, 8, 3)
    """
    listed = [graphs] if isinstance(graphs, Graph) else graphs
    chosen = make(method) if isinstance(method, str) else method
    return Federation(_model_for(listed, model, hidden, layers), chosen, **settings)


def _model_for(graphs: Sequence[Graph], model: str | Model, hidden: int, layers: int) -> Model:
    if not isinstance(model, str):
        return model
    for graph in graphs:
        expect_graph(graph)
    largest = max(int(graph.y.max()) for graph in graphs)
    classes = getattr(graphs, "classes", 1 + largest)  # a division knows its dataset's
    return sized(model, graphs[0].features, hidden, layers, classes)


def run_trials(
    graphs: Sequence[Graph],
    federations: Mapping[str, Sequence[Federation]],
    *,
    device: torch.device | str,
    progress: Callable[[str], None] = lambda step: None,
    checkpoints: str | Path | None = None,
) -> Iterator[Trial]:
    """What `simulate` runs, trial by trial: of each method, federations that differ in their seed."""
    groups = by_training({name: listed[0] for name, listed in federations.items()})
    for setup, members in groups.items():
        shared = federations[members[0]]  # one training for all of them
        seeds = [federation.seed for federation in shared]
        for graph in graphs:
            layouts.check(graph, shared[0])
        stored = Checkpoints(Path(checkpoints), f"{setup} {device}") if checkpoints else None

        def trained(seed: int, named: str = ", ".join(members)) -> None:
            progress(f"seed {seed}: training for {named}")

        began = time.perf_counter()
        learnt = train_cohort(
            graphs,
            shared[0].network,
            {federation.seed: federation.start for federation in shared},
            recipe=shared[0].recipe,
            device=device,
            progress=trained,
            checkpoints=stored,
        )
        seconds = (time.perf_counter() - began) / len(seeds)
        forward = Forward.on(graphs, shared[0].network, device)
        own = forward([[learnt[seed][client] for seed in seeds] for client in range(len(graphs))])
        for name in members:
            for trial in _trials(name, federations[name], learnt, own, forward):
                trial.seconds["fit"] += seconds
                yield trial
                progress(f"seed {trial.seed}: {name} done")


def by_training(federations: Mapping[str, Federation]) -> dict[str, list[str]]:
    """Method names by how their clients train: equal recipe and network, one training."""
    groups: dict[str, list[str]] = {}
    for name, federation in federations.items():
        setup = federation.describe()
        groups.setdefault(repr((setup["recipe"], setup["network"])), []).append(name)
    return groups


def _trials(
    name: str,
    federations: Sequence[Federation],
    learnt: Mapping[int, Sequence[Params]],
    own: Sequence[Sequence[Tensor]],
    forward: Forward,
) -> Iterator[Trial]:
    """A trial a federation, which differ in their seed alone; all receivers of all adopt at once."""
    graphs, clock = forward.graphs, time.perf_counter
    names = [f"{client:06}" for client in range(len(graphs))]
    rounds, receivers = [], []
    for index, federation in enumerate(federations):
        began, models = clock(), learnt[federation.seed]
        sealed = federation.sealed  # a client's key lives as long as the trial
        seals = ephemeral_seals(names, federation.digest) if sealed else [None] * len(names)
        clients = zip(models, graphs, seals, strict=True)
        fitted = [steps.share(local, graph, federation, seal) for local, graph, seal in clients]
        shared = clock()
        uploads = [upload for _, upload in fitted]
        returns = steps.merge(uploads, federation)
        seconds = {"fit": shared - began, "merge": clock() - shared}
        receivers += [
            Receiver(graph, kept, returned, federation, local[index])
            for graph, (kept, _), returned, local in zip(graphs, fitted, returns, own, strict=True)
        ]
        rounds.append((federation, uploads, returns, seconds))
    began = clock()
    adopted = iter(protocol.adopt_all(receivers, partial(_predicted, forward)))
    took = (clock() - began) / len(rounds)
    for federation, uploads, returns, seconds in rounds:
        pairs = [(next(adopted), graph) for graph in graphs]
        counts, aucs, ece = {}, {}, {}
        for reading, logits in READINGS.items():
            tested = [(logits(a)[graph.test], graph.y[graph.test]) for a, graph in pairs]
            counts[reading] = [counted(*pair, federation.model.classes) for pair in tested]
            rows, truth = map(torch.cat, zip(*tested, strict=True))
            ece[reading] = calibration_error(reliability(rows, truth))
            if federation.model.classes == 2:
                aucs[reading] = [roc_auc(rows[:, 1] - rows[:, 0], y) for rows, y in tested]
        yield Trial(
            name,
            federation.seed,
            [adoption.alpha for adoption, _ in pairs],
            counts,
            upload=list(map(len, uploads)),
            returned=list(map(len, returns)),
            dense=size(federation.model.start(federation.seed)),
            seconds={**seconds, "adopt": took},
            roc_auc=aucs,
            ece=ece,
        )


def _predicted(forward: Forward, models: Sequence[Sequence[Params]]) -> list[list[Tensor]]:
    """The logits of each receiver's models; receivers are ordered by round, then by client."""
    clients = len(forward.graphs)
    by_client = [list(chain.from_iterable(models[client::clients])) for client in range(clients)]
    logits = list(map(iter, forward(by_client)))
    return [list(islice(logits[i % clients], len(receiver))) for i, receiver in enumerate(models)]
