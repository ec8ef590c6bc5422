"""What a study's page says of the study itself: what was run, by which commands, with what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pace.reports import Block, Code, Column, Facts, Table, Text, Value
from pace_study.cell import Cell
from pace_study.folder import Study
from pace_study.records import title
from pace_study.study import NAMES, SIX, Part

NO_DATA = "not run: data not available"


def what_was_run(study: Study) -> Iterable[Block]:
    methods = {cell.method for cell in study.cells}
    labels = [
        NAMES.get(name, {"local": "Local", "pace": "PACE"}.get(name, name)) for name in methods
    ]
    others = [name for name in SIX if name not in study.datasets and name not in study.absent]
    epochs = _distinct(how.epochs for how in study.made_with)
    pairs = [
        ("Datasets", ", ".join(map(title, study.datasets))),
        *((title(name), NO_DATA) for name in study.absent),
        *([("Not run", ", ".join(map(title, others)))] if others else []),
        ("Methods", ", ".join(sorted(labels, key=str.lower))),
        ("Seeds", ", ".join(map(str, study.seeds))),
        ("Device", _distinct(how.device for how in study.made_with)),
        ("Training steps", epochs.replace("None", "each method's own budget")),
    ]
    yield Facts(tuple(pairs))
    yield Table(
        "Parts of the study",
        (
            Column("Part", numeric=False),
            Column("Datasets", numeric=False),
            Column("Seeds"),
            Column("Cells here"),
            Column("Cells needed"),
        ),
        tuple(_part_row(study, part) for part in study.parts),
        "Cells needed: for these datasets and seeds, every method of the part. Parts share cells.",
    )


def _part_row(study: Study, part: Part) -> tuple[Value, ...]:
    run = [name for name in part.datasets if study.of(part, name)]
    seeds = {len(study.seeds_of(part, name)) for name in run}
    here = sum(len(study.of(part, name)) for name in run)
    needed = sum(len(_needed(study, part, name)) for name in run)
    names = ", ".join(map(title, run))
    return (
        Value(part.title, part.title, below=f"pace reproduce {part.name}"),
        Value(names, names),
        Value(" to ".join(map(str, sorted({min(seeds), max(seeds)}))), max(seeds)),
        Value(str(here), here),
        Value(str(needed), needed),
    )


def _needed(study: Study, part: Part, dataset: str) -> set[Cell]:
    """The cells of every row, on the seeds that any row has."""
    seeds = {cell.seed for cell in study.of(part, dataset)}
    return set(replace(part, datasets=(dataset,)).cells(list(seeds)))


def provenance(study: Study) -> Iterable[Block]:
    if study.commands:
        yield Code("\n".join(study.commands))
    else:
        yield Text("The commands that made this folder are not recorded in it.")
    libraries = dict.fromkeys(name for how in study.made_with for name in how.versions)
    yield Facts(
        tuple(
            (
                name,
                ", ".join(
                    dict.fromkeys(
                        how.versions[name] for how in study.made_with if name in how.versions
                    )
                ),
            )
            for name in libraries
        )
    )


def _distinct(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(map(str, values)))
