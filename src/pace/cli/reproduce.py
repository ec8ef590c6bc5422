"""`pace reproduce`: the paper's study."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

EXAMPLES = """
Examples:

  pace reproduce main --datasets cora,citeseer --seeds 2 --out results/

  pace reproduce all --jobs 2 --out results/

  pace reproduce masks --datasets cora --out results/
"""


def reproduce(
    parts: Annotated[
        list[str] | None,
        typer.Argument(
            help="Parts of the study: main, c20, c30, macro-f1, ablation, resolver, fairness, rank, "
            "communication, metis, dirichlet, diagnostics, masks, or all."
        ),
    ] = None,
    datasets: Annotated[
        str | None, typer.Option(help="Only these datasets, separated by commas.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Only these methods, separated by commas.")
    ] = None,
    seeds: Annotated[
        str, typer.Option(help="How many of the paper's five seeds, or a list of your own.")
    ] = "5",
    epochs: Annotated[
        int | None, typer.Option(help="Training steps; each method's own budget if not given.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Processes that compute cells.")] = 1,
    device: Annotated[str, typer.Option(help="Where clients train: auto, cpu or cuda.")] = "auto",
    data_root: Annotated[
        Path | None, typer.Option(help="Folder of the benchmarks (default: $PACE_DATA).")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder of cells, tables and figures; a second run adds to it.")
    ] = Path("results"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compute the study's missing cells, then its tables and figures beside the published numbers."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    from pace.cli import options
    from pace.reproduce import folder, outcome, page, run, study
    from pace.reproduce.cell import Store

    options.need("pace reproduce", "report", "matplotlib", "pyarrow")  # before the hours, not after
    chosen_seeds = options.seeds(seeds)
    wanted = study.narrowed(
        study.chosen(parts or ["main"]),
        options.words(datasets),
        options.method_names(methods),
    )
    if any(part.partition == "metis" for part in wanted):
        options.need("the partition metis", "metis", "pymetis")
    options.at_least_one("--jobs", jobs)
    how = run.How(data_root, options.device(device), epochs)
    store = Store(out / "cells")
    cells = [cell for part in wanted for cell in part.cells(chosen_seeds)]
    todo, absent = run.available(run.missing(cells, store, how), how)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("cells,"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("starting", total=len(todo))
        run.compute(
            todo,
            store,
            how,
            jobs=jobs,
            done=lambda cell: bar.update(
                task,
                advance=1,
                description=f"{cell.dataset} C={cell.clients} {cell.method}",
            ),
        )
    written = outcome.write(wanted, store, chosen_seeds, out, absent)
    written.append(folder.note_command(out, shlex.join(["pace", *sys.argv[1:]])))
    page_path = page.write(out)
    written.append(page_path)
    if as_json:
        found: dict[str, Any] = {
            "computed": len(todo),
            "reused": sum(store.has(cell, epochs) for cell in dict.fromkeys(cells)) - len(todo),
            "absent": absent,
            "written": [str(path) for path in written],
        }
        json.dump(found, sys.stdout)
        print()
        return
    outcome.show(wanted, store, chosen_seeds, Console())
    for name, reason in absent.items():
        print(f"Not run: {name}: {reason}", file=sys.stderr)
    print(f"Written: {page_path} and {len(written) - 1} files of tables and figures beside it")
