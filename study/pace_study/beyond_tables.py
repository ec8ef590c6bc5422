"""The tables of what is beyond the paper, as rows of words, as Markdown and as tidy rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pace_study import beyond, beyond_aims
from pace_study.cell import Store
from pace_study.formats import TidyRow
from pace_study.records import title
from pace_study.study import BEYOND, DUO, LOCAL, PACE, PARTS, RIDGE, SUMS, Part

SETTING_HEADS = (
    "Setting", "Local", "PACE", "pace-duo", "− PACE", "95 % paired", "Harmed, PACE",
    "Harmed, duo", "Worst, PACE", "Worst, duo", "Upload", "Return",
)  # fmt: skip
METHOD_HEADS = (
    "Setting", "Local", "PACE", "pace-duo", "pace-ridge", "− PACE", "95 % paired", "sums",
    "− PACE", "95 % paired", "Harmed: PACE", "duo", "ridge", "sums", "Worst, ridge", "Worst, sums",
)  # fmt: skip
ELSEWHERE_HEADS = (
    "Graph", "Method", "Accuracy", "− Local", "− PACE", "95 % paired", "ROC AUC", "Harmed",
    "Worst", "Upload", "Return",
)  # fmt: skip
AIM_HEADS = ("Aim", "", "Measured")
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


def method_rows(
    store: Store, seeds: Sequence[int], homes: Iterable[Part] = beyond.HOMES
) -> list[list[str]]:
    """The closed form beside PACE and pace-duo, setting by setting."""
    homes = list(homes)
    pace, duo, ridge, sums = (
        {each.name: each for each in beyond.settings(store, seeds, row, homes)}
        for row in (PACE, DUO, RIDGE, SUMS)
    )
    return [
        [
            name,
            f"{one.accuracy - one.over_local:.2f}",
            f"{pace[name].accuracy:.2f}",
            f"{duo[name].accuracy:.2f}",
            *(text for each in (one, sums[name]) for text in _against_pace(each)),
            *(str(each[name].harmed) for each in (pace, duo, ridge, sums)),
            f"{one.worst:+.2f}",
            f"{sums[name].worst:+.2f}",
        ]
        for name, one in ridge.items()
        if name in sums and name in duo
    ]


def elsewhere_rows(store: Store, seeds: Sequence[int]) -> list[list[str]]:
    """Twitch's countries and graphs whose neighbours differ, a line for each method."""
    rows = (LOCAL, PACE, DUO, RIDGE, SUMS)
    found = {row: beyond.settings(store, seeds, row, beyond.ELSEWHERE) for row in rows}
    return [
        [
            each.name,
            row.label,
            f"{each.accuracy:.2f}",
            f"{each.over_local:+.2f}",
            *_against_pace(each)[1:],
            "-" if each.roc_auc is None else f"{each.roc_auc:.2f}",
            f"{each.harmed} of {each.clients * len(each.ours)}",
            f"{each.worst:+.2f}",
            f"{100 * each.upload:.1f} %",
            f"{100 * each.returned:.1f} %",
        ]
        for name in (setting.name for setting in found[LOCAL])
        for row in rows
        for each in found[row]
        if each.name == name
    ]


def _against_pace(found: beyond.Setting) -> list[str]:
    low, high = found.interval
    spread = f"{low:+.2f} to {high:+.2f}" if len(found.ours) > 1 else "one seed"
    return [f"{found.accuracy:.2f}", f"{found.over_pace:+.2f}", spread]


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


def tidy(store: Store, seeds: Sequence[int]) -> list[TidyRow]:
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


def ridge_markdown(store: Store, seeds: Sequence[int]) -> str:
    """The closed form's tables and aims."""
    redrawn = method_rows(store, seeds, [PARTS["beyond-masks"]])
    return _sections(
        {
            "What the closed form set out to do": (
                AIM_HEADS,
                judged(beyond_aims.regression_aims(store, seeds)),
            ),
            "Which one to take": (
                LINE_HEADS,
                list(map(line_row, beyond.methods(store, seeds))),
            ),
            "The closed form, setting by setting": (METHOD_HEADS, method_rows(store, seeds)),
            "The closed form with ten redrawn masks": (METHOD_HEADS, redrawn),
            "Seven countries, and graphs whose neighbours differ": (
                ELSEWHERE_HEADS,
                elsewhere_rows(store, seeds),
            ),
            "What each choice is worth": (
                LINE_HEADS,
                list(map(line_row, beyond.choices(store, seeds))),
            ),
        }
    )


def judged(aims: Iterable[beyond_aims.Aim]) -> list[list[str]]:
    word = {True: "reached", False: "**not reached**"}
    return [[aim.statement, word[aim.holds], aim.evidence] for aim in aims]


def markdown(store: Store, seeds: Sequence[int]) -> str:
    """pace-duo's three tables and its aims."""
    first = judged(beyond_aims.aims(store, seeds))
    tables = {
        "What it set out to do": (AIM_HEADS, first),
        "Setting by setting": (SETTING_HEADS, setting_rows(store, seeds)),
        "Part by part": (LINE_HEADS, list(map(line_row, beyond.steps(store, seeds)))),
        "The guard by its level": (
            ("Level", *LINE_HEADS[1:]),
            list(map(line_row, beyond.levels(store, seeds))),
        ),
    }
    return _sections(tables)


def _sections(tables: Mapping[str, tuple[Sequence[str], list[list[str]]]]) -> str:
    return "\n".join(
        f"## {name}\n\n{_table(heads, rows)}\n" for name, (heads, rows) in tables.items() if rows
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
