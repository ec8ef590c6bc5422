"""What methods beyond the paper set out to do, and whether they did."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pace.datasets.partition.split import DATA_SEED
from pace.merging.carrier import RANK
from pace_study import beyond
from pace_study.cell import Cell, Store
from pace_study.records import score, title
from pace_study.study import DUO, PACE, RIDGE, SUMS


@dataclass(frozen=True)
class Aim:
    """What a method set out to do, whether it did, and the numbers that say so."""

    statement: str
    holds: bool
    evidence: str


def regression_aims(store: Store, seeds: Sequence[int]) -> list[Aim]:
    """What the closed form set out to do, and whether both its forms did."""
    found = {row.label: beyond.settings(store, seeds, row) for row in (PACE, RIDGE, SUMS)}
    common = set.intersection(*({each.name for each in some} for some in found.values()))
    if not common:
        return []
    every = {
        label: beyond.line(label, [each for each in some if each.name in common])
        for label, some in found.items()
    }
    old, factored, summed = every.values()
    judged = [
        Aim(
            f"{new.label}: on average at least {least} points above PACE.",
            new.over_pace >= least,
            f"{new.over_pace:+.2f} over {new.settings} settings",
        )
        for new, least in ((factored, 3.0), (summed, 2.5))
    ]
    for new in (factored, summed):
        judged += [
            Aim(
                f"{new.label}: no setting more than 0.1 point below PACE or Local.",
                min(new.lowest, new.below_local) >= -0.1,
                f"lowest {new.lowest:+.2f} against PACE, {new.below_local:+.2f} against Local",
            ),
            Aim(
                f"{new.label}: at most a third of PACE's harmed receivers.",
                new.harmed <= old.harmed / 3,
                f"{new.harmed} against {old.harmed} of {new.receivers}; worst receiver "
                f"{new.worst:+.2f} against {old.worst:+.2f}",
            ),
        ]
        if rounds := over_rounds(store, new.label):
            nearest = min(rounds, key=lambda name: rounds[name])
            judged.append(
                Aim(
                    f"{new.label}: no setting more than 0.1 point below a hundred rounds of FedAvg "
                    "in the same gate.",
                    rounds[nearest] >= -0.1,
                    f"lowest {rounds[nearest]:+.2f} ({nearest}), mean "
                    f"{statistics.fmean(rounds.values()):+.2f} over {len(rounds)} settings",
                )
            )
    judged.append(
        Aim(
            f"{factored.label}: each direction at most PACE's bytes.",
            max(factored.upload, factored.returned) <= 1,
            f"upload {100 * factored.upload:.1f} %, return {100 * factored.returned:.1f} % on "
            f"average; {summed.label} {100 * summed.upload:.0f} % and {100 * summed.returned:.0f} %",
        )
    )
    return judged


def over_rounds(store: Store, method: str) -> dict[str, float]:
    """A method minus FedAvg over a hundred rounds in the same gate, by setting, in points.

    The rounds are those that `benchmarks.one_exchange` stored beside the cells, on as many seeds.
    """
    found: dict[str, list[float]] = {}
    stored = store.folder.parent / "rounds.jsonl"
    for line in stored.read_text().splitlines() if stored.is_file() else ():
        played = json.loads(line)
        if played["method"] != "fedavg":
            continue
        where = played["dataset"], played["partition"], played["clients"]
        trial = store.read(Cell(*where, method, RANK, played["seed"], DATA_SEED))
        if trial is not None:
            name = "{}, {}, C = {}".format(title(where[0]), *where[1:])
            ours = score(trial, "adopted", "accuracy")
            found.setdefault(name, []).append(ours - played["in_the_gate"])
    return {name: statistics.fmean(values) for name, values in found.items()}


def aims(store: Store, seeds: Sequence[int]) -> list[Aim]:
    """What pace-duo set out to do, and whether it did."""
    ours = beyond.settings(store, seeds)
    if not ours:
        return []
    names = {each.name for each in ours}
    theirs = [each for each in beyond.settings(store, seeds, PACE) if each.name in names]
    new, old = beyond.line(DUO.label, ours), beyond.line(PACE.label, theirs)
    least = min(ours, key=lambda each: each.over_pace)
    lowest = min(ours, key=lambda each: each.over_local)
    dearest = max(ours, key=lambda each: max(each.upload, each.returned))
    most = max(dearest.upload, dearest.returned)
    return [
        Aim(
            "No setting is worse than PACE by more than 0.1 point.",
            new.lowest >= -0.1,
            f"lowest {least.over_pace:+.2f} ({least.name}); "
            f"{sum(each.over_pace < -0.1 for each in ours)} of {len(ours)} settings below -0.1",
        ),
        Aim(
            "On average it is at least 0.3 point better than PACE.",
            new.over_pace >= 0.3,
            f"{new.over_pace:+.2f} over {new.settings} settings",
        ),
        Aim(
            "No setting is below Local by more than 0.1 point.",
            new.below_local >= -0.1,
            f"lowest {lowest.over_local:+.2f} ({lowest.name}); PACE's lowest {old.below_local:+.2f}",
        ),
        Aim(
            "At most half as many receivers are harmed as by PACE.",
            new.harmed <= old.harmed / 2,
            f"{new.harmed} against {old.harmed} of {new.receivers}; worst receiver "
            f"{new.worst:+.2f} against {old.worst:+.2f}",
        ),
        Aim(
            "It costs at most 52 % of PACE's bytes, in each direction.",
            most <= 0.52,
            f"upload {100 * new.upload:.1f} %, return {100 * new.returned:.1f} % on average; "
            f"most {100 * most:.1f} % ({dearest.name})",
        ),
    ]
