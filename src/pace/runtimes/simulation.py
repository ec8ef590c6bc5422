"""Runtime 1: every party in this process, every message through bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any

import torch
from torch import Tensor

from pace.datasets.partition import Division
from pace.errors import SettingError
from pace.graph import Graph, expect_graph
from pace.jobs import sealing
from pace.methods import METHODS, make
from pace.models import Model, kind_of, sized
from pace.params import Params, size
from pace.protocol import steps
from pace.protocol.federation import SEEDS, Federation
from pace.protocol.method import Method
from pace.protocol.sealing import Seal, check_sealable
from pace.reports.run_result import RunResult, RunSettings
from pace.reports.trial import READINGS, Trial
from pace.task import counted, roc_auc
from pace.training.forward import Forward
from pace.training.train import train_cohort


def simulate(
    graphs: Sequence[Graph],
    methods: Sequence[str] | Mapping[str, Method] = ("local", "fedavg", "pace"),
    *,
    model: str | Model = "gcn",
    hidden: int = 64,
    layers: int = 2,
    seeds: int | Sequence[int] = len(SEEDS),
    device: torch.device | str = "auto",
    command: str = "",
    progress: Callable[[str], None] = lambda step: None,
    **settings: Any,
) -> RunResult:
    """Run every method on every seed: all clients, the server, every message through bytes.

    Args:
        graphs: one a client, as `pace.divide` gives them.
        methods: names, such as `pace`, `fedprox:mu=0.1` or the group `all`; or methods by name.
        model: a name, such as `gcn` or `gat:heads=4`, which takes its widths from the graphs; or a
            model.
        hidden: width of the hidden layers of a model by name.
        layers: how many layers a model by name has.
        seeds: how many of the paper's five seeds, or seeds.
        device: where clients train: `cpu`, `cuda`, or `auto`.
        command: what to note as the command that made the result.
        progress: is told of each of `progress_steps(...)`.
        settings: `epochs`, `rate`, `decay`, `numbers` in place of each method's own; `sealed=True`
            lets the server see sums only.

    Returns:
        Settings, trials and every view of them; its repr is the table of scores.

    Raises:
        SettingError: a name or a setting is unknown or out of range.

    Example:
        >>> import pace
        >>> dataset = pace.load("synthetic:nodes=90,features=12,communities=3,classes=3")
        >>> graphs = pace.divide(dataset, "dirichlet", clients=3)
        >>> result = pace.simulate(graphs, ["local", "pace"], seeds=1, epochs=5)
        >>> sorted(result.summary.methods)
        ['local', 'pace']
    """
    for graph in graphs:
        expect_graph(graph)
    if isinstance(model, str):
        model = _model_for(graphs, model, hidden, layers)
    if not isinstance(methods, Mapping):
        names = [methods] if isinstance(methods, str) else methods
        methods = {name: make(name) for text in names for name in METHODS.expand(text)}
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    chosen = paper_seeds(seeds) if isinstance(seeds, int) else list(seeds)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # two threads on small products are slower than one
    try:
        trials = list(
            run_trials(graphs, model, methods, chosen, device=device, progress=progress, **settings)
        )
    finally:
        torch.set_num_threads(threads)
    order = list(methods)
    trials.sort(key=lambda trial: order.index(trial.method))
    made = graphs if isinstance(graphs, Division) else None
    sums = {"clients": len(graphs)} if settings.get("sealed") else {}
    about = RunSettings(
        command=command,
        dataset=made.dataset if made else "graphs",
        partition=made.partition if made else "given",
        data_seed=made.data_seed if made else None,
        clients=len(graphs),
        seeds=tuple(chosen),
        device=str(device),
        model=kind_of(model),
        setups={
            name: Federation(model, method, chosen[0], **settings, **sums).describe()
            for name, method in methods.items()
        },
    )
    return RunResult(about, tuple(trials))


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


def paper_seeds(count: int) -> list[int]:
    """The first of the paper's seeds."""
    if not 1 <= count <= len(SEEDS):
        raise SettingError(f"seeds is {count}, expected 1 to {len(SEEDS)}, or a list of seeds")
    return list(SEEDS[:count])


def _model_for(graphs: Sequence[Graph], name: str, hidden: int, layers: int) -> Model:
    classes = 1 + max(int(graph.y.max()) for graph in graphs)
    if isinstance(graphs, Division):
        classes = graphs.classes
    return sized(name, graphs[0].features, hidden, layers, classes)


def run_trials(
    graphs: Sequence[Graph],
    model: Model,
    methods: Mapping[str, Method],
    seeds: Sequence[int],
    *,
    epochs: int | None = None,
    rate: float | None = None,
    decay: float | None = None,
    numbers: str = "",
    sealed: bool = False,
    device: torch.device | str = "cpu",
    progress: Callable[[str], None] = lambda step: None,
) -> Iterator[Trial]:
    """Run every method on every seed; `progress` is told of each of `progress_steps(...)`.

    Where epochs, learning rate, weight decay and numbers are not given, they are each method's own.

    With `sealed`, every client has a key that lives as long as the trial, and the server sees sums.
    """
    if sealed:
        for name, method in methods.items():
            check_sealable(method, name)
    federations = {
        seed: {
            name: Federation(
                model,
                method,
                seed,
                epochs,
                numbers=numbers,
                rate=rate,
                decay=decay,
                sealed=sealed,
                clients=len(graphs) if sealed else 0,
            )
            for name, method in methods.items()
        }
        for seed in seeds
    }
    for members in by_training(federations[seeds[0]]).values():

        def one_more(seed: int, named: str = ", ".join(members)) -> None:
            progress(f"seed {seed}: training for {named}")

        began = time.perf_counter()
        shared = [federations[seed][members[0]] for seed in seeds]
        learnt = _trained(graphs, shared, device, one_more)
        trained = (time.perf_counter() - began) / len(seeds)
        forward = Forward(graphs, shared[0].network, device)
        own = forward([[learnt[seed][client] for seed in seeds] for client in range(len(graphs))])
        for name in members:
            rounds = [_round(federations[seed][name], graphs, learnt[seed]) for seed in seeds]
            for trial in _trials(name, rounds, own, trained, forward):
                yield trial
                progress(f"seed {trial.seed}: {name} done")


def progress_steps(
    clients: int, model: Model, methods: Mapping[str, Method], seeds: Sequence[int]
) -> int:
    """How often `simulate` and `run_trials` report progress."""
    groups = by_training({name: Federation(model, method) for name, method in methods.items()})
    return len(seeds) * (clients * len(groups) + len(methods))


def by_training(federations: Mapping[str, Federation]) -> dict[str, list[str]]:
    """Method names by how their clients train: equal recipe and network, one training."""
    groups: dict[str, list[str]] = {}
    for name, federation in federations.items():
        setup = federation.describe()
        groups.setdefault(repr((setup["recipe"], setup["network"])), []).append(name)
    return groups


def _trained(
    graphs: Sequence[Graph],
    federations: Sequence[Federation],
    device: torch.device | str,
    progress: Callable[[int], None],
) -> dict[int, list[dict[str, Tensor]]]:
    """Local models by seed, in order of clients, of federations that differ in their seed alone."""
    for graph in graphs:
        steps.check(graph, federations[0])
    return train_cohort(
        graphs,
        federations[0].network,
        {federation.seed: federation.start for federation in federations},
        recipe=federations[0].recipe,
        device=device,
        progress=progress,
    )


@dataclass(frozen=True, eq=False)
class _Round:
    """A round that is played up to its returns: what clients kept, and what came back to each."""

    federation: Federation
    kept: Sequence[steps.Kept]
    returns: Sequence[bytes]
    uploads: Sequence[bytes]
    seconds: dict[str, float]


def _round(federation: Federation, graphs: Sequence[Graph], locals_: Sequence[Params]) -> _Round:
    clock = [time.perf_counter()]
    seals = _seals(len(graphs), federation)
    fitted = [
        steps.share(local, graph, federation, seal)
        for local, graph, seal in zip(locals_, graphs, seals, strict=True)
    ]
    clock.append(time.perf_counter())
    uploads = [upload for _, upload in fitted]
    returns = steps.merge(uploads, federation)
    clock.append(time.perf_counter())
    seconds = {"fit": clock[1] - clock[0], "merge": clock[2] - clock[1]}
    return _Round(federation, [kept for kept, _ in fitted], returns, uploads, seconds)


def _trials(
    name: str,
    rounds: Sequence[_Round],
    own: Sequence[Sequence[Tensor]],
    trained: float,
    forward: Forward,
) -> Iterator[Trial]:
    """Every receiver of every seed adopts at once; then one trial a seed."""
    began = time.perf_counter()
    receivers = [
        steps.Receiver(graph, played.kept[client], played.returns[client], played.federation, local)
        for client, graph in enumerate(forward.graphs)
        for played, local in zip(rounds, own[client], strict=True)
    ]
    adopted = steps.adopt_all(receivers, partial(_predicted, forward, len(rounds)))
    took = (time.perf_counter() - began) / len(rounds)
    for place, played in enumerate(rounds):
        adoptions = adopted[place :: len(rounds)]
        federation = played.federation
        classes = federation.model.classes
        pairs = list(zip(adoptions, forward.graphs, strict=True))
        yield Trial(
            name,
            federation.seed,
            [adoption.alpha for adoption in adoptions],
            {
                reading: [evaluate(logits(adoption), graph, classes) for adoption, graph in pairs]
                for reading, logits in READINGS.items()
            },
            [len(upload) for upload in played.uploads],
            [len(returned) for returned in played.returns],
            size(federation.model.start(federation.seed)),
            {
                "fit": trained + played.seconds["fit"],
                "merge": played.seconds["merge"],
                "adopt": took,
            },
            {
                reading: [
                    roc_auc(logits(adoption)[graph.test], graph.y[graph.test])
                    for adoption, graph in pairs
                ]
                for reading, logits in READINGS.items()
            }
            if classes == 2
            else {},
        )


def _predicted(
    forward: Forward, rounds: int, models: Sequence[Sequence[Params]]
) -> list[Sequence[Tensor]]:
    """The logits of each receiver's models; receivers are ordered by client, then by round."""
    by_client = [models[begin : begin + rounds] for begin in range(0, len(models), rounds)]
    logits = forward([list(chain.from_iterable(group)) for group in by_client])
    found: list[Sequence[Tensor]] = []
    for group, together in zip(by_client, logits, strict=True):
        rest = iter(together)
        found += [list(islice(rest, len(receiver))) for receiver in group]
    return found


def _seals(clients: int, federation: Federation) -> Sequence[Seal | None]:
    """Each client's masks, from keys that are drawn here and forgotten."""
    if not federation.sealed:
        return [None] * clients
    return sealing.ephemeral_seals([f"{client:06}" for client in range(clients)], federation.digest)


def evaluate(logits: Tensor, graph: Graph, classes: int) -> Tensor:
    """What scores are made of, on the client's test nodes."""
    return counted(logits[graph.test], graph.y[graph.test], classes)
