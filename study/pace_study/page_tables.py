"""The study's tables for its page: ours in the paper's layout, and beside the paper's numbers."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pace.reports import Column, Table, Value
from pace_study.compare import Twin
from pace_study.draws import Redrawn
from pace_study.formats import mark, over_draws
from pace_study.records import Record
from pace_study.study import Part
from pace_study.tables import DIGITS, METRIC, RANKED, Grid, grids, places, shown

NOT_RUN = Value("not run", mark="absent")
FIRST = {"communication": "Dataset", "resolver": "Setting"}  # what the rows are; methods elsewhere
MARKS = ("", "best", "second")


def filled(part: Part, records: Sequence[Record]) -> Part:
    """The part with only those rows and client counts that anything was run of."""
    labels = {record.method for record in records}
    counts = {record.clients for record in records}
    return replace(
        part,
        rows=tuple(row for row in part.rows if row.label in labels),
        clients=tuple(count for count in part.clients if count in counts),
    )


def ours(part: Part, records: Sequence[Record], note: str) -> list[Table]:
    """What was measured here; best and second marked."""
    return [
        _table(
            part,
            grid,
            f"{grid.title}: measured here",
            [
                [
                    NOT_RUN if record is None else Value(shown(record), record.mean, MARKS[mark])
                    for record, mark in zip(found, marks, strict=True)
                ]
                for (_, found), marks in zip(grid.rows, places(grid), strict=True)
            ],
            note,
        )
        for grid in grids(part, records)
    ]


def beside(part: Part, records: Sequence[Record], twins: Iterable[Twin]) -> list[Table]:
    """Ours above; below it the paper's, the difference, and what a draw of the masks explains."""
    known = {twin.ours.key: twin for twin in twins}
    note = (
        "Ours, and below it the paper's number and the difference; a column sorts by difference. In "
        "square brackets: where one more draw of the masks falls with 95 %. ✓ or ✗: two draws and two "
        "sets of seeds explain the difference or not; with the mark in brackets, by the draws of ten "
        "Louvain clients; no mark: not measured."
    )
    return [
        _table(
            part,
            grid,
            f"{grid.title}: beside the paper",
            [
                [NOT_RUN if record is None else _pair(known[record.key]) for record in found]
                for _, found in grid.rows
            ],
            note,
        )
        for grid in grids(part, records)
    ]


def _table(
    part: Part, grid: Grid, caption: str, values: Sequence[Sequence[Value]], note: str
) -> Table:
    first = Column(FIRST.get(part.name, "Method"), numeric=False)
    columns = (first, *(Column(metric, group) for group, metric in grid.heads))
    rows = tuple(
        (Value(label, label), *line) for (label, _), line in zip(grid.rows, values, strict=True)
    )
    return Table(caption, columns, rows, note)


def _pair(twin: Twin) -> Value:
    digits = DIGITS.get(twin.ours.metric, 2)
    mine = f"{twin.ours.mean:.{digits}f}"
    if twin.paper is None or twin.difference is None:
        return Value(mine, below="not in the paper")
    tone = {True: "good", False: "bad", None: ""}[twin.within]
    below = f"{twin.paper.mean:.{digits}f}  {signed(twin.difference, digits)}{mark(twin)}"
    return Value(mine + over_draws(twin), twin.difference, below=below, tone=tone)


def agreement(by_part: Mapping[str, Sequence[Twin]]) -> Table:
    """For each part, how far its scores are from the published ones."""
    rows = []
    for title, twins in by_part.items():
        scores = [t for t in twins if t.difference is not None and t.ours.metric in RANKED]
        if not scores:
            continue
        sizes = [abs(twin.difference or 0) for twin in scores]
        farthest = max(scores, key=lambda twin: abs(twin.difference or 0))
        judged = [twin.within for twin in scores if twin.within is not None]
        place = f"{farthest.ours.method}, {farthest.ours.dataset}"
        rows.append(
            (
                Value(title, title),
                Value(str(len(scores)), len(scores)),
                Value(f"{statistics.median(sizes):.2f}", statistics.median(sizes)),
                Value(signed(farthest.difference or 0), max(sizes), below=place),
                Value(f"{sum(judged)} of {len(judged)}", sum(judged) / len(judged))
                if judged
                else Value("not measured", mark="absent"),
            )
        )
    heads = ("Numbers", "Median |difference|", "Farthest", "Explained by the draw")
    return Table(
        "Our scores against the published ones, in points",
        (Column("Part", numeric=False), *map(Column, heads)),
        tuple(rows),
    )


def mask_table(redrawn: Redrawn) -> Table:
    """How far a draw of the masks alone moves each score: mean over redraws ± standard deviation."""
    metrics = [name for name in RANKED if any(key[2] == name for key in redrawn)]
    rows = []
    for dataset, label, partition, clients in dict.fromkeys(
        (dataset, label, partition, clients) for dataset, label, _, partition, clients in redrawn
    ):
        found = [redrawn.get((dataset, label, name, partition, clients)) for name in metrics]
        setting = f"{partition}, C = {clients}"
        rows.append(
            (
                Value(dataset, dataset),
                Value(setting, setting),
                Value(label, label),
                *(Value(f"{d.mean:.2f} ± {d.std:.2f}", d.std) if d else NOT_RUN for d in found),
            )
        )
    words = tuple(Column(name, numeric=False) for name in ("Dataset", "Clients", "Method"))
    return Table(
        "Mean ± standard deviation over redraws of the masks; sorts by the latter",
        (*words, *(Column(METRIC[metric]) for metric in metrics)),
        tuple(rows),
    )


def signed(value: float, digits: int = 2) -> str:
    """With its sign; what rounds to zero is +0, not -0."""
    return f"{round(value, digits) + 0.0:+.{digits}f}"
