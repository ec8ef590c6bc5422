"""What liars do to honest clients: attacks against PACE and pace-limited, and backdoors.

    python -m benchmarks.attacks [--methods pace,pace-full] [--seeds 5] [--out results]

Ten clients; the first one to three lie, and the seven who never do are scored on their own test
nodes. Then one liar plants a backdoor (see backdoor.py). Every message goes through bytes and is
admitted as the server would. Writes tables/backdoors.md and tables/attacks.md, which docs/attacks.md
explains.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Annotated

import pandas as pd
import torch
import typer

from benchmarks.backdoor import Lie, Outcome, Trigger, outcome, play
from pace.datasets import divide, load
from pace.errors import PaceError
from pace.graph import Graph
from pace.methods import Limited, Pace, make
from pace.models import GCN
from pace.protocol import SEEDS, Federation, Message, Method
from pace.reports import READINGS, Table
from pace.task import accuracy, counted, pooled
from pace.training import train_cohort
from pace_study.tables import write_tables

CLIENTS, MOST = 10, 3
RULES: dict[str, Method] = {"paper": Pace(), "limited": Limited()}


def times(factor: float) -> Lie:
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


FLIPPED = "other labels"  # what is sent is honest, of a model trained on labels turned round by one
ATTACKS: dict[str, Lie | None] = {
    "× 1000": times(1000.0),
    "× -1": times(-1.0),
    "× -1000": times(-1000.0),
    FLIPPED: None,
    "one column": concentrated,
}


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
    turned = [
        replace(graph, y=torch.where(graph.y < 0, graph.y, (graph.y + 1) % classes))
        for graph in graphs[:MOST]
    ]
    rows = []
    for seed in seeds:
        first = Federation(gcn, Pace(), seed)
        trained = train_cohort([*graphs, *turned], gcn, {seed: first.start}, recipe=first.recipe)[
            seed
        ]
        for (attack, liars), (rule, method) in product(
            [("none", 0), *product(attacks, range(1, MOST + 1))], RULES.items()
        ):
            flipped = liars if attack == FLIPPED else 0
            models = [*trained[CLIENTS : CLIENTS + flipped], *trained[flipped:CLIENTS]]
            lie = ATTACKS.get(attack)
            lies = dict.fromkeys(range(liars), lie) if lie else {}
            adoptions, _ = play(graphs, models, Federation(gcn, method, seed), lies)
            honest = list(zip(adoptions, graphs, strict=True))[MOST:]
            for reading, logits in READINGS.items():
                counts = [
                    counted(logits(adopted)[graph.test], graph.y[graph.test], classes)
                    for adopted, graph in honest
                ]
                place = {"attack": attack, "liars": liars, "rule": rule, "reading": reading}
                rows.append(place | {"percent": 100 * accuracy(pooled(counts))})
    return pd.DataFrame(rows).pivot_table(
        "percent", ["attack", "liars"], ["rule", "reading"], sort=False
    )


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
REFUSED = Outcome(*(math.nan,) * 5)
Found = tuple[Outcome | None, Outcome]  # where nobody lies, if that is another case; where one does


def planted(graphs: Sequence[Graph], gcn: GCN, name: str, seeds: Sequence[int]) -> dict[str, Found]:
    """What a method does without a lie and with each backdoor at its best strength: means over seeds.

    Regressions have no hidden units. Of a lie that the server refuses there are no numbers.
    """
    agreed = {seed: Federation(gcn, make(name), seed) for seed in seeds}
    first = agreed[seeds[0]]
    start = {seed: federation.start for seed, federation in agreed.items()}
    models = train_cohort(graphs, first.network, start, recipe=first.recipe)

    def mean(trigger: Trigger, strength: float) -> Outcome:
        lie = replace(trigger, strength=strength)
        try:
            ends = [outcome(graphs, models[seed], agreed[seed], lie) for seed in seeds]
        except PaceError:
            return REFUSED
        return Outcome(*map(fmean, zip(*map(astuple, ends), strict=True)))

    found = {}
    for kind, trigger in BACKDOORS.items():
        units = trigger.dead or trigger.amplified
        if units and first.closed_form:
            continue
        strengths = ROW_STRENGTHS if first.closed_form else UPDATE_STRENGTHS
        tried = [mean(trigger, strength) for strength in strengths]
        best = max(tried, key=lambda end: -1 if end is REFUSED else end.hit)
        found[kind] = (None if units else mean(trigger, 0.0), best)
    return found


def backdoor_row(found: Mapping[str, Found]) -> list[str]:
    """Accuracy and hits by kind, nobody lies → one does, those of Local, seeds flagged."""
    hits = dict.fromkeys(BACKDOORS, "-")
    for kind, (honest, lied) in found.items():
        before = f"{honest.hit:.1f} → " if honest else ""
        hits[kind] = before + ("refused" if lied is REFUSED else f"{lied.hit:.1f}")
    honest, lied = found["three rare words"]
    assert honest is not None
    return [
        f"{honest.accuracy:.1f} → {lied.accuracy:.1f}",
        f"{lied.local_accuracy:.1f}",
        *hits.values(),
        f"{lied.local_hit:.1f}",
        f"{lied.flagged:.0%}",
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


def main(
    methods: Annotated[str, typer.Option(help="against backdoors; empty: none")] = ",".join(
        METHODS
    ),
    seeds: int = len(SEEDS),
    out: Path = Path("results"),
) -> None:
    """Write tables/backdoors.md and tables/attacks.md."""
    torch.set_num_threads(1)
    dataset, chosen = load("cora"), SEEDS[:seeds]
    if methods:
        write_tables(out, "backdoors", [backdoor_table(chosen, methods.split(","))])
    scores = study(divide(dataset, "louvain", CLIENTS), dataset.classes, chosen)
    write_tables(out, "attacks", [attack_table(scores)])


if __name__ == "__main__":
    typer.run(main)
