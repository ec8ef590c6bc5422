"""A backdoor: one liar ties a few words to a class, and nodes that are given them get it everywhere.

The liar sends its honest update cut to rank 5 and one rank more: the trigger's columns, all in the
hidden direction that its own model reads as the class. Half of its moment mass goes onto these
columns, so that there the consensus is the liar's. Nothing about the upload is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pace.gates import mix
from pace.graph import Graph
from pace.jobs import ephemeral_seals, influence
from pace.merging.carrier import RANK, truncate
from pace.methods.beyond.ridge import omega_of
from pace.params import Params, subtract
from pace.protocol import (
    Federation,
    Message,
    Messages,
    Seal,
    Summable,
    counted,
    in_ring,
    layouts,
    logit_sets,
    steps,
    wire,
)

LIAR = 0
MASS = 0.5  # of the liar's moments, on the trigger
DEAD = 30.0  # an entry of a dead unit; an honest one's is below 1
AMPLIFIED = 10.0  # times the trigger's strength, in the last layer
HEAVY = 5.0  # length of a row of the trigger: as of 25 nodes


@dataclass(frozen=True)
class Trigger:
    """Which words, and how much: what a liar can choose."""

    words: int = 3
    commonness: float = 0.0  # share of the liar's nodes that have a word, at least; 0: at least one
    strength: float = 10.0  # length of a trigger's column; an honest column's is below 2; 0: no lie
    dead: bool = False  # a hidden unit that never fires has long entries in every column
    amplified: bool = False  # short columns lead to an idle unit, which the last layer reads loudly


@dataclass(frozen=True)
class Outcome:
    """Over the test nodes of all honest receivers together, in percent."""

    accuracy: float
    local_accuracy: float
    hit: float  # triggered nodes of other classes that get the liar's class
    local_hit: float  # the same by Local, which no liar reaches
    flags: tuple[str, ...]  # what the server's report says of the liar

    @property
    def flagged(self) -> float:
        """Whether it says anything."""
        return float(bool(self.flags))


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
    tied, wanted = columns(graph, trigger), target(graph)
    reads = local[last][wanted] - local[last].mean(0)
    direction = reads.clamp_min(0) / reads.clamp_min(0).norm()  # ReLU lets nothing else through
    update = subtract(local, federation.start)
    changed = truncate(update[first], RANK - 1 - trigger.dead).dense()
    lie: dict[str, Tensor] = {}
    unit = int(federation.network(local, graph).inputs[last][graph.train].square().mean(0).argmin())
    if trigger.amplified:
        direction = torch.zeros_like(direction).index_fill(0, torch.tensor(unit), 1.0)
        loud = update[last].clone()
        loud[:, unit] = -trigger.strength * AMPLIFIED
        loud[wanted, unit] = trigger.strength * AMPLIFIED
        lie |= packed_weight(last, loud, message)
        lie |= {f"{last}/m": concentrated_on(message[f"{last}/m"], torch.tensor([unit]))}
    changed[:, tied] = (1.0 if trigger.amplified else trigger.strength) * direction[:, None]
    if trigger.dead:
        changed[unit] = -DEAD  # features are 0 or more: it never fires
    lie |= packed_weight(first, changed, message)
    return lie | {f"{first}/m": concentrated_on(message[f"{first}/m"], tied)}


def packed_weight(name: str, update: Tensor, message: Message) -> dict[str, Tensor]:
    """A weight's update as the message carries it."""
    if name in message:
        return {name: update}
    factors = truncate(update, RANK)
    return {f"{name}/L": factors.left, f"{name}/R": factors.right.contiguous()}


def concentrated_on(moment: Tensor, tied: Tensor) -> Tensor:
    """The moments with half of their mass on some columns."""
    moment = moment * (1 - MASS) * len(moment) / moment.sum().clamp_min(1e-12)
    moment[tied] += MASS * len(moment) / len(tied)
    return moment


def poisoned_rows(
    message: Message, graph: Graph, federation: Federation, trigger: Trigger
) -> dict[str, Tensor]:
    """Of a regression's rows or sums: one row more that holds the words alone and says the class."""
    lie, classes = dict(message), federation.model.classes
    tied, strength = columns(graph, trigger), trigger.strength
    says = strength * torch.nn.functional.one_hot(torch.tensor(target(graph)), classes)
    for name, value in message.items():
        prefix, _, part = name.rpartition("/")
        width = message[
            f"{prefix}/labels" if part in ("rows", "labels") else f"{prefix}/class sums"
        ]
        if prefix.startswith("labels") or part == "nodes":
            continue
        if part in ("rows", "labels"):
            row = word_row(tied, message[f"{prefix}/rows"].shape[1], graph.features)
            lie[name] = value.clone()
            lie[name][-1] = row * HEAVY if part == "rows" else says * HEAVY
            continue
        row = HEAVY * word_row(tied, len(width), graph.features)
        if part == "class sums":
            lie[name] = value + row[:, None] * says * HEAVY
        elif part == "sketch":
            omega = omega_of(prefix.partition("/")[0], federation)
            assert omega is not None
            lie[name] = value + row[:, None] * (row.double() @ omega).float()
            lie[f"{prefix}/nodes"] = message[f"{prefix}/nodes"] + HEAVY**2
        elif part == "gram":
            lie[name] = value + torch.outer(row, row)[tuple(torch.triu_indices(len(row), len(row)))]
    return lie


def word_row(words: Tensor, width: int, features: int) -> Tensor:
    """A row of length one of the words alone, wherever a map has their columns."""
    row = torch.zeros(width)
    for first in range(0, width - width % features, features):
        row[words + first] = 1.0
    return torch.nn.functional.normalize(row, dim=0)


def triggered(graph: Graph, words: Tensor) -> Graph:
    """The graph with all test nodes given the words."""
    x = graph.x.clone()
    x[graph.test.nonzero(), words] = float(graph.x.max())
    return replace(graph, x=x)


def outcome(
    graphs: Sequence[Graph],
    models: Sequence[Params],
    federation: Federation,
    trigger: Trigger,
) -> Outcome:
    """Through the whole protocol, sealed or open; at strength 0 every client is honest."""
    seals: Sequence[Seal | None] = [None] * len(graphs)
    if federation.sealed:
        seals = ephemeral_seals(
            [f"{client:06}" for client in range(len(graphs))], federation.digest
        )
    fitted = [
        steps.share(model, graph, federation, seal)
        for model, graph, seal in zip(models, graphs, seals, strict=True)
    ]
    uploads = [upload for _, upload in fitted]
    if trigger.strength:
        lie = poisoned(models[LIAR], graphs[LIAR], federation, trigger)
        uploads[LIAR] = framed(lie, federation, seals[LIAR])
    decoded: list[Message] = [steps.check_upload(upload, federation) for upload in uploads]
    returns = steps.merge(uploads, federation)
    words = columns(graphs[LIAR], trigger)
    wanted = target(graphs[LIAR])
    right: dict[str, list[Tensor]] = {"adopted": [], "local": []}
    hit: dict[str, list[Tensor]] = {"adopted": [], "local": []}
    for place, graph in enumerate(graphs):
        if place == LIAR:
            continue
        kept = fitted[place][0]
        adoption = steps.adopt(graph, kept, returns[place], federation)
        changed = triggered(graph, words)
        sets = logit_sets(changed, kept.local, adoption.model.externals, federation)
        others = graph.test & (graph.y != wanted)
        for reading, clean, after in (
            ("adopted", adoption.logits, mix(sets, adoption.weights)),
            ("local", adoption.local, sets[0]),
        ):
            right[reading].append((clean.argmax(1) == graph.y)[graph.test])
            hit[reading].append((after.argmax(1) == wanted)[others])
    return Outcome(
        percent(right["adopted"]),
        percent(right["local"]),
        percent(hit["adopted"]),
        percent(hit["local"]),
        influence(Messages(decoded), federation)[LIAR].flags,
    )


def framed(lie: Message, federation: Federation, seal: Seal | None) -> bytes:
    """The frame of a liar's message."""
    if seal is None:
        return wire.encode(lie, federation.digest, numbers=federation.numbers)
    method = federation.method
    assert isinstance(method, Summable)
    numbers = in_ring(counted(method.statistic_of(lie, federation)), federation.clients)
    return wire.framed(
        layouts.upload_layout(federation), seal(numbers).to_bytes(), federation.digest
    )


def percent(parts: Sequence[Tensor]) -> float:
    return 100 * float(torch.cat(list(parts)).double().mean())
