"""Tables in the paper's layout, made of records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pace_study.records import CITATION_MEAN, Record, title
from pace_study.study import Part

METRIC = {
    "accuracy": "Accuracy",
    "weighted_f1": "W-F1",
    "macro_f1": "Macro-F1",
    "mean_alpha": "Mean α",
    "alpha_zero_percent": "α = 0 (%)",
    "upload_percent": "Upload (%)",
    "downlink_percent": "Downlink (%)",
}
DIGITS = {"mean_alpha": 3, "alpha_zero_percent": 1}  # two, where nothing is said
RANKED = ("accuracy", "weighted_f1", "macro_f1")  # metrics whose best is marked

Find = Callable[[str, str, str, int], Record | None]  # dataset, row, metric, clients


@dataclass(frozen=True)
class Grid:
    """A table to be set: heads in two rows, then a label and its records in each row."""

    title: str
    heads: tuple[tuple[str, str], ...]  # dataset and metric above each column
    rows: tuple[tuple[str, tuple[Record | None, ...]], ...]


def grids(part: Part, records: Sequence[Record]) -> list[Grid]:
    """The tables of a part, as the paper lays them out."""
    known = {(r.dataset, r.method, r.metric, r.clients): r for r in records}

    def find(dataset: str, row: str, metric: str, clients: int) -> Record | None:
        return known.get((dataset, row, metric, clients))

    if part.name == "communication":
        return [_by_dataset(part, find)]
    if part.name == "resolver":
        return [_by_setting(part, find)]
    return [_by_method(part, find, clients) for clients in part.clients]


def _by_method(part: Part, find: Find, clients: int) -> Grid:
    """Methods down, datasets across; the rank table has its bytes on the right."""
    columns = [(title(name), metric) for name in part.datasets for metric in part.metrics]
    if part.name == "rank":
        columns += [(CITATION_MEAN, metric) for metric in ("upload_percent", "downlink_percent")]
    rows = tuple(
        (row.label, tuple(find(dataset, row.label, metric, clients) for dataset, metric in columns))
        for row in part.rows
    )
    several = f", C = {clients}" if len(part.clients) > 1 else ""
    heads = tuple(("mean" if name == CITATION_MEAN else name, METRIC[m]) for name, m in columns)
    return Grid(part.title + several, heads, rows)


def _by_dataset(part: Part, find: Find) -> Grid:
    """Datasets down, metrics across, of the one row there is."""
    (row,) = part.rows
    rows = tuple(
        (
            title(name),
            tuple(find(title(name), row.label, metric, part.clients[0]) for metric in part.metrics),
        )
        for name in part.datasets
    )
    return Grid(part.title, tuple(("", METRIC[metric]) for metric in part.metrics), rows)


def _by_setting(part: Part, find: Find) -> Grid:
    """Datasets and client counts down, rows and metrics across."""
    columns = [(row.label, metric) for row in part.rows for metric in part.metrics]
    rows = tuple(
        (
            f"{title(name)}, C = {clients}",
            tuple(find(title(name), label, metric, clients) for label, metric in columns),
        )
        for name in part.datasets
        for clients in part.clients
    )
    return Grid(part.title, tuple((label, METRIC[metric]) for label, metric in columns), rows)


def shown(record: Record, sign: str = "±") -> str:
    """`80.34 ± 0.61` with the digits the paper prints."""
    digits = DIGITS.get(record.metric, 2)
    mean = f"{record.mean:.{digits}f}"
    if record.std is None or record.metric not in RANKED:
        return mean
    return f"{mean} {sign} {record.std:.{digits}f}"


def places(grid: Grid) -> list[list[int]]:
    """1 for the best and 2 for the second-best distinct displayed mean of a column, else 0.

    Only columns of scores are ranked, and only where more than one row stands there.
    """
    marks = [[0] * len(grid.heads) for _ in grid.rows]
    if len(grid.rows) < 2:
        return marks
    for column in range(len(grid.heads)):
        found = [records[column] for _, records in grid.rows]
        means = {f"{r.mean:.2f}" for r in found if r is not None and r.metric in RANKED}
        order = sorted(means, key=float, reverse=True)[:2]
        for line, record in enumerate(found):
            if record is not None and f"{record.mean:.2f}" in order and record.metric in RANKED:
                marks[line][column] = 1 + order.index(f"{record.mean:.2f}")
    return marks
