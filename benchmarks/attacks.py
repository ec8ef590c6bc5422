"""What liars do to honest clients: attacks against PACE and pace-limited, and backdoors.

    python -m benchmarks.attacks [--data cora] [--seeds 5] [--out docs]

Ten clients; the first one to three lie, and the seven who never do are scored on their own test
nodes. Then one liar plants a backdoor (see backdoor.py). Every message goes through bytes and is
admitted as the server would. Writes attacks.md, attacks.json and attacks.svg.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import torch
from torch import Tensor

from benchmarks import backdoor_page
from pace.datasets import load
from pace.datasets.partition.divide import divide
from pace.graph import Graph
from pace.methods import Limited, Pace
from pace.models.gcn import GCN
from pace.protocol import steps, wire
from pace.protocol.federation import Federation
from pace.protocol.method import Message, Method
from pace.reports.trial import READINGS
from pace.runtimes.simulation import evaluate
from pace.task import accuracy, pooled
from pace.training.train import train_cohort

CLIENTS, MOST = 10, 3
SEEDS = (104729, 130363, 155921, 181081, 206639)
RULES: dict[str, Method] = {
    "paper": Pace(),
    "limited": Limited(),
}


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


@dataclass(frozen=True)
class Score:
    """Accuracy of the honest clients' test nodes together, in percent, one for each seed."""

    attack: str
    liars: int
    rule: str
    reading: str  # local; external: External always taken; adopted: through the gate
    accuracies: list[float]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.accuracies)


@dataclass(frozen=True, eq=False)
class Learnt:
    """One seed: the honest messages, those of the label flippers, and what everybody keeps."""

    locals: list[dict[str, Tensor]]
    honest: list[Message]
    flipped: list[Message]


def learnt(graphs: Sequence[Graph], classes: int, gcn: GCN, seed: int) -> Learnt:
    federation = Federation(gcn, Pace(), seed)
    turned = [replace(graph, y=_turned(graph.y, classes)) for graph in graphs[:MOST]]
    models = train_cohort(
        [*graphs, *turned], gcn, {seed: federation.start}, recipe=federation.recipe
    )[seed]
    messages = [
        federation.method.share(local, graph, federation)
        for local, graph in zip(models, [*graphs, *turned], strict=True)
    ]
    return Learnt(models[:CLIENTS], messages[:CLIENTS], messages[CLIENTS:])


def _turned(labels: Tensor, classes: int) -> Tensor:
    return torch.where(labels < 0, labels, (labels + 1) % classes)


def attacked(known: Learnt, attack: str, liars: int) -> list[Message]:
    source = known.flipped if attack == "other labels" else known.honest
    lies = [ATTACKS[attack](message) for message in source[:liars]] if liars else []
    return [*lies, *known.honest[liars:]]


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
        kept = steps.Kept(known.locals[client], wire.checksum(uploads[client]))
        found = steps.adopt(graphs[client], kept, returns[client], federation)
        graph, classes = graphs[client], federation.model.classes
        for reading, logits in READINGS.items():
            counts[reading].append(evaluate(logits(found), graph, classes))
    return {reading: 100 * accuracy(pooled(each)) for reading, each in counts.items()}


def study(
    graphs: Sequence[Graph],
    classes: int,
    seeds: Sequence[int],
    attacks: Sequence[str] = tuple(ATTACKS),
) -> list[Score]:
    gcn = GCN((graphs[0].features, 64, classes))
    cases = [("none", 0), *((attack, n) for attack in attacks for n in range(1, MOST + 1))]
    found: dict[tuple[str, int, str, str], list[float]] = {}
    for seed in seeds:
        known = learnt(graphs, classes, gcn, seed)
        for attack, liars in cases:
            messages = known.honest if attack == "none" else attacked(known, attack, liars)
            for rule, method in RULES.items():
                scores = scored(graphs, known, messages, Federation(gcn, method, seed))
                for reading, score in scores.items():
                    found.setdefault((attack, liars, rule, reading), []).append(score)
    return [Score(*key, values) for key, values in found.items()]


def page(scores: Sequence[Score], about: dict[str, Any]) -> str:
    """The table: a row for each attack, a pair of columns for each rule."""
    by = {(each.attack, each.liars, each.rule, each.reading): each for each in scores}
    local = by["none", 0, "paper", "local"].mean
    lines = [
        "# Attacks",
        "",
        f"Accuracy (%) of the {CLIENTS - MOST} of {CLIENTS} clients who never lie, on "
        f"{about['data']} (Louvain), mean of {about['seeds']} seeds; without any federation "
        f"(Local) it is {local:.1f}. In each cell: External taken always → through the gate (CNLL). "
        f"Made by `{about['command']}` in {about['seconds']:.0f} s on one core.",
        "",
        "Every attack is well-formed and is admitted. *× 1000*, *× -1*, *× -1000*: the update "
        "times that. *other labels*: trained on labels turned round by one. *one column*: all of "
        "each moment on the liar's weakest column, and the update × 1000.",
        "",
        "![Accuracy by attack and rule, with the gate and without](attacks.svg)",
        "",
        "| Attack | Liars | " + " | ".join(RULES) + " |",
        "|---|---|" + "---|" * len(RULES),
    ]
    for attack, liars in dict.fromkeys((each.attack, each.liars) for each in scores):
        cells = [
            f"{by[attack, liars, rule, 'external'].mean:.1f} → "
            f"{by[attack, liars, rule, 'adopted'].mean:.1f}"
            for rule in RULES
        ]
        lines.append(f"| {attack} | {liars or '-'} | " + " | ".join(cells) + " |")
    adopted = [each for each in scores if each.reading == "adopted"]
    worst = {rule: min(each.mean for each in adopted if each.rule == rule) for rule in RULES}
    said = ", ".join(f"{rule} {score:.1f}" for rule, score in worst.items())
    lines += [
        "",
        f"The worst of each column through the gate: {said}; Local alone: {local:.1f}.",
        "The gate is what protects a receiver: its validation loss never rises, whatever the server "
        "or other clients do, and accuracy follows it to within a fraction of a point. Without the "
        "gate, one liar × 1000 ruins the consensus.",
    ]
    return "\n".join(lines) + "\n"


def picture(scores: Sequence[Score], path: Path) -> None:
    """A panel for each attack: accuracy by number of liars, a colour for each rule."""
    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "pace"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(ATTACKS), figsize=(13, 3.4), sharey=True)
    local = next(s.mean for s in scores if s.reading == "local")
    for axis, attack in zip(axes, ATTACKS, strict=True):
        for colour, rule in zip(("C0", "C1"), RULES, strict=True):
            for reading, line in (("adopted", "-"), ("external", ":")):
                chosen = [
                    s
                    for s in scores
                    if s.rule == rule and s.reading == reading and s.attack in ("none", attack)
                ]
                axis.plot(
                    [s.liars for s in chosen],
                    [s.mean for s in chosen],
                    line,
                    marker="o",
                    markersize=3,
                    color=colour,
                    label=f"{rule}, {'gate' if reading == 'adopted' else 'always'}",
                )
        axis.axhline(local, color="grey", linestyle="--", linewidth=0.8, label="Local")
        axis.set_title(attack)
        axis.set_xlabel("liars of 10")
        axis.set_xticks(range(MOST + 1))
    axes[0].set_ylabel("honest accuracy (%)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=5, frameon=False, fontsize=7)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    figure.savefig(path, metadata={"Date": None})


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", default="cora")
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--out", type=Path, default=Path("docs"))
    given = parser.parse_args(words)
    torch.set_num_threads(1)
    began = time.perf_counter()
    dataset = load(given.data)
    scores = study(divide(dataset, "louvain", CLIENTS), dataset.classes, SEEDS[: given.seeds])
    rows = backdoor_page.backdoors(RULES, SEEDS[: given.seeds])
    about = {
        "data": dataset.title or dataset.name,
        "seeds": given.seeds,
        "command": "make attacks",
        "seconds": time.perf_counter() - began,
    }
    given.out.mkdir(parents=True, exist_ok=True)
    text = f"{page(scores, about)}\n{backdoor_page.page(rows, given.seeds)}"
    (given.out / "attacks.md").write_text(text)
    facts = {
        "about": about,
        "scores": [asdict(each) for each in scores],
        "backdoors": [asdict(each) for each in rows],
    }
    (given.out / "attacks.json").write_text(json.dumps(facts, indent=1) + "\n")
    picture(scores, given.out / "attacks.svg")
    print(text)


if __name__ == "__main__":
    main()
