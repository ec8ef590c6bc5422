"""pace-duo on the study's page: aims, settings, parts and levels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pace.reports.page import Column, Finding, Findings, Section, Table, Text, Value
from pace.study import beyond, beyond_tables
from pace.study.folder import Study


def sections(study: Study) -> Iterable[Section]:
    """Nothing where it was not run."""
    store, seeds = study.store, study.seeds
    judged = beyond.aims(store, seeds)
    if not judged:
        return
    about = Text(
        "pace-duo is not in the paper: a second correction from the receiver's peers, a gate with a "
        "temperature, a guard, and numbers in int8. Harmed receivers are counted on every seed; the "
        "worst receiver is a mean over seeds; bytes are against PACE's in float32."
    )
    findings = Findings(
        tuple(
            Finding(aim.statement, "holds" if aim.holds else "fails", aim.evidence)
            for aim in judged
        )
    )
    every = _table(
        "Setting by setting", beyond_tables.SETTING_HEADS, beyond_tables.setting_rows(store, seeds)
    )
    yield Section("Beyond the paper", (about, findings, every, *_lines(study)))


def _lines(study: Study) -> Iterable[Table]:
    store, seeds = study.store, study.seeds
    for caption, head, found in (
        ("Part by part, over all settings", "", beyond.steps(store, seeds)),
        ("The guard by its level, over all settings", "Level", beyond.levels(store, seeds)),
    ):
        if found:
            yield _table(
                caption, (head, *beyond_tables.LINE_HEADS[1:]), map(beyond_tables.line_row, found)
            )


def _table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    columns = tuple(Column(head, numeric=place > 0) for place, head in enumerate(heads))
    return Table(
        caption,
        columns,
        tuple(tuple(Value(text, _sort(text)) for text in row) for row in rows),
    )


def _sort(text: str) -> float | str:
    """By the number a cell begins with, if it does."""
    try:
        return float(text.split()[0])
    except ValueError:
        return text
