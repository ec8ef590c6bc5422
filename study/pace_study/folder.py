"""A study's folder, read back: its cells, also as one table, what made them, by which commands."""

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from pace.errors import FileError
from pace.io import atomic, untrusted
from pace.reports import Row, Trial, tidy_frame
from pace_study.cell import HIDDEN, LAYERS, Store
from pace_study.controls import study_method
from pace_study.study import PARTS, SIX, Part, narrowed

COMMANDS = "commands.json"
LARGEST = 2**20  # bytes of a file of names


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
        self.commands = tuple(read_json(folder / COMMANDS) or ())
        found = {cell.dataset for cell in self.cells}
        self.datasets = [name for name in SIX if name in found] + sorted(found - set(SIX))
        self.absent = [
            name for name in read_json(folder / "absent.json") or () if name not in found
        ]

    @cached_property
    def parts(self) -> list[Part]:
        """The parts of the study of which anything is here, and the datasets that matter to it."""
        kept = narrowed(PARTS.values(), [*self.datasets, *self.absent], None)
        seeds = list({cell.seed for cell in self.cells})
        return [part for part in kept if not self.cells.isdisjoint(part.cells(seeds))]


def note_command(folder: Path, command: str) -> Path:
    """Add a command to those that made the folder, each once."""
    path = folder / COMMANDS
    commands = dict.fromkeys([*(read_json(path) or ()), command])
    atomic.write(path, (json.dumps(list(commands), indent=1) + "\n").encode())
    return path


def read_json(path: Path) -> Any:
    """A file's content, None where there is none."""
    try:
        return untrusted.json(untrusted.read(path, LARGEST))
    except FileNotFoundError:
        return None
    except ValueError as error:
        message = f"{path} is not JSON ({error}): run the study again to rewrite it"
        raise FileError(message) from None


def results(folder: str | Path, by: str = "seed") -> pd.DataFrame:
    """Everything that `pace reproduce --out` stored in a folder, with the columns of `RunResult.frame`.

    Args:
        folder: a study's, with `cells/`.
        by: `"seed"` for a row for each method, reading and seed; `"client"` for one for each client.

    Raises:
        FileError: the folder holds no cells, or something damaged.
        SettingError: `by` is something else.
    """
    store, trials = Study(Path(folder)).store, list[tuple[Row, Trial]]()
    for cell, row in store.rows.items():
        trial = store.read(cell)
        assert trial is not None
        rank = cell.rank if cell.method.startswith("pace") else None
        numbers = study_method(cell.method).numbers
        network = {"hidden": HIDDEN, "layers": LAYERS, "epochs": row["epochs"], "numbers": numbers}
        trials.append(({**vars(cell), **network, "rank": rank}, trial))
    return tidy_frame(trials, by)
