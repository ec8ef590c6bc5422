"""What the stored cells amount to: tables, their twins, figures and claims, as files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pace.io import atomic
from pace_study import beyond, beyond_aims, beyond_tables, formats, models
from pace_study.cell import Store
from pace_study.claims import claims
from pace_study.compare import Twin, twins
from pace_study.draws import known_draws
from pace_study.records import measured
from pace_study.study import MODEL_PARTS, Part
from pace_study.summaries import claims_table, fairness_summary, unexplained
from pace_study.tables import grids, places, shown

if TYPE_CHECKING:
    from rich.console import Console


def write(
    parts: Sequence[Part],
    store: Store,
    seeds: Sequence[int],
    out: Path,
    absent: Iterable[str],
) -> list[Path]:
    """Write `tables/` and `figures/`; the paths written."""
    written: list[Path] = []
    redrawn = known_draws(store, seeds)

    def put(path: Path, text: str) -> None:
        atomic.write(path, text.encode())
        written.append(path)

    compared: dict[Part, list[Twin]] = {}
    for part in parts:
        records = measured(part, store, seeds)
        if not records or not part.table:
            continue
        beside = compared[part] = twins(records, redrawn)
        made = grids(part, records)
        stem = out / "tables" / part.name
        titled = [(f"## {grid.title}", grid) for grid in made]
        put(
            stem.with_suffix(".md"),
            "\n\n".join(f"{head}\n\n{formats.markdown(grid, beside)}" for head, grid in titled)
            + "\n",
        )
        put(
            out / "tables" / f"{part.name}-beside-paper.md",
            "\n\n".join(
                f"{head}\n\n{formats.markdown_twins(grid, beside)}" for head, grid in titled
            )
            + "\n",
        )
        put(stem.with_suffix(".tex"), "\n\n".join(map(formats.latex, made)) + "\n")
        rows = formats.tidy(beside)
        formats.write_csv(stem.with_suffix(".csv"), rows)
        formats.write_parquet(stem.with_suffix(".parquet"), rows)
        written += [stem.with_suffix(".csv"), stem.with_suffix(".parquet")]
        if part.name == "fairness":
            put(stem.with_name("fairness-summary.md"), fairness_summary(records) + "\n")
    if _ours(parts) and beyond.settings(store, seeds):
        put(out / "tables" / "beyond.md", beyond_tables.markdown(store, seeds))
        if beyond.methods(store, seeds):
            put(out / "tables" / "ridge.md", beyond_tables.ridge_markdown(store, seeds))
        rows = beyond_tables.tidy(store, seeds)
        formats.write_csv(out / "tables" / "beyond.csv", rows)
        formats.write_parquet(out / "tables" / "beyond.parquet", rows)
        written += [out / "tables" / f"beyond.{kind}" for kind in ("csv", "parquet")]
    if any(part.name in MODEL_PARTS for part in parts):
        put(out / "tables" / "models.md", models.markdown(store, seeds))
        if rows := models.tidy(store, seeds):
            formats.write_csv(out / "tables" / "models.csv", rows)
            written.append(out / "tables" / "models.csv")
    if compared:
        put(out / "tables" / "unexplained.md", unexplained(compared) + "\n")
    judged = claims(store, seeds)
    put(out / "claims.json", json.dumps([asdict(claim) for claim in judged], indent=1) + "\n")
    put(out / "claims.md", claims_table(judged) + "\n")
    put(out / "absent.json", json.dumps(_absent(out / "absent.json", absent, parts)) + "\n")
    from pace_study.figures import draw

    for name in draw(parts, store, seeds, out / "figures"):
        written += [out / "figures" / f"{name}.{kind}" for kind in ("png", "pdf")]
    return written


def _ours(parts: Iterable[Part]) -> bool:
    """Whether what is beyond the paper is among what was asked for."""
    return any(part.name == home.name for part in parts for home in beyond.HOMES)


def _absent(path: Path, found: Iterable[str], parts: Sequence[Part]) -> list[str]:
    """The datasets that could not be loaded, with those that an earlier run on other parts noted."""
    known = set(json.loads(path.read_text())) if path.is_file() else set()
    asked = {dataset for part in parts for dataset in part.datasets}
    return sorted(known - asked | set(found))


def show(parts: Sequence[Part], store: Store, seeds: Sequence[int], console: Console) -> None:
    """Each part's table in the terminal, a column for each dataset's first metric."""
    from pace.reports.table import Table, Value

    for part in parts:
        records = measured(part, store, seeds)
        if not records or not part.table:
            continue
        for grid in grids(part, records):
            chosen = [
                column
                for column, (_, head) in enumerate(grid.heads)
                if (head == grid.heads[0][1] or part.name in ("communication", "rank"))
                and any(cells[column] is not None for _, cells in grid.rows)
            ]
            heads = ["", *(grid.heads[column][0] or grid.heads[column][1] for column in chosen)]
            rows = []
            for (label, cells), marks in zip(grid.rows, places(grid), strict=True):
                values: list[str | Value] = [label]
                for column in chosen:
                    record = cells[column]
                    text = "not run" if record is None else shown(record).replace(" ± ", "±")
                    values.append(Value(text, mark=("", "best", "second")[marks[column]]))
                rows.append(values)
            title = f"{grid.title}: {grid.heads[0][1]}"
            Table.of(title, heads, rows, words=0).show(console)
    if any(part.name in MODEL_PARTS for part in parts):
        models.show(store, seeds, console)
    if _ours(parts) and (judged := beyond_aims.aims(store, seeds)):
        console.print("What pace-duo and the closed form set out to do")
        console.print("")
        for claim in (*judged, *beyond_aims.regression_aims(store, seeds)):
            console.print(f"{'reached' if claim.holds else 'NOT reached'}: {claim.statement}")
            console.print(f"  {claim.evidence}")
            console.print("")
        Table.of(
            "Part by part, points over all settings",
            ["", *beyond_tables.LINE_HEADS[1:6]],
            [beyond_tables.line_row(line)[:6] for line in beyond.steps(store, seeds)],
            words=0,
        ).show(console)
