"""What liars do to honest clients: attacks against PACE and pace-limited, and backdoors.

    python -m benchmarks.attacks [--methods pace,pace-full] [--seeds 5] [--out results]

Ten clients; the first one to three lie, and the seven who never do are scored on their own test
nodes. Then one liar plants a backdoor (see backdoor.py). Every message goes through bytes and is
admitted as the server would. Writes tables/backdoors.md and tables/attacks.md, which docs/attacks.md
explains.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path

import pandas as pd
import torch

import pace
from benchmarks.backdoor import Lie, Trigger, concentrated_on, outcome, play, share_of, trained
from benchmarks.clock import command
from pace.methods import Limited
from pace.protocol import SEEDS
from pace.reports import READINGS, Table
from pace_study.tables import write_tables

CLIENTS, MOST = 10, 3
RULES: dict[str, pace.Method] = {"paper": pace.Pace(), "limited": Limited()}


def times(factor: float) -> Lie:
    """The update times a factor: `/L` stays, whatever else is no moment takes it."""
    return lambda message: {
        name: value if name.endswith(("/m", "/L")) else factor * value
        for name, value in message.items()
    }


def concentrated(message: pace.Message) -> pace.Message:
    """All of every moment on one column, and the update × 1000: a whole column at a blow."""
    moments = {
        name: concentrated_on(value, value.argmin()[None], mass=1.0)
        for name, value in message.items()
        if name.endswith("/m")
    }
    return {**times(1000.0)(message), **moments}


FLIPPED = "other labels"  # what is sent is honest, of a model trained on labels turned round by one
ATTACKS: dict[str, Lie | None] = {
    "× 1000": times(1000.0),
    "× -1": times(-1.0),
    "× -1000": times(-1000.0),
    FLIPPED: None,
    "one column": concentrated,
}


def study(
    graphs: Sequence[pace.Graph], seeds: Sequence[int], attacks: Sequence[str] = tuple(ATTACKS)
) -> pd.DataFrame:
    """Accuracy of the honest clients' test nodes together, in percent, means over seeds.

    A row for each attack and number of liars, a column for each rule and reading: `local`, `external`
    (External always taken) and `adopted` (through the gate).
    """
    first = pace.agree(graphs)
    turned = [
        replace(graph, y=torch.where(graph.y < 0, graph.y, (graph.y + 1) % first.model.classes))
        for graph in graphs[:MOST]
    ]
    models = trained([*graphs, *turned], first, seeds)
    cases = [("none", 0), *product(attacks, range(1, MOST + 1))]
    rows = []
    for seed, (attack, liars), (rule, method) in product(seeds, cases, RULES.items()):
        flipped, lie = liars if attack == FLIPPED else 0, ATTACKS.get(attack)
        mixed = [*models[seed][CLIENTS : CLIENTS + flipped], *models[seed][flipped:CLIENTS]]
        lies = dict.fromkeys(range(liars), lie) if lie else {}
        adoptions, _ = play(graphs, mixed, pace.agree(graphs, method, seed=seed), lies)
        for reading, logits in READINGS.items():
            right = [
                (logits(adopted).argmax(1) == graph.y)[graph.test]
                for adopted, graph in zip(adoptions[MOST:], graphs[MOST:], strict=True)
            ]
            rows.append((attack, liars, rule, reading, share_of(right)))
    frame = pd.DataFrame(rows, columns=["attack", "liars", "rule", "reading", "percent"])
    return frame.pivot_table("percent", ["attack", "liars"], ["rule", "reading"], sort=False)


def arrow(before: float, after: float) -> str:
    """`1.2 → 3.4`, without what there is none of."""
    return " → ".join(f"{value:.1f}" for value in (before, after) if not pd.isna(value)) or "-"


def attack_table(scores: pd.DataFrame) -> Table:
    """In each cell: External taken always → through the gate."""
    rows = [
        [attack, str(liars or "-"), *(arrow(row[r].external, row[r].adopted) for r in RULES)]
        for (attack, liars), row in scores.iterrows()
    ]
    return Table.of("", ["Attack", "Liars", *RULES], rows, names=2, words=0)


# --- backdoors ----------------------------------------------------------------------------------

PLACES = (("synthetic", 3), ("synthetic", 10), ("cora", 10))
METHODS = "pace,pace-limited,pace-duo,pace-ridge,pace-ridge-sums,pace-full,pace-full-sums"
BACKDOORS = {
    "three rare words": Trigger(),
    "and a dead unit": Trigger(dead=True),
    "by an idle unit": Trigger(amplified=True),
    "ten words, ≥ 6 %": Trigger(10, 0.06),
    "thirty words, ≥ 6 %": Trigger(30, 0.06),
}


def planted(graphs: Sequence[pace.Graph], name: str, seeds: Sequence[int]) -> pd.DataFrame:
    """What a method does without a lie, at strength 0, and with each backdoor: means over seeds.

    Regressions have no hidden units. A lie that the server refuses has no row.
    """
    first = pace.agree(graphs, name)
    models = trained(graphs, first, seeds)
    # A liar takes the strength that serves best; a row says its class at 1 as strongly as a node can.
    strengths = (1.0, 3.0, 10.0) if first.closed_form else (3.0, 10.0, 30.0)
    rows = []
    for (kind, trigger), strength in product(BACKDOORS.items(), (0.0, *strengths)):
        if (trigger.dead or trigger.amplified) and (first.closed_form or not strength):
            continue
        lie = replace(trigger, strength=strength)
        with suppress(pace.PaceError):
            ends = [outcome(graphs, models[s], replace(first, seed=s), lie) for s in seeds]
            rows += [{"kind": kind, "strength": strength, **end} for end in ends]
    return pd.DataFrame(rows).groupby(["kind", "strength"]).mean()


def backdoor_row(results: pd.DataFrame) -> list[str]:
    """Accuracy and hits by kind, nobody lies → one does at its best, those of Local, seeds flagged."""
    hits = results.hit.unstack().reindex(BACKDOORS)
    best = hits.drop(columns=0.0).max(axis=1)
    rare = results.loc["three rare words"]
    lied = rare.loc[rare.hit.drop(0.0).idxmax()]
    return [
        arrow(rare.accuracy[0.0], lied.accuracy),
        f"{lied.local_accuracy:.1f}",
        *map(arrow, hits[0.0], best),
        f"{lied.local_hit:.1f}",
        f"{lied.flagged:.0%}",
    ]


def backdoor_table(seeds: Sequence[int], methods: Sequence[str]) -> Table:
    """Every method against every kind of backdoor on the three graphs."""
    rows = []
    for (data, clients), name in product(PLACES, methods):
        results = planted(pace.divide(pace.load(data), "louvain", clients), name, seeds)
        rows.append([data, str(clients), name, str(len(seeds)), *backdoor_row(results)])
        print(*rows[-1], flush=True)
    heads = ("Graph", "Clients", "Method", "Seeds", "Accuracy", "Local's")
    return Table.of("", [*heads, *BACKDOORS, "Local's", "Flagged"], rows, names=3, words=0)


def main(methods: str = METHODS, seeds: int = len(SEEDS), out: Path = Path("results")) -> None:
    """Write tables/backdoors.md, of METHODS if they are any, and tables/attacks.md."""
    if methods:
        write_tables(out, "backdoors", [backdoor_table(SEEDS[:seeds], methods.split(","))])
    scores = study(pace.divide(pace.load("cora"), "louvain", CLIENTS), SEEDS[:seeds])
    write_tables(out, "attacks", [attack_table(scores)])


if __name__ == "__main__":
    command(main)
