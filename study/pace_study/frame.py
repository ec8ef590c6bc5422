"""A study's cells as one tidy pandas table, with the columns of `pace.RunResult.frame`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pace.reports import Row, Trial, tidy_frame
from pace_study.cell import HIDDEN, LAYERS
from pace_study.controls import study_method
from pace_study.folder import Study

if TYPE_CHECKING:
    import pandas


def results(folder: str | Path, by: str = "seed") -> pandas.DataFrame:
    """Everything that `pace reproduce --out` stored in a folder.

    Args:
        folder: a study's, with `cells/`.
        by: `"seed"` for a row for each method, reading and seed; `"client"` for one for each client.

    Raises:
        FileError: the folder holds no cells, or something damaged.
        SettingError: `by` is something else.
    """
    return tidy_frame(_trials(Path(folder)), by)


def _trials(folder: Path) -> Iterator[tuple[Row, Trial]]:
    store = Study(folder).store
    for cell, row in store.rows.items():
        trial = store.read(cell)
        assert trial is not None
        rank = cell.rank if cell.method.startswith("pace") else None
        numbers = study_method(cell.method).numbers
        network = {"hidden": HIDDEN, "layers": LAYERS, "epochs": row["epochs"], "numbers": numbers}
        yield {**vars(cell), **network, "rank": rank}, trial
