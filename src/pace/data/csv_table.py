"""CSV: UTF-8, a header, and commas, semicolons or tabs between cells."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from pace.data.problems import Problems
from pace.data.table import Numbers, Table
from pace.errors import GraphError

CHUNK = 2_000  # rows in memory as text at a time
DELIMITERS = ",;\t"


def header(path: Path) -> list[str]:
    return next(_records(path))[1]


def read(path: Path, text: Sequence[str], numbers: Sequence[str], problems: Problems) -> Table:
    records = _records(path)
    _, names = next(records)
    place = {name: names.index(name) for name in (*text, *numbers)}
    rows: list[int] = []
    texts: dict[str, list[str]] = {name: [] for name in text}  # each once, whatever it is for
    parts: dict[str, list[Numbers]] = {name: [Numbers.of([])] for name in numbers}
    while chunk := list(islice(records, CHUNK)):
        for index, (row, cells) in enumerate(chunk):
            if len(cells) != len(names):
                wrong = f"has {len(cells)} cells, the header has {len(names)} columns"
                problems.add(path.name, row, wrong, breaks=True)
                chunk[index] = row, (cells + [""] * len(names))[: len(names)]
        columns = list(zip(*(cells for _, cells in chunk), strict=True))
        rows += [row for row, _ in chunk]
        for name in texts:
            texts[name] += map(str.strip, columns[place[name]])
        for name in numbers:
            parts[name].append(Numbers.of(columns[place[name]]))
    return Table(path.name, rows, texts, {name: Numbers.join(each) for name, each in parts.items()})


def _records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Each row's number and cells, the header first; blank lines are no rows."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as opened:
            line = opened.readline()
            opened.seek(0)
            if not line.strip():
                raise GraphError(
                    f"{path.name} is empty, or its first line is: the first line names the columns"
                )
            reader = csv.reader(opened, delimiter=max(DELIMITERS, key=line.count), strict=True)
            names = [name.strip() for name in next(reader)]
            yield reader.line_num, names
            for cells in reader:
                if any(cells):
                    yield reader.line_num, cells
    except UnicodeDecodeError as error:
        raise GraphError(f"{path.name} is not UTF-8 text ({error}): save it as UTF-8") from error
    except csv.Error as error:
        raise GraphError(
            f"{path.name} row {reader.line_num} is not CSV ({error}): check its quotes"
        ) from error
