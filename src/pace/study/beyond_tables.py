"""pace-duo's tables, as rows of words, as Markdown and as tidy rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pace.study import beyond
from pace.study.cell import Store
from pace.study.records import title
from pace.study.study import BEYOND, LOCAL, PACE

SETTING_HEADS = (
    "Setting", "Local", "PACE", "pace-duo", "− PACE", "95 % paired", "Harmed, PACE",
    "Harmed, duo", "Worst, PACE", "Worst, duo", "Upload", "Return",
)  # fmt: skip
LINE_HEADS = (
    "", "− PACE", "− Local", "Lowest − PACE", "Lowest − Local", "Harmed", "Worst", "Upload",
    "Return",
)  # fmt: skip


def setting_rows(store: Store, seeds: Sequence[int]) -> list[list[str]]:
    """The table of all settings, in words; PACE's own rows come from the same settings."""
    rows = []
    theirs_by_name = {each.name: each for each in beyond.settings(store, seeds, PACE)}
    for ours in beyond.settings(store, seeds):
        theirs = theirs_by_name[ours.name]
        low, high = ours.interval
        rows.append(
            [
                ours.name,
                f"{ours.accuracy - ours.over_local:.2f}",
                f"{theirs.accuracy:.2f}",
                f"{ours.accuracy:.2f}",
                f"{ours.over_pace:+.2f}",
                f"{low:+.2f} to {high:+.2f}" if len(ours.ours) > 1 else "one seed",
                str(theirs.harmed),
                str(ours.harmed),
                f"{theirs.worst:+.2f}",
                f"{ours.worst:+.2f}",
                f"{100 * ours.upload:.1f} %",
                f"{100 * ours.returned:.1f} %",
            ]
        )
    return rows


def line_row(found: beyond.Line) -> list[str]:
    return [
        found.label,
        f"{found.over_pace:+.2f}",
        f"{found.over_local:+.2f}",
        f"{found.lowest:+.2f}",
        f"{found.below_local:+.2f}",
        f"{found.harmed} of {found.receivers}",
        f"{found.worst:+.2f}",
        f"{100 * found.upload:.1f} %",
        f"{100 * found.returned:.1f} %",
    ]


def tidy(store: Store, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """One row for each setting and method."""
    return [
        {
            "dataset": title(each.dataset),
            "partition": each.partition,
            "clients": each.clients,
            "method": row.method,
            "accuracy": each.accuracy,
            "over_pace": each.over_pace,
            "low": each.interval[0],
            "high": each.interval[1],
            "over_local": each.over_local,
            "harmed": each.harmed,
            "worst": each.worst,
            "upload": each.upload,
            "returned": each.returned,
        }
        for row in BEYOND
        if row is not LOCAL
        for each in beyond.settings(store, seeds, row)
    ]


def markdown(store: Store, seeds: Sequence[int]) -> str:
    """All three tables and the aims."""
    judged = beyond.aims(store, seeds)
    word = {True: "reached", False: "**not reached**"}
    first = [[aim.statement, word[aim.holds], aim.evidence] for aim in judged]
    tables = {
        "What it set out to do": (("Aim", "", "Measured"), first),
        "Setting by setting": (SETTING_HEADS, setting_rows(store, seeds)),
        "Part by part": (LINE_HEADS, list(map(line_row, beyond.steps(store, seeds)))),
        "The guard by its level": (
            ("Level", *LINE_HEADS[1:]),
            list(map(line_row, beyond.levels(store, seeds))),
        ),
    }
    return "\n".join(
        f"## {name}\n\n{_table(heads, rows)}\n" for name, (heads, rows) in tables.items() if rows
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
