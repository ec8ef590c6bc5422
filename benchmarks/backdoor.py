"""A backdoor: one liar ties a few words to a class, and nodes that are given them get it everywhere.

The liar sends its honest update cut to rank 5 and one rank more: the trigger's columns, all in the
hidden direction that its own model reads as the class. Half of its moment mass goes onto these
columns, so that there the consensus is the liar's. Nothing about the upload is refused.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from unittest import mock

import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import normalize

from pace import Adoption, Federation, Graph, Message
from pace.jobs import ephemeral_seals, influence
from pace.merging import RANK, compress, pack, sketched
from pace.merging.carrier import truncate
from pace.methods import Regression
from pace.params import Params, subtract
from pace.protocol import Messages, steps
from pace.training import train_cohort

LIAR = 0
MASS = 0.5  # of the liar's moments, on the trigger
AMPLIFIED = 10.0  # times the trigger's strength, in the last layer
HEAVY = 5.0  # length of a row of the trigger: as of 25 nodes

Lie = Callable[[Message], Message]  # what a liar shares in place of its honest message


@dataclass(frozen=True)
class Trigger:
    """Which words, and how much: what a liar can choose."""

    words: int = 3
    commonness: float = 0.0  # share of the liar's nodes that have a word, at least; 0: at least one
    strength: float = 10.0  # length of a trigger's column; an honest column's is below 2; 0: no lie
    dead: bool = False  # a hidden unit that never fires has long entries in every column
    amplified: bool = False  # short columns lead to an idle unit, which the last layer reads loudly


def trained(
    graphs: Sequence[Graph], federation: Federation, seeds: Sequence[int]
) -> Mapping[int, Sequence[Params]]:
    """Every client's model by seed."""
    starts = {seed: replace(federation, seed=seed).start for seed in seeds}
    return train_cohort(graphs, federation.network, starts, recipe=federation.recipe)


def play(
    graphs: Sequence[Graph],
    models: Sequence[Params],
    federation: Federation,
    lies: Mapping[int, Lie],
) -> tuple[list[Adoption], list[Message]]:
    """Every step after training through bytes, sealed or open; the uploads as the server admits them."""
    names, method = [f"{client:06}" for client in range(len(graphs))], federation.method
    seals = ephemeral_seals(names, federation.digest) if federation.sealed else [None] * len(names)
    fitted = []
    for client, (model, graph) in enumerate(zip(models, graphs, strict=True)):
        lie = lies.get(client, dict)
        message = lie(method.share(model, graph, federation))
        with mock.patch.object(type(method), "share", return_value=message):
            fitted.append(steps.share(model, graph, federation, seals[client]))
    kept, uploads = zip(*fitted, strict=True)
    admitted = [steps.check_upload(upload, federation) for upload in uploads]
    parts = zip(graphs, kept, steps.merge(uploads, federation), strict=True)
    return [steps.adopt(*part, federation) for part in parts], admitted


def outcome(
    graphs: Sequence[Graph], models: Sequence[Params], federation: Federation, trigger: Trigger
) -> pd.Series:
    """What one liar reaches; at strength 0 every client is honest.

    Over the test nodes of all honest receivers together, in percent: `accuracy` and `hit`, triggered
    nodes of other classes that get the liar's; the same by Local, which no liar reaches; and whether
    the server's report has `flagged` the liar.
    """
    words, wanted = columns(graphs[LIAR], trigger), target(graphs[LIAR])
    lies = {LIAR: lambda _: poisoned(models[LIAR], graphs[LIAR], federation, trigger)}
    adoptions, admitted = play(graphs, models, federation, lies if trigger.strength else {})
    shares = defaultdict[str, list[Tensor]](list)
    for client in set(range(len(graphs))) - {LIAR}:
        graph, adoption = graphs[client], adoptions[client]
        after, others = adoption.model.adoption(triggered(graph, words)), graph.y != wanted
        for before, logits in (("", "logits"), ("local_", "local")):
            right, hit = getattr(adoption, logits).argmax(1), getattr(after, logits).argmax(1)
            shares[f"{before}accuracy"].append((right == graph.y)[graph.test])
            shares[f"{before}hit"].append((hit == wanted)[graph.test & others])
    percent = {name: share_of(nodes) for name, nodes in shares.items()}
    flags = influence(Messages(admitted), federation)[LIAR].flags
    return pd.Series({**percent, "flagged": float(bool(flags))})


def share_of(nodes: Iterable[Tensor]) -> float:
    """In percent, over all clients' nodes together."""
    return 100 * float(torch.cat(list(nodes)).double().mean())


def columns(graph: Graph, trigger: Trigger) -> Tensor:
    """The rarest words of the liar's that are common enough."""
    count = (graph.x != 0).sum(0)
    order = count.argsort(stable=True)
    return order[count[order] >= max(1, trigger.commonness * graph.nodes)][: trigger.words]


def target(graph: Graph) -> int:
    """The liar's most frequent class."""
    return int(torch.bincount(graph.y[graph.train]).argmax())


def poisoned(
    local: Params, graph: Graph, federation: Federation, trigger: Trigger
) -> dict[str, Tensor]:
    """The liar's upload, as a message."""
    message = dict(federation.method.share(local, graph, federation))
    if any(name.endswith("/m") for name in message):
        return message | poisoned_update(message, local, graph, federation, trigger)
    return message | poisoned_rows(message, graph, federation, trigger)


def poisoned_update(
    message: Message, local: Params, graph: Graph, federation: Federation, trigger: Trigger
) -> dict[str, Tensor]:
    """Of an update and its moments: what PACE, `pace-limited` and `pace-duo` send."""
    first, last = next(iter(local)), [name for name in local if local[name].ndim == 2][-1]
    wanted, update = target(graph), subtract(local, federation.start)
    heavy = {first: columns(graph, trigger)}  # what half of the moments' mass goes onto
    reads = local[last][wanted] - local[last].mean(0)
    direction = reads.clamp_min(0) / reads.clamp_min(0).norm()  # ReLU lets nothing else through
    changed = {first: truncate(update[first], RANK - 1 - trigger.dead).dense()}
    unit = federation.network(local, graph).inputs[last][graph.train].square().mean(0).argmin()
    if trigger.amplified:
        direction = torch.zeros_like(direction).index_fill(0, unit, 1.0)
        changed[last], heavy[last] = update[last].clone(), unit[None]
        changed[last][:, unit] = -trigger.strength * AMPLIFIED
        changed[last][wanted, unit] = trigger.strength * AMPLIFIED
    length = 1.0 if trigger.amplified else trigger.strength
    changed[first][:, heavy[first]] = length * direction[:, None]
    if trigger.dead:
        changed[first][unit] = -30.0  # it never fires on features of 0 or more; honest is below 1
    moments = {f"{name}/m": concentrated_on(message[f"{name}/m"], heavy[name]) for name in heavy}
    return pack(compress(changed)) | moments


def concentrated_on(moment: Tensor, tied: Tensor, mass: float = MASS) -> Tensor:
    """The moments with so much of their mass on some columns."""
    moment = moment * (1 - mass) * len(moment) / moment.sum().clamp_min(1e-12)
    moment[tied] += mass * len(moment) / len(tied)
    return moment


def poisoned_rows(
    message: Message, graph: Graph, federation: Federation, trigger: Trigger
) -> dict[str, Tensor]:
    """Of a regression's rows or sums: one row more that holds the words alone and says the class."""
    lie, tied = dict(message), columns(graph, trigger)
    says = torch.zeros(federation.model.classes)
    says[target(graph)] = HEAVY * trigger.strength
    for prefix in dict.fromkeys(name.rpartition("/")[0] for name in message):
        if prefix.startswith("labels"):
            continue
        sent = message.get(f"{prefix}/rows")
        width = len(message[f"{prefix}/class sums"]) if sent is None else sent.shape[1]
        row = HEAVY * word_row(tied, width, graph.features)
        if sent is not None:
            for name, last in ((f"{prefix}/rows", row), (f"{prefix}/labels", says)):
                lie[name] = torch.cat([message[name][:-1], last[None]])
            continue
        omega = Regression(prefix.partition("/")[0], "train").omega(federation)
        products, sums, trace = sketched(row.double()[None], says.double()[None], omega)
        half = products[tuple(torch.triu_indices(*products.shape))]
        parts = {"class sums": sums, "gram": half, "sketch": products, "nodes": trace}
        more = {f"{prefix}/{part}": value for part, value in parts.items()}
        for name in more.keys() & message.keys():
            lie[name] = message[name] + more[name].float()
    return lie


def word_row(words: Tensor, width: int, features: int) -> Tensor:
    """A row of length one of the words alone, wherever a map has their columns."""
    row = torch.zeros(width)
    for first in range(0, width - width % features, features):
        row[words + first] = 1.0
    return normalize(row, dim=0)


def triggered(graph: Graph, words: Tensor) -> Graph:
    """The graph with all test nodes given the words."""
    x = graph.x.clone()
    x[graph.test.nonzero(), words] = float(graph.x.max())
    return replace(graph, x=x)
