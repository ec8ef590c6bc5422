"""The paper's claims, each with the evidence for or against it found here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pace.study.cell import Store
from pace.study.diagnostics import paired, receivers
from pace.study.records import Record, measured, title
from pace.study.study import CITATION, PARTS


@dataclass(frozen=True)
class Claim:
    """What the paper says, whether it holds here (None: not run), and the numbers that say so."""

    statement: str
    holds: bool | None
    evidence: str


Scores = dict[tuple[str, str, str, int], float]  # dataset, row, metric, clients -> mean


def claims(store: Store, seeds: Sequence[int]) -> list[Claim]:
    """Every claim, judged on the cells that are there."""
    return [judge(store, seeds) for judge in JUDGES]


def _scores(part: str, store: Store, seeds: Sequence[int]) -> Scores:
    found: list[Record] = measured(PARTS[part], store, seeds)
    return {(r.dataset, r.method, r.metric, r.clients): r.mean for r in found}


def better_than_local(store: Store, seeds: Sequence[int]) -> Claim:
    found = _scores("main", store, seeds)
    verdicts, words = [], []
    for name in PARTS["main"].datasets:
        gains = [
            found[title(name), "PACE", metric, 10] - found[title(name), "Local", metric, 10]
            for metric in ("accuracy", "weighted_f1")
            if (title(name), "PACE", metric, 10) in found
        ]
        if gains:
            verdicts.append(min(gains) >= 0)
            words.append(f"{title(name)} {gains[0]:+.2f} / {gains[1]:+.2f}")
    return Claim(
        "At C = 10 PACE's mean accuracy and weighted F1 are at or above Local's on every dataset.",
        all(verdicts) if verdicts else None,
        "Gains in points, accuracy / weighted F1: " + "; ".join(words) if words else "not run",
    )


def best_of_all(store: Store, seeds: Sequence[int]) -> Claim:
    found = _scores("main", store, seeds)
    verdicts, words = [], []
    for name in PARTS["main"].datasets:
        rows = {
            key[1]: value
            for key, value in found.items()
            if key[0] == title(name) and key[2] == "accuracy"
        }
        if "PACE" in rows and len(rows) > 2:
            label, best = max(
                ((row, value) for row, value in rows.items() if row not in ("PACE", "Local")),
                key=lambda pair: pair[1],
            )
            verdicts.append(rows["PACE"] >= best)
            words.append(f"{title(name)}: PACE {rows['PACE']:.2f}, {label} {best:.2f}")
    return Claim(
        "Among the matched one-round methods PACE has the highest mean accuracy.",
        all(verdicts) if verdicts else None,
        "; ".join(words) if words else "not run",
    )


def few_bytes(store: Store, seeds: Sequence[int]) -> Claim:
    found = _scores("communication", store, seeds)
    down = {key[0]: value for key, value in found.items() if key[2] == "downlink_percent"}
    words = "; ".join(f"{name} {value:.1f} %" for name, value in down.items())
    return Claim(
        "At rank 6 a return costs 9.6 to 17.6 % of the dense bytes.",
        all(9.55 <= value < 17.65 for value in down.values()) if down else None,
        words or "not run",
    )


def calibration_recovers(store: Store, seeds: Sequence[int]) -> Claim:
    found = _scores("resolver", store, seeds)
    gains = {
        (name, clients): value - found[name, "Transport", metric, clients]
        for (name, row, metric, clients), value in found.items()
        if row == "Transport + CNLL" and metric == "accuracy"
    }
    lowest = min(gains.items(), key=lambda pair: pair[1], default=None)
    evidence = "not run"
    if lowest:
        (name, clients), gain = lowest
        evidence = (
            f"{sum(g >= 0 for g in gains.values())} of {len(gains)} settings; "
            f"smallest change {gain:+.2f} points ({name}, C = {clients})"
        )
    return Claim(
        "CNLL never lowers the transported candidate's mean accuracy.",
        all(gain >= -0.005 for gain in gains.values()) if gains else None,
        evidence,
    )


def calibration_alone_is_not_enough(store: Store, seeds: Sequence[int]) -> Claim:
    found = _scores("fairness", store, seeds)
    verdicts, words = [], []
    for name in map(title, CITATION):
        rivals = {
            row: value
            for (dataset, row, metric, _), value in found.items()
            if dataset == name and metric == "accuracy" and row.endswith("+CNLL")
        }
        ours = found.get((name, "PACE", "accuracy", 10))
        if ours is not None and len(rivals) > 1:
            label = max(rivals, key=rivals.__getitem__)
            verdicts.append(ours > rivals[label])
            words.append(f"{name}: PACE {ours:.2f}, {label} {rivals[label]:.2f}")
    return Claim(
        "With the same CNLL for everyone PACE is still ahead on the citation datasets.",
        all(verdicts) if verdicts else None,
        "; ".join(words) if words else "not run",
    )


def geometry_helps(store: Store, seeds: Sequence[int]) -> Claim:
    found = _scores("ablation", store, seeds)
    gains = {
        name: found[name, "Full PACE", "accuracy", 10] - found[name, "Mean + CNLL", "accuracy", 10]
        for name in map(title, CITATION)
        if (name, "Full PACE", "accuracy", 10) in found
        and (name, "Mean + CNLL", "accuracy", 10) in found
    }
    return Claim(
        "RegMean's geometry beats the plain mean under the same CNLL on the citation datasets.",
        all(gain > 0 for gain in gains.values()) if gains else None,
        "; ".join(f"{name} {gain:+.2f}" for name, gain in gains.items()) or "not run",
    )


def receivers_gain(store: Store, seeds: Sequence[int]) -> Claim:
    names = [title(name) for name in CITATION]
    each = [r for r in receivers(PARTS["diagnostics"], store, seeds) if r.dataset in names]
    counts = [sum(r.counts[kind] for r in each) for kind in range(3)]
    worst = min((r.worst for r in each), default=0.0)
    return Claim(
        "On the citation datasets many more receivers are helped than harmed "
        "(paper: 118 helped, 15 tied, 17 harmed; worst receiver -1.43 points).",
        counts[0] > counts[2] if each else None,
        f"{counts[0]} helped, {counts[1]} tied, {counts[2]} harmed; worst receiver {worst:+.2f} points"
        if each
        else "not run",
    )


def intervals_exclude_zero(store: Store, seeds: Sequence[int]) -> Claim:
    names = [title(name) for name in CITATION]
    found = [
        p
        for p in paired(PARTS["diagnostics"], store, seeds)
        if p.dataset in names and p.metric == "accuracy"
    ]
    words = [
        f"{p.dataset} {p.mean:+.2f} [{p.interval[0]:+.2f}, {p.interval[1]:+.2f}]" for p in found
    ]
    return Claim(
        "PACE - Local excludes zero (95 % paired t over seeds) on Cora, CiteSeer and PubMed.",
        all(p.interval[0] > 0 for p in found) if found and len(seeds) > 1 else None,
        "; ".join(words) or "not run",
    )


def more_clients(store: Store, seeds: Sequence[int]) -> Claim:
    words, verdicts = [], []
    for part, clients in (("c20", 20), ("c30", 30)):
        found = _scores(part, store, seeds)
        for name in map(title, PARTS[part].datasets):
            if (name, "PACE", "accuracy", clients) in found:
                gain = (
                    found[name, "PACE", "accuracy", clients]
                    - found[name, "Local", "accuracy", clients]
                )
                if name != "Computers":
                    verdicts.append(gain >= 0)
                words.append(f"{name} C = {clients} {gain:+.2f}")
    return Claim(
        "At C = 20 and 30 PACE leads Local everywhere but on Computers.",
        all(verdicts) if verdicts else None,
        "; ".join(words) or "not run",
    )


JUDGES: list[Callable[[Store, Sequence[int]], Claim]] = [
    better_than_local,
    best_of_all,
    intervals_exclude_zero,
    few_bytes,
    calibration_recovers,
    geometry_helps,
    calibration_alone_is_not_enough,
    receivers_gain,
    more_clients,
]
