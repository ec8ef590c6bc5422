"""What liars do to honest clients: attacks against PACE and pace-limited, and backdoors.

    python -m benchmarks.attacks [--methods pace,pace-full] [--seeds 5] [--out results]

Ten clients; the first one to three lie, and the seven who never do are scored on their own test
nodes. Then one liar plants a backdoor (see backdoor.py). Every message goes through bytes and is
admitted as the server would. Writes tables/backdoors.md and tables/attacks.md, which docs/attacks.md
explains.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

from benchmarks.backdoor import Trigger, outcome
from pace.datasets import divide, load
from pace.errors import PaceError
from pace.graph import Graph
from pace.methods import Limited, Pace, Regressed, make
from pace.models import GCN
from pace.protocol import SEEDS, Federation, Kept, Message, Method, steps, wire
from pace.reports import READINGS, Table
from pace.task import accuracy, counted, pooled
from pace.training import train_cohort
from pace_study.tables import write_tables

CLIENTS, MOST = 10, 3
RULES: dict[str, Method] = {"paper": Pace(), "limited": Limited()}


def times(factor: float) -> Callable[[Message], Message]:
    """The update times a factor: `/L` stays, whatever else is no moment takes it."""
    return lambda message: {
        name: value if name.endswith(("/m", "/L")) else factor * value
        for name, value in message.items()
    }


def concentrated(message: Message) -> Message:
    """All of every moment on one column, and the update × 1000: a whole column at a blow."""
    made = dict(times(1000.0)(message))
    for name, value in message.items():
        if name.endswith("/m"):
            made[name] = torch.zeros_like(value)
            made[name][int(value.argmin())] = len(value)
    return made


ATTACKS: dict[str, Callable[[Message], Message]] = {
    "× 1000": times(1000.0),
    "× -1": times(-1.0),
    "× -1000": times(-1000.0),
    "other labels": lambda message: message,  # trained on labels turned round: see `learnt`
    "one column": concentrated,
}


@dataclass(frozen=True, eq=False)
class Learnt:
    """One seed: the honest messages, those of the label flippers, and what everybody keeps."""

    locals: list[dict[str, Tensor]]
    honest: list[Message]
    flipped: list[Message]


def learnt(graphs: Sequence[Graph], gcn: GCN, seed: int) -> Learnt:
    federation = Federation(gcn, Pace(), seed)
    everybody = list(graphs)
    for graph in graphs[:MOST]:
        turned = torch.where(graph.y < 0, graph.y, (graph.y + 1) % gcn.classes)
        everybody.append(replace(graph, y=turned))
    start = {seed: federation.start}
    models = train_cohort(everybody, gcn, start, recipe=federation.recipe)[seed]
    pairs = zip(models, everybody, strict=True)
    messages = [federation.method.share(local, graph, federation) for local, graph in pairs]
    return Learnt(models[:CLIENTS], messages[:CLIENTS], messages[CLIENTS:])


def attacked(known: Learnt, attack: str, liars: int) -> list[Message]:
    source = known.flipped if attack == "other labels" else known.honest
    return [*(ATTACKS[attack](message) for message in source[:liars]), *known.honest[liars:]]


def scored(
    graphs: Sequence[Graph], known: Learnt, messages: Sequence[Message], federation: Federation
) -> dict[str, float]:
    """Accuracy by reading, through the whole protocol."""
    uploads = [wire.encode(message, federation.digest) for message in messages]
    for upload in uploads:
        steps.check_upload(upload, federation)  # no attack here is refused
    returns = steps.merge(uploads, federation)
    counts: dict[str, list[Tensor]] = {reading: [] for reading in READINGS}
    for client in range(MOST, CLIENTS):
        kept = Kept(known.locals[client], wire.checksum(uploads[client]))
        found = steps.adopt(graphs[client], kept, returns[client], federation)
        test, labels = graphs[client].test, graphs[client].y
        for reading, logits in READINGS.items():
            tested = logits(found)[test], labels[test]
            counts[reading].append(counted(*tested, federation.model.classes))
    return {reading: 100 * accuracy(pooled(each)) for reading, each in counts.items()}


def study(
    graphs: Sequence[Graph],
    classes: int,
    seeds: Sequence[int],
    attacks: Sequence[str] = tuple(ATTACKS),
) -> pd.DataFrame:
    """Accuracy of the honest clients' test nodes together, in percent, means over seeds.

    A row for each attack and number of liars, a column for each rule and reading: `local`, `external`
    (External always taken) and `adopted` (through the gate).
    """
    gcn = GCN((graphs[0].features, 64, classes))
    cases = [("none", 0), *((attack, n) for attack in attacks for n in range(1, MOST + 1))]
    rows = []
    for seed in seeds:
        known = learnt(graphs, gcn, seed)
        for attack, liars in cases:
            messages = known.honest if attack == "none" else attacked(known, attack, liars)
            for rule, method in RULES.items():
                scores = scored(graphs, known, messages, Federation(gcn, method, seed))
                rows.append({"attack": attack, "liars": liars, "rule": rule, **scores})
    means = pd.DataFrame(rows).groupby(["attack", "liars", "rule"], sort=False).mean()
    return means.unstack("rule").swaplevel(axis=1)


def attack_table(scores: pd.DataFrame) -> Table:
    """In each cell: External taken always → through the gate."""
    rows = [
        [
            attack,
            str(liars or "-"),
            *(f"{row[rule, 'external']:.1f} → {row[rule, 'adopted']:.1f}" for rule in RULES),
        ]
        for (attack, liars), row in scores.iterrows()
    ]
    return Table.of("", ["Attack", "Liars", *RULES], rows, names=2, words=0)


# --- backdoors ----------------------------------------------------------------------------------

PLACES = (("synthetic", 3), ("synthetic", 10), ("cora", 10))
METHODS = (
    *("pace", "pace-limited", "pace-duo"),
    *("pace-ridge", "pace-ridge-sums", "pace-full", "pace-full-sums"),
)
UPDATE_STRENGTHS = 3.0, 10.0, 30.0  # a liar takes the one that serves best
ROW_STRENGTHS = 1.0, 3.0, 10.0  # how strongly a row says its class: 1 is what a node can say
BACKDOORS = {
    "three rare words": Trigger(),
    "and a dead unit": Trigger(dead=True),
    "by an idle unit": Trigger(amplified=True),
    "ten words, ≥ 6 %": Trigger(10, 0.06),
    "thirty words, ≥ 6 %": Trigger(30, 0.06),
}
HONEST, LIED = "nobody lies", "one lies"
NUMBERS = ("accuracy", "local_accuracy", "hit", "local_hit", "flagged")


def planted(graphs: Sequence[Graph], gcn: GCN, name: str, seeds: Sequence[int]) -> pd.DataFrame:
    """What a method does without a lie and with each backdoor at its best strength: means over seeds.

    Regressions have no hidden units. Of a lie that the server refuses there are no numbers.
    """
    agreed = {seed: Federation(gcn, make(name), seed) for seed in seeds}
    first = agreed[seeds[0]]
    start = {seed: federation.start for seed, federation in agreed.items()}
    models = train_cohort(graphs, first.network, start, recipe=first.recipe)
    rows = isinstance(first.method, Regressed)

    def mean(trigger: Trigger) -> dict[str, float]:
        try:
            ends = [outcome(graphs, models[seed], agreed[seed], trigger) for seed in seeds]
        except PaceError:
            return dict.fromkeys(NUMBERS, math.nan)
        return {
            number: statistics.fmean(getattr(end, number) for end in ends) for number in NUMBERS
        }

    found = {}
    for kind, trigger in BACKDOORS.items():
        if not (trigger.dead or trigger.amplified):
            found[kind, HONEST] = mean(replace(trigger, strength=0.0))
        elif rows:
            continue
        strengths = ROW_STRENGTHS if rows else UPDATE_STRENGTHS
        tried = (mean(replace(trigger, strength=strength)) for strength in strengths)
        best = max(tried, key=lambda end: -1 if math.isnan(end["hit"]) else end["hit"])
        found[kind, LIED] = best
    return pd.DataFrame(found).T


def backdoor_row(found: pd.DataFrame) -> list[str]:
    """Accuracy and hits by kind, nobody lies → one does, those of Local, seeds flagged."""
    three = found.loc["three rare words"]
    hits = []
    for kind in BACKDOORS:
        told = found.hit.get(kind, {LIED: None})
        before = f"{told[HONEST]:.1f} → " if HONEST in told else ""
        hit = told[LIED]
        hits.append("-" if hit is None else before + ("refused" if pd.isna(hit) else f"{hit:.1f}"))
    return [
        f"{three.accuracy[HONEST]:.1f} → {three.accuracy[LIED]:.1f}",
        f"{three.local_accuracy[LIED]:.1f}",
        *hits,
        f"{three.local_hit[LIED]:.1f}",
        f"{three.flagged[LIED]:.0%}",
    ]


def backdoor_table(seeds: Sequence[int], methods: Sequence[str] = METHODS) -> Table:
    """Every method against every kind of backdoor on the three graphs."""
    rows = []
    for data, clients in PLACES:
        dataset = load(data)
        graphs = divide(dataset, "louvain", clients)
        gcn = GCN((dataset.graph.features, 64, dataset.classes))
        for name in methods:
            row = backdoor_row(planted(graphs, gcn, name, seeds))
            rows.append([data, str(clients), name, str(len(seeds)), *row])
            print(*rows[-1], flush=True)
    heads = ("Graph", "Clients", "Method", "Seeds", "Accuracy", "Local's")
    return Table.of("", [*heads, *BACKDOORS, "Local's", "Flagged"], rows, names=3, words=0)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--methods", default=",".join(METHODS), help="against backdoors; empty: none"
    )
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--out", type=Path, default=Path("results"))
    given = parser.parse_args(words)
    torch.set_num_threads(1)
    dataset, seeds = load("cora"), SEEDS[: given.seeds]
    if given.methods:
        table = backdoor_table(seeds, given.methods.split(","))
        write_tables(given.out, "backdoors", [table])
    scores = study(divide(dataset, "louvain", CLIENTS), dataset.classes, seeds)
    write_tables(given.out, "attacks", [attack_table(scores)])


if __name__ == "__main__":
    main()
