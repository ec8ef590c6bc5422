"""Tables as text: Markdown and LaTeX in the paper's layout, CSV and Parquet as tidy records."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pace.io import atomic
from pace_study.compare import Twin
from pace_study.tables import DIGITS, Grid, places, shown

ABSENT = "not run"
TidyRow = dict[str, str | float | bool | None]  # column -> value, in the order of the columns


def markdown(grid: Grid, twins: Sequence[Twin] = ()) -> str:
    """Best bold, second underlined; after a number where one more draw of the masks would fall."""
    known = {twin.ours.key: twin for twin in twins}
    heads = ["", *(f"{name} {metric}".strip() for name, metric in grid.heads)]
    lines = [heads, ["---"] * len(heads)]
    for (label, records), marks in zip(grid.rows, places(grid), strict=True):
        cells = []
        for record, mark in zip(records, marks, strict=True):
            text = ABSENT if record is None else shown(record)
            text = ("{}", "**{}**", "<u>{}</u>")[mark].format(text)
            cells.append(text + (over_draws(known.get(record.key)) if record else ""))
        lines.append([label, *cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def markdown_twins(grid: Grid, twins: Sequence[Twin]) -> str:
    """Ours with both intervals, the paper's in brackets, the difference; ✓ or ✗ by the draws."""
    known = {twin.ours.key: twin for twin in twins}
    heads = ["", *(f"{name} {metric}".strip() for name, metric in grid.heads)]
    lines = [heads, ["---"] * len(heads)]
    for label, records in grid.rows:
        lines.append([label, *(_beside(known[r.key]) if r else ABSENT for r in records)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _beside(twin: Twin) -> str:
    digits = DIGITS.get(twin.ours.metric, 2)
    ours = shown(twin.ours) + over_draws(twin)
    if twin.paper is None or twin.difference is None:
        return ours
    return f"{ours} ({shown(twin.paper)}) {twin.difference:+.{digits}f}{mark(twin)}"


def over_draws(twin: Twin | None) -> str:
    """` [79.31, 80.92]`: where one more draw of the masks falls with 95 %."""
    if twin is None or twin.draws is None or twin.borrowed:
        return ""
    digits = DIGITS.get(twin.ours.metric, 2)
    low, high = twin.draws.interval
    return f" [{low:.{digits}f}, {high:.{digits}f}]"


def mark(twin: Twin) -> str:
    """Whether the draws explain the difference; in brackets where they are borrowed."""
    text = {True: "✓", False: "✗", None: ""}[twin.within]
    return f" ({text})" if text and twin.borrowed else f" {text}".rstrip()


def latex(grid: Grid) -> str:
    """A booktabs table."""
    columns = "l" + "c" * len(grid.heads)
    top = " & ".join(["", *(_tex(name) for name, _ in grid.heads)])
    below = " & ".join(["", *(_tex(metric) for _, metric in grid.heads)])
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", top + r" \\", below + r" \\"]
    lines.append(r"\midrule")
    for (label, records), marks in zip(grid.rows, places(grid), strict=True):
        cells = [
            "--" if record is None else shown(record, r"$\pm$").replace(" ", "")
            for record in records
        ]
        styles = ("{}", r"\textbf{{{}}}", r"\underline{{{}}}")
        marked = [styles[mark].format(cell) for cell, mark in zip(cells, marks, strict=True)]
        lines.append(" & ".join([_tex(label), *marked]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _tex(text: str) -> str:
    for plain, escaped in (
        ("%", r"\%"),
        ("α", r"$\alpha$"),
        ("_", r"\_"),
        ("alpha=", r"$\alpha$="),
    ):
        text = text.replace(plain, escaped)
    return text


def tidy(twins: Sequence[Twin]) -> list[TidyRow]:
    """One row a number, ours and the paper's."""
    return [
        asdict(twin.ours)
        | {
            "published_mean": twin.paper.mean if twin.paper else None,
            "published_std": twin.paper.std if twin.paper else None,
            "difference": twin.difference,
            "draws": len(twin.draws.values) if twin.draws and not twin.borrowed else 0,
            "draws_mean": twin.draws.mean if twin.draws and not twin.borrowed else None,
            "draws_low": twin.draws.interval[0] if twin.draws and not twin.borrowed else None,
            "draws_high": twin.draws.interval[1] if twin.draws and not twin.borrowed else None,
            "within_draws": twin.within,
        }
        for twin in twins
    ]


def write_csv(path: Path, rows: Sequence[TidyRow]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    atomic.write(path, text.getvalue().encode())


def write_parquet(path: Path, rows: Sequence[TidyRow]) -> None:
    import pyarrow
    import pyarrow.parquet

    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), buffer)
    atomic.write(path, buffer.getvalue())
