"""`pace reproduce`: the paper's study."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from pace.cli.given import (
    As_json,
    Data_root,
    Device,
    Epochs,
    Seeds,
    lists,
    words,
)
from pace.registry import DATASETS, METHODS

PARTS = (
    "main", "c20", "c30", "macro-f1", "ablation", "resolver", "fairness", "rank", "communication",
    "metis", "dirichlet", "diagnostics", "beyond", "beyond-metis", "beyond-dirichlet",
    "beyond-masks", "beyond-heterophilous", "beyond-twitch", "models", "models-masks",
    "models-heterophilous", "models-twitch", "masks", "masks-ablation", "masks-c20", "masks-c30", "all",
)  # fmt: skip

EXAMPLES = """
Examples:

  pace reproduce main --datasets cora,citeseer --seeds 2 --out results/

  pace reproduce all --jobs 2 --out results/

  pace reproduce masks --datasets cora --out results/

  pace reproduce models --jobs 16 --out results/
"""


def reproduce(
    parts: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"Parts of the study (main if none is named): {', '.join(PARTS)}.",
            autocompletion=words(*PARTS),
        ),
    ] = None,
    datasets: Annotated[
        str | None,
        typer.Option(
            help="Only these datasets, separated by commas.",
            metavar="NAMES",
            autocompletion=lists(*DATASETS),
        ),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Only these methods, separated by commas.",
            metavar="NAMES",
            autocompletion=lists(*METHODS.groups, *METHODS),
        ),
    ] = None,
    seeds: Seeds = "5",
    epochs: Epochs = None,
    jobs: Annotated[int, typer.Option(help="Processes that compute cells.", metavar="N")] = 1,
    device: Device = "auto",
    data_root: Data_root = None,
    out: Annotated[
        Path,
        typer.Option(
            help="Folder of cells, tables and figures; a second run adds to it.", metavar="FOLDER"
        ),
    ] = Path("results"),
    as_json: As_json = False,
) -> None:
    """Compute the study's missing cells, then its tables and figures beside the published numbers."""
    from pace.cli import console, options
    from pace.errors import SettingError
    from pace_study import folder, outcome, page, run, study
    from pace_study.cell import Store

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
    cells = list(dict.fromkeys(cell for part in wanted for cell in part.cells(chosen_seeds)))
    if not cells:
        raise SettingError("--datasets and --methods leave nothing of the study to run")
    lacking = run.missing(cells, store, how)
    todo, absent = run.available(lacking, how)
    if not todo and len(lacking) == len(cells):
        reasons = "".join(f"\n  {name}: {reason}" for name, reason in absent.items())
        raise SettingError(f"nothing of this can be run:{reasons}")
    store.fold()  # what an interrupted run left
    with console.progress(len(todo), "Starting") as bar:
        run.compute(
            todo,
            store,
            how,
            jobs=jobs,
            done=lambda cell: bar(f"{cell.dataset} C={cell.clients} {cell.method}"),
        )
    store.fold()
    written = outcome.write(wanted, store, chosen_seeds, out, absent)
    written.append(folder.note_command(out, shlex.join(["pace", *sys.argv[1:]])))
    page_path = page.write(out)
    written.append(page_path)
    if as_json:
        found = {
            "computed": len(todo),
            "reused": sum(store.has(cell, epochs) for cell in cells) - len(todo),
            "absent": absent,
            "written": [str(path) for path in written],
        }
        console.one_object(found)
        return
    outcome.show(wanted, store, chosen_seeds, console.console())
    for name, reason in absent.items():
        console.say(f"Not run: {name}: {reason}", err=True)
    console.say(
        f"Written: {page_path} and {len(written) - 1} files of tables and figures beside it"
    )
