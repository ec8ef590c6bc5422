"""What is beyond the paper on the study's page: aims, settings, parts and levels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pace.reports import Column, Finding, Findings, Section, Table, Text, Value
from pace_study import beyond, beyond_aims, beyond_tables
from pace_study.beyond_tables import LINE_HEADS as LINES
from pace_study.beyond_tables import line_row
from pace_study.folder import Study


def sections(study: Study) -> Iterable[Section]:
    """Nothing where it was not run."""
    store, seeds = study.store, study.seeds
    judged = beyond_aims.aims(store, seeds)
    if not judged:
        return
    about = Text(
        "pace-duo is not in the paper: a second correction from the receiver's peers, a gate with a "
        "temperature, a guard, and numbers in int8. Harmed receivers are counted on every seed; the "
        "worst receiver is a mean over seeds; bytes are against PACE's in float32."
    )
    findings = _findings(judged)
    every = _table(
        "Setting by setting", beyond_tables.SETTING_HEADS, beyond_tables.setting_rows(store, seeds)
    )
    yield Section("Beyond the paper", (about, findings, every, *_lines(study)))
    if judged := beyond_aims.regression_aims(store, seeds):
        yield Section("A closed form beside Local", tuple(_closed_form(study, judged)))


def _findings(judged: Iterable[beyond_aims.Aim]) -> Findings:
    words = {True: "holds", False: "fails"}
    return Findings(tuple(Finding(aim.statement, words[aim.holds], aim.evidence) for aim in judged))


def _closed_form(
    study: Study, judged: Sequence[beyond_aims.Aim]
) -> Iterable[Text | Findings | Table]:
    store, seeds = study.store, study.seeds
    yield Text(
        "pace-ridge and pace-ridge-sums are not in the paper: a ridge regression over everybody's "
        "training nodes, solved by the server, weighed beside Local on the receiver's validation "
        "nodes. The second needs sums over clients only."
    )
    yield _findings(judged)
    yield _table("Which one to take", LINES, map(line_row, beyond.methods(store, seeds)))
    rows = beyond_tables.method_rows(store, seeds)
    yield _table("The closed form, setting by setting", beyond_tables.METHOD_HEADS, rows)
    if rows := beyond_tables.elsewhere_rows(store, seeds):
        caption = "Seven countries, and graphs whose neighbours differ"
        yield _table(caption, beyond_tables.ELSEWHERE_HEADS, rows)
    yield _table("What each choice is worth", LINES, map(line_row, beyond.choices(store, seeds)))


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
