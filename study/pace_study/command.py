"""`pace reproduce`: the paper's study."""

import shlex
import sys
import tomllib
from pathlib import Path
from typing import Annotated

from pace.cli import given
from pace.cli.given import argument, one_of, option
from pace.registry import DATASETS, METHODS
from pace_study import content

STUDY = tomllib.loads(content("study.toml"))  # `study.PARTS` would load torch to complete a name
PARTS = (*STUDY["paper"], *STUDY["own"], "all")

SOME = "Parts of the study (main if none is named)"
Parts = Annotated[
    list[str] | None, argument(f"{SOME}: {', '.join(PARTS)}.", autocompletion=one_of(*PARTS))
]
Datasets = Annotated[
    str | None,
    option(
        "Only these datasets, separated by commas.",
        "NAMES",
        autocompletion=one_of(*DATASETS),
        callback=DATASETS.allow,
    ),
]
Methods = Annotated[
    str | None,
    option(
        "Only these methods, separated by commas.",
        "NAMES",
        autocompletion=one_of(*METHODS.groups, *METHODS),
    ),
]
Clients = Annotated[int | None, option("Number of clients, instead of the parts' own.", "N")]
Draws = Annotated[
    str | None, option("Data seeds that masks are drawn by, instead of the parts' own.", "NUMBERS")
]
Jobs = Annotated[int, option("Processes that compute cells.", "N", min=1)]
Out = Annotated[
    Path, option("Folder of cells, tables and figures; a second run adds to it.", "FOLDER")
]
Stored = Annotated[
    bool, option("Compute nothing: only of the folder's cells, of every part.", "", "--stored")
]


def reproduce(
    parts: Parts = None,
    datasets: Datasets = None,
    methods: Methods = None,
    partition: given.Partition = None,
    clients: Clients = None,
    draws: Draws = None,
    seeds: given.Seeds = "5",
    epochs: given.Epochs = None,
    jobs: Jobs = 1,
    device: given.Device = "auto",
    data_root: given.Data_root = None,
    out: Out = Path("results"),
    stored: Stored = False,
    as_json: given.As_json = False,
) -> None:
    """Compute the study's missing cells, then its tables and figures beside the published numbers.

    pace reproduce main --datasets cora,citeseer --seeds 2 --out results/
    pace reproduce all --jobs 2 --out results/
    pace reproduce masks --datasets cora --out results/
    pace reproduce models --jobs 16 --out results/
    pace reproduce field --datasets cora --out results/
    pace reproduce field --partition metis --clients 5 --datasets cora,my.graph --out results/
    pace reproduce --stored --out results/
    """
    from pace.errors import ProblemsError
    from pace.io import terminal as console
    from pace_study import run
    from pace_study.cell import Cell, Store
    from pace_study.controls import CONTROLS
    from pace_study.folder import Study, note_command
    from pace_study.outcome import Outcome
    from pace_study.page import write_study_page
    from pace_study.rounds import ROUNDS
    from pace_study.study import moved, narrowed

    chosen_seeds = given.seeds(seeds)
    listed, ours = given.words(methods), {*CONTROLS, *ROUNDS}
    others = ",".join(name for name in listed if name not in ours)
    named = [name for name in listed if name in ours] + given.method_names(others)
    study = Study(out) if stored else None
    names = [*study.datasets, *study.absent] if study else None
    stored_parts = [part.name for part in study.parts] if study else ["main"]
    asked = moved(parts or stored_parts, partition, clients, given.words(draws))
    datasets_asked = given.words(datasets) if datasets else names
    computed = narrowed(asked, datasets_asked, named if methods else None)
    how, store = run.How(given.device(device), epochs), Store(out / "cells")
    if study:
        chosen_seeds = [seed for seed in chosen_seeds if seed in {c.seed for c in study.cells}]
        absent = dict.fromkeys(study.absent, "no data")
        todo, reused, store = list[Cell](), len(study.cells), study.store
    else:
        todo, reused, absent = run.plan(computed, chosen_seeds, store, how)
    with console.progress(len(todo), "Starting") as bar:
        undivided = run.compute(
            *(todo, store, how),
            jobs=jobs,
            done=lambda cell: bar(f"{cell.dataset} C={cell.clients} {cell.method}"),
        )
    reasons, count = absent | undivided, sum(cell in store.rows for cell in todo)
    if not count and not reused:
        raise ProblemsError("nothing of this can be run:", [*map(": ".join, reasons.items())])
    outcome = Outcome(computed, store, chosen_seeds)
    if not stored:
        outcome.add_membership()
        note_command(out, shlex.join(["pace", *sys.argv[1:]]))
    written = [*outcome.write(out, absent), write_study_page(out, outcome.paper_seeds)]
    if as_json:
        counts = {"computed": count, "reused": reused, "absent": reasons}
        console.answer({**counts, "written": written}, as_json=True)
        return
    outcome.show(console.console())
    for name, reason in reasons.items():
        console.say(f"Not run: {name}: {reason}", err=True)
    files = f"{len(written) - 1} files of tables and figures"
    console.say(f"Written: {written[-1]} and {files} beside it")
