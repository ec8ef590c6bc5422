"""A study's folder, read back: which cells it holds, what made them, and by which commands."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from pace.errors import FileError
from pace.io import atomic, untrusted
from pace_study.cell import Cell, Store
from pace_study.records import CITATION_MEAN, measured
from pace_study.scores import score_cells
from pace_study.study import CITATION, OWN, PARTS, SIX, Part, in_order, narrowed

COMMANDS = "commands.json"
LARGEST = 2**20  # bytes of a file of names


@dataclass(frozen=True)
class MadeWith:
    """What some of the cells were computed with."""

    versions: Mapping[str, str]
    device: str
    epochs: int | None


class Study:
    """Everything of a folder that a page tells of."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = Store(folder / "cells")
        self.cells = frozenset(self.store.rows)
        if not self.cells:
            raise FileError(
                f"{folder} has no cells: write some with `pace reproduce --out {folder}`"
            )
        self.commands = tuple(_json(folder / COMMANDS) or ())
        present = {cell.dataset for cell in self.cells}
        absent = _json(folder / "absent.json") or ()
        self.absent = tuple(name for name in absent if name not in present)

    @cached_property
    def scores(self) -> pd.DataFrame:
        return score_cells(self.store)

    @cached_property
    def made_with(self) -> list[MadeWith]:
        rows = self.store.rows.values()
        found = {(row["versions"], row["device"], row["epochs"]): None for row in rows}
        return [MadeWith(json.loads(versions), *rest) for versions, *rest in found]

    @cached_property
    def datasets(self) -> list[str]:
        """Those with cells, the paper's first and in its order."""
        found = {cell.dataset for cell in self.cells}
        return [name for name in SIX if name in found] + sorted(found - set(SIX))

    @cached_property
    def parts(self) -> list[Part]:
        """The parts of the study of which anything is here, and the datasets that matter to it."""
        kept = narrowed(PARTS.values(), [*self.datasets, *self.absent], None)
        return [part for part in kept if any(self.seeds_of(part, d) for d in part.datasets)]

    def of(self, part: Part, dataset: str) -> set[Cell]:
        """The cells here that a part needs on a dataset, whatever their seed."""
        every = {cell.seed for cell in self.cells}
        return set(replace(part, datasets=(dataset,)).cells(list(every))) & self.cells

    def seeds_of(self, part: Part, dataset: str) -> list[int]:
        """The seeds that every row which was run at all has: rows are compared on equal seeds."""
        by_row: dict[Cell, set[int]] = {}
        for cell in self.of(part, dataset):
            by_row.setdefault(replace(cell, seed=0), set()).add(cell.seed)
        return in_order(set.intersection(*by_row.values())) if by_row else []

    @cached_property
    def seeds(self) -> list[int]:
        """The seeds of most of the study: those that claims are judged on."""
        counts = Counter(
            tuple(self.seeds_of(part, dataset))
            for part in self.parts
            if part.name not in OWN
            for dataset in part.datasets
            if self.of(part, dataset)
        )
        most = [seeds for seeds, count in counts.items() if count == max(counts.values())]
        longest: tuple[int, ...] = max(most, key=len, default=())
        return list(longest) or in_order(cell.seed for cell in self.cells)

    def numbers(self, part: Part) -> pd.DataFrame:
        """A part's numbers, each dataset's over its own seeds."""
        found = [
            measured(replace(part, datasets=(name,)), self.scores, self.seeds_of(part, name))
            for name in part.datasets
        ]
        if part.name == "rank" and set(CITATION) <= set(part.datasets):
            common = set.intersection(*(set(self.seeds_of(part, name)) for name in CITATION))
            if common:
                every = replace(part, datasets=CITATION)
                means = measured(every, self.scores, in_order(common))
                found.append(means[means.dataset == CITATION_MEAN])
        return pd.concat(found, ignore_index=True)


def note_command(folder: Path, command: str) -> Path:
    """Add a command to those that made the folder, each once."""
    path = folder / COMMANDS
    commands = dict.fromkeys([*(_json(path) or ()), command])
    atomic.write(path, (json.dumps(list(commands), indent=1) + "\n").encode())
    return path


def _json(path: Path) -> Any:
    """A file's content, None where there is none."""
    try:
        return untrusted.json(untrusted.read(path, LARGEST))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise FileError(
            f"{path} is not JSON ({error}): run the study again to rewrite it"
        ) from None
