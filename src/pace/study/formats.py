"""Tables as text: Markdown and LaTeX in the paper's layout, CSV and Parquet as tidy records."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pace.io import atomic
from pace.study.compare import Twin
from pace.study.tables import DIGITS, Grid, places, shown

ABSENT = "not run"


def markdown(grid: Grid) -> str:
    """Best bold, second underlined."""
    heads = ["", *(f"{name} {metric}".strip() for name, metric in grid.heads)]
    lines = [heads, ["---"] * len(heads)]
    for (label, records), marks in zip(grid.rows, places(grid), strict=True):
        cells = [ABSENT if record is None else shown(record) for record in records]
        marked = [
            ("{}", "**{}**", "<u>{}</u>")[m].format(c) for c, m in zip(cells, marks, strict=True)
        ]
        lines.append([label, *marked])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def markdown_twins(grid: Grid, twins: Sequence[Twin]) -> str:
    """Ours, the paper's in brackets, the difference; ✓ or ✗ where the mask spread is known."""
    known = {twin.ours.key: twin for twin in twins}
    heads = ["", *(f"{name} {metric}".strip() for name, metric in grid.heads)]
    lines = [heads, ["---"] * len(heads)]
    for label, records in grid.rows:
        lines.append([label, *(_beside(known[r.key]) if r else ABSENT for r in records)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _beside(twin: Twin) -> str:
    digits = DIGITS.get(twin.ours.metric, 2)
    ours = f"{twin.ours.mean:.{digits}f}"
    if twin.paper is None or twin.difference is None:
        return ours
    mark = {True: " ✓", False: " ✗", None: ""}[twin.within]
    return f"{ours} ({twin.paper.mean:.{digits}f}) {twin.difference:+.{digits}f}{mark}"


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


def tidy(twins: Sequence[Twin]) -> list[dict[str, Any]]:
    """One row a number, ours and the paper's."""
    return [
        asdict(twin.ours)
        | {
            "published_mean": twin.paper.mean if twin.paper else None,
            "published_std": twin.paper.std if twin.paper else None,
            "difference": twin.difference,
            "mask_spread": twin.spread,
            "within_mask_spread": twin.within,
        }
        for twin in twins
    ]


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    atomic.write(path, text.getvalue().encode())


def write_parquet(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    import pyarrow
    import pyarrow.parquet

    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), buffer)
    atomic.write(path, buffer.getvalue())
