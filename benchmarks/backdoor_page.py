"""Backdoors on several graphs against several rules, and their two tables for attacks.md."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.backdoor import Trigger, outcome
from pace.datasets import load
from pace.datasets.partition.divide import divide
from pace.methods import Pace
from pace.models.gcn import GCN
from pace.protocol.federation import Federation
from pace.protocol.method import Method
from pace.training.train import train_cohort

PLACES = (("synthetic", 3), ("synthetic", 10), ("cora", 10))
STRENGTHS = (3.0, 10.0, 30.0)  # a liar takes the one that serves best
PLAIN = tuple(Trigger(strength=strength) for strength in STRENGTHS)
CHOICES = tuple((words, common) for words in (3, 10, 30) for common in (0.0, 0.02, 0.06))
AWARE = tuple(Trigger(*choice, strength) for choice in CHOICES for strength in STRENGTHS)
BEFORE, AFTER = "paper", "limited"  # rules that are compared against a liar who knows them

Tried = tuple[str, Trigger | None]  # a rule's name; None: nobody lies


@dataclass(frozen=True)
class Planted:
    """A backdoor somewhere: means over seeds, in percent, and in how many the liar was flagged."""

    data: str
    clients: int
    rule: str
    trigger: Trigger | None
    accuracy: float
    local_accuracy: float
    hit: float
    local_hit: float
    flagged: int


def planted(
    data: str,
    clients: int,
    tried: Sequence[Tried],
    rules: Mapping[str, Method],
    seeds: Sequence[int],
) -> list[Planted]:
    """Every pair of a rule and a trigger on one graph."""
    dataset = load(data)
    graphs = divide(dataset, "louvain", clients)
    gcn = GCN((dataset.graph.features, 64, dataset.classes))
    start = {seed: Federation(gcn, Pace(), seed).start for seed in seeds}
    models = train_cohort(graphs, gcn, start, recipe=Pace().recipe)
    rows = []
    for rule, trigger in tried:
        ends = [
            outcome(graphs, models[seed], Federation(gcn, rules[rule], seed), trigger)
            for seed in seeds
        ]
        rows.append(
            Planted(
                data,
                clients,
                rule,
                trigger,
                accuracy=statistics.fmean(end.accuracy for end in ends),
                local_accuracy=statistics.fmean(end.local_accuracy for end in ends),
                hit=statistics.fmean(end.hit for end in ends),
                local_hit=statistics.fmean(end.local_hit for end in ends),
                flagged=sum(bool(end.flags) for end in ends),
            )
        )
    return rows


def backdoors(rules: Mapping[str, Method], seeds: Sequence[int]) -> list[Planted]:
    """Every rule against the plain backdoor; two of them against a liar who knows the defence."""
    plain: list[Tried] = [(rule, trigger) for rule in rules for trigger in (None, *PLAIN)]
    aware: list[Tried] = [(rule, trigger) for rule in (BEFORE, AFTER) for trigger in AWARE]
    tried = list(dict.fromkeys([*plain, *aware]))
    return [row for place in PLACES for row in planted(*place, tried, rules, seeds)]


def page(rows: Sequence[Planted], seeds: int) -> str:
    """Both tables in words."""
    heads = " | ".join(head(*choice) for choice in CHOICES)
    strengths = ", ".join(f"{strength:g}" for strength in STRENGTHS)
    return f"""## Backdoors

One liar sends its honest update cut to rank 5 and one rank more, which ties three rare words to a
class, and moves half of its moment mass onto them (`benchmarks/backdoor.py`). All test nodes of the
honest receivers are then given the three words. *Hit*: of those of other classes, how many get the
liar's class (%), at the trigger's strength that serves the liar best ({strengths}; an honest column
is shorter than 2). *Flagged*: in how many of {seeds} seeds the server's report flags the liar.
Accuracy (%) is that of the honest receivers' test nodes as they are: nobody lies → with the
backdoor.

| Graph | Clients | Rule | Accuracy | Local's | Hit | Local's | Flagged |
|---|---|---|---|---|---|---|---|
{plain_table(rows)}

`pace-limited` is PACE with a receiver that shortens columns of the correction: none is longer than
twice the median column, and less where fewer than 3 % of its validation nodes see the feature
(`pace.merging.evidence`). A job asks for it by `--method pace-limited`; messages are PACE's. No
rule of the server helps, since the liar holds the columns that it alone claims to use.

**A liar who knows this** takes more words, or words that receivers do see. Hit (%),
{BEFORE} → {AFTER}, by the number of words and by how many of the liar's own nodes have each, at
the strength that serves the liar best; in brackets what Local does on the same nodes:

| Graph | Clients | {heads} |
|---|---|{"---|" * len(CHOICES)}
{aware_table(rows)}

So the defence stops short triggers, whatever their strength. It does not stop a trigger of thirty
words, and one of ten only in part. With ten or more common words and few clients it can even help
the liar: left whole, such a trigger harms validation nodes and the gate keeps most of it out;
shortened, it harms less and is let in. To say that a word means a class is what an honest client
does too, and a receiver that knows nothing about the word cannot tell the two apart. Who must
exclude this has to know the other participants, or keep Local.
"""


def plain_table(rows: Sequence[Planted]) -> str:
    lines = []
    for data, clients, rule in dict.fromkeys((row.data, row.clients, row.rule) for row in rows):
        here = [row for row in rows if (row.data, row.clients, row.rule) == (data, clients, rule)]
        honest = next(row for row in here if row.trigger is None)
        worst = max((row for row in here if row.trigger in PLAIN), key=lambda row: row.hit)
        lines.append(
            f"| {data} | {clients} | {rule} | {honest.accuracy:.1f} → {worst.accuracy:.1f} | "
            f"{honest.local_accuracy:.1f} | {worst.hit:.1f} | {worst.local_hit:.1f} | "
            f"{worst.flagged} |"
        )
    return "\n".join(lines)


def aware_table(rows: Sequence[Planted]) -> str:
    by = {(row.data, row.clients, row.rule, row.trigger): row for row in rows}
    lines = []
    for data, clients in dict.fromkeys((row.data, row.clients) for row in rows):
        cells = []
        for choice in CHOICES:
            before, after = (
                max(
                    (by[data, clients, rule, Trigger(*choice, each)] for each in STRENGTHS),
                    key=lambda row: row.hit,
                )
                for rule in (BEFORE, AFTER)
            )
            cells.append(f"{before.hit:.0f} → {after.hit:.0f} ({after.local_hit:.0f})")
        lines.append(f"| {data} | {clients} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def head(words: int, commonness: float) -> str:
    """A liar's choice, in words."""
    share = f"≥ {100 * commonness:g} %" if commonness else "rare"
    return f"{words} words, {share}"
