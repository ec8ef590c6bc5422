"""What a model says of every node, as a table: CSV, or Parquet with the extra `report`."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from pace.errors import SettingError
from pace.io import atomic
from pace.io.text import Medium, shown
from pace.protocol.steps import Adoption
from pace.task import called

Columns = dict[str, list[Any]]


def prediction_table(
    adoption: Adoption,
    nodes: Sequence[str],
    classes: Sequence[str],
    labels: Sequence[str],
    roles: Sequence[str],
) -> Columns:
    """Node, PACE's class and how sure it is, Local's beside it, the label that is known, what the node
    was used for when the model was made (train, val, test, unlabelled; else new), then every class's
    probability."""
    chosen, local = adoption.logits.double().softmax(1), adoption.local.double().softmax(1)
    return {
        "node": list(nodes),
        "class": _named(chosen, classes),
        "probability": _rounded(chosen.max(1).values),
        "local_class": _named(local, classes),
        "local_probability": _rounded(local.max(1).values),
        "label": list(labels),
        "split": list(roles),
        **{f"p_{name}": _rounded(chosen[:, place]) for place, name in enumerate(classes)},
    }


def write_predictions(path: Path, table: Columns) -> None:
    """The kind of table is in the file's name."""
    if path.suffix == ".csv":
        atomic.write(path, _csv(table))
    elif path.suffix == ".parquet":
        atomic.write(path, _parquet(table))
    else:
        raise SettingError(f"--out is {path}, expected a name that ends in .csv or .parquet")


def _csv(table: Columns) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_cell, table))
    writer.writerows(map(_cell, row) for row in zip(*table.values(), strict=True))
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    """Numbers as they are; of somebody's words no spreadsheet makes a formula."""
    return shown(value, Medium.CSV) if isinstance(value, str) else value


def _parquet(table: Columns) -> bytes:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise SettingError(
            "Parquet needs the package pyarrow: pip install 'pace-fgl[report]', or write a .csv"
        ) from None
    made = io.BytesIO()
    parquet.write_table(pyarrow.table(table), made)
    return made.getvalue()


def _named(probabilities: Tensor, classes: Sequence[str]) -> list[str]:
    return [classes[label] for label in called(probabilities).tolist()]


def _rounded(values: Tensor) -> list[float]:
    return [round(value, 6) for value in values.tolist()]
