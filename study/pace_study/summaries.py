"""Short tables over the whole study: the paper's fairness summary, what no draw explains, the claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pace_study.claims import VERDICTS, Claim
from pace_study.compare import SAME, Twin
from pace_study.records import Record, published
from pace_study.study import NAMES, UNPUBLISHED, Part
from pace_study.tables import METRIC, RANKED

Line = Sequence[str]


def table(heads: Line, lines: Iterable[Line]) -> str:
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def fairness_summary(records: Sequence[Record]) -> str:
    """For each dataset and metric the best baseline with CNLL, PACE and the gap; the paper's beside."""
    theirs = _by_place(record for record in published() if record.table == "fairness")
    lines = []
    for place, rows in _by_place(records).items():
        if "PACE" not in rows or place not in theirs:
            continue
        ours, paper = _best(rows), _best(theirs[place])
        lines.append(
            [
                place[0],
                METRIC[place[1]],
                f"{ours} ({paper})",
                *(
                    f"{here:.2f} ({there:.2f})"
                    for here, there in (
                        (rows[ours], theirs[place][paper]),
                        (rows["PACE"], theirs[place]["PACE"]),
                    )
                ),
                f"{rows['PACE'] - rows[ours]:+.2f}"
                f" ({theirs[place]['PACE'] - theirs[place][paper]:+.2f})",
            ]
        )
    heads = ["Dataset", "Metric", "Best with CNLL", "Its score", "PACE", "Gap"]
    return "## Fairness summary\n\n" + table(heads, sorted(lines, key=lambda line: line[1]))


def _by_place(records: Iterable[Record]) -> dict[tuple[str, str], dict[str, float]]:
    """Means by row's label, for each dataset and metric."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for record in records:
        found.setdefault((record.dataset, record.metric), {})[record.method] = record.mean
    return found


def _best(rows: Mapping[str, float]) -> str:
    matched = [f"{label}+CNLL" for name, label in NAMES.items() if name not in UNPUBLISHED]
    return max((label for label in matched if label in rows), key=lambda label: rows[label])


def unexplained(twins: Mapping[Part, Sequence[Twin]]) -> str:
    """Every score that is farther from the paper than the draws explain, METIS first, each once."""
    lines, told = [], set()
    for part in sorted(twins, key=lambda part: part.name != "metis"):
        found: dict[str, dict[str, dict[str, Twin]]] = {}  # place, method, metric
        for twin in twins[part]:
            ours = twin.ours
            label = SAME.get(ours.method, ours.method)
            number = ours.dataset, label, ours.metric, ours.partition, ours.clients
            if twin.within is False and ours.metric in RANKED and number not in told:
                told.add(number)
                place = ours.dataset + (f", C = {ours.clients}" if len(part.clients) > 1 else "")
                found.setdefault(place, {}).setdefault(ours.method, {})[ours.metric] = twin
        for place, methods in found.items():
            words = [f"{name} {_differences(part, each)}" for name, each in methods.items()]
            lines.append([part.title, place, "; ".join(words)])
    return table(["Table", "Dataset", "Ours less the paper's"], lines)


def _differences(part: Part, metrics: Mapping[str, Twin]) -> str:
    """`-9.20 / -10.58`, a dash where the draws do explain it; brackets where they are borrowed."""
    words = [
        f"{metrics[name].difference:+.2f}" if name in metrics else "–" for name in part.metrics
    ]
    text = " / ".join(words)
    return f"({text})" if all(twin.borrowed for twin in metrics.values()) else text


def claims_table(claims: Sequence[Claim]) -> str:
    """Counts of the verdicts by kind, then every sentence that is a result, then the others."""
    counts = Counter((claim.kind, claim.verdict) for claim in claims)
    kinds = {"result": "Results", "set-up": "How it was done", "history": "How the paper was made"}
    first = table(
        ["", *VERDICTS],
        [
            [name, *(str(counts[kind, verdict]) for verdict in VERDICTS)]
            for kind, name in kinds.items()
        ],
    )
    parts = [first]
    for kind, name in kinds.items():
        lines = [
            [claim.place, claim.statement, _strong(claim.verdict), claim.evidence]
            for claim in claims
            if claim.kind == kind
        ]
        heads = ["Where", "The paper's sentence", "Here", "Numbers"]
        parts.append(f"### {name}\n\n{table(heads, lines)}")
    return "\n\n".join(parts)


def _strong(verdict: str) -> str:
    return f"**{verdict}**" if verdict == VERDICTS[2] else verdict
