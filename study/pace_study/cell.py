"""A cell: one method on one dataset, partition and seed; and the Parquet files of cells."""

import hashlib
import io
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import torch

from pace.errors import FileError
from pace.io import atomic, untrusted
from pace.models import sized
from pace.protocol import Federation
from pace.reports import READINGS, STEPS, Trial, versions
from pace_study.controls import study_method

HIDDEN, LAYERS = 64, 2  # of the study's network
JOURNAL = "journal.jsonl"
PATIENCE = 60.0  # seconds that a process waits for another one's write


@dataclass(frozen=True)
class Cell:
    """Where in the study a result belongs."""

    dataset: str
    partition: str
    clients: int
    method: str
    rank: int | None
    seed: int
    data_seed: int
    model: str = "gcn"

    @property
    def place(self) -> tuple[str, str, int, int, str, int]:
        """Cells of one place share their client graphs and their trainings."""
        where = self.dataset, self.partition, self.clients, self.data_seed
        return *where, self.model, self.seed

    @property
    def file(self) -> str:
        """The name of the Parquet file it is stored in: small ones, of ten draws of a setting."""
        name = Path(self.dataset).stem if self.dataset.endswith(".graph") else self.dataset
        name += f"-{self.partition}-c{self.clients}-draws{self.data_seed // 10}x"
        return re.sub(r"[^\w.=,-]", "_", name) + ".parquet"

    def settings(self) -> str:
        """All else that decides the result, as JSON. A stored cell whose settings differ is stale."""
        shape = sized(self.model, 1, HIDDEN, LAYERS, 1)  # widths at the ends are the dataset's
        setup = Federation(shape, study_method(self.method, self.rank)).describe()
        settings = {part: setup[part] for part in ("method", "recipe", "network")}
        file = Path(self.dataset)
        settings["data"] = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None
        return json.dumps(settings, sort_keys=True)


KEY = [field.name for field in fields(Cell)]
SCHEMA = arrow.schema(
    [
        *((name, arrow.string()) for name in ("dataset", "partition", "model", "method")),
        *((name, arrow.int64()) for name in ("clients", "data_seed", "rank", "seed", "epochs")),
        *((name, arrow.string()) for name in ("settings", "versions", "device")),
        ("alphas", arrow.list_(arrow.float64())),
        # Confusion matrices of all clients, one after another, row by row.
        *((reading, arrow.list_(arrow.int32())) for reading in READINGS),
        *((way, arrow.list_(arrow.int64())) for way in ("upload", "returned")),
        ("dense", arrow.int64()),
        *((step, arrow.float64()) for step in STEPS),
        # Of two classes: one for each client and reading, null where its test nodes are of one class.
        ("roc_auc", arrow.list_(arrow.list_(arrow.float64()))),
        ("ece", arrow.list_(arrow.float64())),  # one for each reading; null in older cells
    ]
)
SAME = ("method", "seed", "alphas", "upload", "returned", "dense")  # in a row and in a trial
Stored = dict[str, Any]  # a row of that schema


class Store:
    """A folder of cells: Parquet files, whatever their names, and a journal of what was computed since.

    A cell is appended to the journal as soon as it is computed; `fold` moves every cell into the file
    that its setting names. A process that is killed leaves at most one broken line, which is skipped.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def rows(self) -> dict[Cell, Stored]:
        """Every stored cell, in an order that does not depend on the files."""
        return _by_cell(chain(*self._files().values(), self._journal()))

    def has(self, cell: Cell, epochs: int | None) -> bool:
        """Whether the cell is stored with all of these settings."""
        row = self.rows.get(cell)
        return row is not None and row["epochs"] == epochs and agrees(row, cell.settings())

    def read(self, cell: Cell) -> Trial | None:
        if (row := self.rows.get(cell)) is None:
            return None
        clients, areas = len(row["alphas"]), row["roc_auc"]
        return Trial(
            **{name: row[name] for name in SAME},
            counts={
                reading: list(torch.from_numpy(confusions(row[reading], clients)))
                for reading in READINGS
            },
            seconds={step: row[step] for step in STEPS if row[step] is not None},
            roc_auc={} if areas is None else dict(zip(READINGS, areas, strict=True)),
            ece=dict(zip(READINGS, row["ece"] or (), strict=False)),
        )

    def write(self, cell: Cell, trial: Trial, *, epochs: int | None, device: str) -> None:
        """Append a cell to the journal, durably."""
        row = {
            **{name: getattr(trial, name) for name in SAME},
            **asdict(cell),
            **{
                reading: torch.stack(counts).flatten().tolist() if counts else []
                for reading, counts in trial.counts.items()
            },
            **{step: trial.seconds.get(step) for step in STEPS},
            "roc_auc": [trial.roc_auc[reading] for reading in READINGS] if trial.roc_auc else None,
            "ece": [trial.ece[reading] for reading in READINGS] if trial.ece else None,
            "epochs": epochs,
            "settings": cell.settings(),
            "versions": json.dumps(versions()),
            "device": device,
        }
        with self._alone(), (self.folder / JOURNAL).open("ab") as file:
            # A new line at both ends keeps it apart from what a killed process left unfinished.
            file.write(b"\n" + json.dumps(row).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if "rows" in self.__dict__:
            self.rows[cell] = row

    def fold(self) -> None:
        """Move every cell into its own file. Interrupted, it can be done again."""
        self.__dict__.pop("rows", None)
        if not self.folder.is_dir():
            return
        with self._alone():
            files, kept = self._files(), dict[str, list[Stored]]()
            self.rows = _by_cell(chain(*files.values(), self._journal()))
            for cell, row in self.rows.items():
                kept.setdefault(cell.file, []).append(row)
            for name, rows in kept.items():
                if rows != files.get(name):
                    _write(self.folder / name, rows)
            for name in {*files.keys() - kept.keys(), JOURNAL}:
                (self.folder / name).unlink(missing_ok=True)

    def _files(self) -> dict[str, list[Stored]]:
        return {path.name: _read(path) for path in sorted(self.folder.glob("*.parquet"))}

    def _journal(self) -> Iterator[Stored]:
        try:
            lines = (self.folder / JOURNAL).read_bytes().splitlines()
        except FileNotFoundError:
            return
        for line in filter(None, lines):
            try:
                row = untrusted.json(line)
            except ValueError:  # cut short: it is computed again
                continue
            if isinstance(row, dict) and set(SCHEMA.names) == set(row):
                yield row

    def _alone(self) -> Any:
        busy = f"another process is writing to {self.folder}"
        return atomic.held(self.folder / "writing.lock", busy, PATIENCE)


def agrees(row: Stored, wanted: str) -> bool:
    """Whether a stored row has every setting that is wanted, with its value.

    It may have more: a setting that a method no longer has is one that was never changed.
    """

    def covers(stored: object, asked: object) -> bool:
        if isinstance(stored, dict) and isinstance(asked, dict):
            return all(key in stored and covers(stored[key], asked[key]) for key in asked)
        return stored == asked

    return row["settings"] == wanted or covers(json.loads(row["settings"]), json.loads(wanted))


def _cell(row: Stored) -> Cell:
    return Cell(**{name: row[name] for name in KEY})


def _by_cell(rows: Iterable[Stored]) -> dict[Cell, Stored]:
    """Cells that trained alike side by side, where their matrices compress best."""

    def order(cell: Cell) -> tuple[object, ...]:
        return cell.dataset, cell.model, *cell.place, cell.method, cell.rank or 0

    stored = {_cell(row): row for row in rows}
    return {cell: stored[cell] for cell in sorted(stored, key=order)}


def confusions(counts: Any, clients: int) -> np.ndarray[Any, Any]:
    """Confusion matrices (clients, classes, classes) as they are stored in a row."""
    flat = np.asarray(counts, dtype=np.int64)
    classes = round((flat.size / max(clients, 1)) ** 0.5)
    return flat.reshape(clients if classes else 0, classes, classes)


def _read(path: Path) -> list[Stored]:
    try:
        table = parquet.read_table(path)
        if absent := set(SCHEMA.names) - set(table.column_names):
            raise ValueError(f"it has no {', '.join(sorted(absent))}")
        rows: list[Stored] = table.select(SCHEMA.names).cast(SCHEMA).to_pylist()
    except (arrow.ArrowException, ValueError) as error:
        raise FileError(
            f"{path} holds no cells of a study ({error}): remove it, then run the study again"
        ) from None
    return rows


def _write(path: Path, rows: list[Stored]) -> None:
    buffer, table = io.BytesIO(), arrow.Table.from_pylist(rows, SCHEMA)
    words = [field.name for field in SCHEMA if field.type == arrow.string()]
    packing = {"compression": "zstd", "compression_level": 19, "data_page_size": 2**24}
    parquet.write_table(table, buffer, use_dictionary=words, **packing)
    atomic.write(path, buffer.getvalue())
