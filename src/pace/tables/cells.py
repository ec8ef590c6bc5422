"""What is in a cell: a number as people and spreadsheets write it, or text.

`1.234` is 1.234 in one file and 1234 in another, so a column is read as a whole and with an eye on the
others; what stays unclear is refused, never guessed.
"""

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, compress, islice
from typing import Any, NamedTuple

import numpy as np

from pace.io import one_line
from pace.tables.problems import listed

Array = np.ndarray[Any, np.dtype[Any]]

MINUS = "\u2212"  # as typographers write it
GAP = "[\u00a0\u202f '\u2019]"  # between thousands, besides the point or the comma
SIGN = f"[+{MINUS}-]?"
GROUPS = rf"{SIGN}[1-9]\d{{0,2}}(?:(?:\.|{GAP})\d{{3}})+"
COMMA = re.compile(rf"(?:{SIGN}\d+|{GROUPS}),\d+")  # 61,5 or 1.234,5
GROUPED = re.compile(GROUPS)  # 1.234 for 1234
ENGLISH = re.compile(GROUPS.replace(r"\.", ",") + r"(?:\.\d+)?")  # 1,234.5
GERMAN = re.compile(rf"{COMMA.pattern}|{GROUPS}|{SIGN}\d+")
NUMERAL = r"\d[\d.,]*"
BOUNDS = (
    (re.compile(rf"[<≤]=?\s*({NUMERAL})"), 0.5),
    (re.compile(rf"[>≥]=?\s*({NUMERAL})|({NUMERAL})\s*\+"), 1.0),
    (re.compile(rf"({NUMERAL})\s*(?:-|–|to|bis)\s*({NUMERAL})"), 0.5),
)
NUL = "\0"


class Words(Sequence[str]):
    """A column of text as UTF-8 with NUL after each cell: strings take 50 bytes more than their letters.

    `SPAN` cells are decoded together and kept, so that reading in order decodes everything once.
    """

    SPAN = 512

    def __init__(self, cells: Iterable[str] = ()) -> None:
        self._bytes, self._count, self._starts = bytearray(), 0, array("q", [0])  # of each span
        self._span, self._decoded = -1, list[str]()
        self.extend(cells)

    def extend(self, cells: Iterable[str]) -> None:
        cells, self._span = iter(cells), -1
        while added := list(islice(cells, self.SPAN - self._count % self.SPAN)):
            text = NUL.join(added)
            if text.count(NUL) >= len(added):
                text = NUL.join(cell.replace(NUL, " ") for cell in added)
            self._bytes += f"{text}{NUL}".encode()
            self._count += len(added)
            if self._count % self.SPAN == 0:
                self._starts.append(len(self._bytes))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        for span in range(len(self._starts)):
            yield from self._read(span)

    def __getitem__(self, index: Any) -> Any:
        span, offset = divmod(range(self._count)[index], self.SPAN)
        if span != self._span:
            self._span, self._decoded = span, self._read(span)
        return self._decoded[offset]

    def _read(self, span: int) -> list[str]:
        start, end = [*self._starts[span : span + 2], len(self._bytes)][:2]
        return self._bytes[start:end].decode().split(NUL)[:-1]


class ArrowCells(Sequence[str]):
    """A column of an Arrow table as text; equal cells of a dictionary are one object."""

    def __init__(self, column: Any) -> None:
        self.column = column

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, index: Any) -> Any:
        return _word(self.column[index].as_py())

    def __iter__(self) -> Iterator[str]:
        for chunk in self.column.chunks:
            coded = str(chunk.type).startswith("dictionary<")
            words = [*map(_word, chunk.dictionary.to_pylist())] if coded else []
            for start in range(0, len(chunk), Words.SPAN):
                part = chunk.slice(start, Words.SPAN)
                if coded:
                    yield from ("" if i is None else words[i] for i in part.indices.to_pylist())
                else:
                    yield from map(_word, part.to_pylist())


def _word(cell: object) -> str:
    """A cell as CSV would have it."""
    if cell is None or cell != cell:
        return ""
    if isinstance(cell, bool) or (isinstance(cell, float) and cell.is_integer()):
        return str(int(cell))  # an id or label that passed through floats is still the same
    return _plain_cell(str(cell))


class Numbers(NamedTuple):
    """A column read as numbers; NaN where a cell is none."""

    values: Array  # (rows,) float32; what is too large for it is infinite, and reported as such
    style: str = "plain"  # comma, point, plain, unclear (1,234 alone can be either) or mixed


def bound_parts(cell: str) -> tuple[Sequence[str], float] | None:
    """The numbers in a limit or a range, and the weight by which they are summed; None for others."""
    for pattern, weight in BOUNDS:
        if match := pattern.fullmatch(cell):
            return [part for part in match.groups() if part], weight
    return None


def stored_numbers(cells: Sequence[str]) -> Array | None:
    """The numbers of a column that Arrow stores as such; None of another."""
    stored = r"u?int\d+|halffloat|float|double"
    if isinstance(cells, ArrowCells) and re.fullmatch(stored, str(cells.column.type)):
        return cells.column.to_numpy()  # type: ignore[no-any-return]
    return None


def parse_cells(cells: Sequence[str], read: Callable[[str], float] = float) -> Array:
    """A column as float32; NaN where the function that reads a cell raises ValueError."""

    def number_or_nan(cell: str) -> float:
        try:
            return read(cell.replace(MINUS, "-"))
        except ValueError:
            return np.nan

    if (values := stored_numbers(cells)) is None:
        values = np.fromiter(map(number_or_nan, cells), float, len(cells))
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def cells_at(cells: Sequence[str], mask: Array) -> Iterator[str]:
    """The cells where the mask is true; many are read in order, which is faster than one by one."""
    if 4 * (indices := np.flatnonzero(mask)).size < len(cells):
        return (cells[index] for index in indices.tolist())
    return compress(cells, mask.tolist())


def plain_cells(cells: Sequence[str]) -> Iterable[str]:
    """Cells on one line each, without what makes Excel leave them alone: `="007"` is 007."""
    text = "".join(cells)
    return map(_plain_cell if "=" in text or "\n" in text else str.strip, cells)


def _plain_cell(cell: str) -> str:
    cell = one_line(cell) if "\n" in cell else cell.strip()
    return cell[2:-1] if cell.startswith('="') and cell[2:].endswith('"') else cell


def is_number(cell: str) -> bool:
    """Whether it is a number in some notation, also in another than the column's."""
    try:
        float(cell)
    except ValueError:
        return any(pattern.fullmatch(cell) for pattern in (COMMA, GROUPED, ENGLISH))
    return True


def parse_columns(
    columns: Mapping[str, Sequence[str]], decimal: str | None, delimiter: str, notes: list[str]
) -> dict[str, Numbers]:
    """The columns of a file as numbers, each in the one style that fits all of its cells.

    Where a column alone does not show its style, the others do.
    """
    values = {name: parse_cells(cells) for name, cells in columns.items()}
    styles = {
        name: decimal or _style(cells_at(cells, np.isnan(values[name])))
        for name, cells in columns.items()
        if stored_numbers(cells) is None
    }
    pointed = {n: _has_groups(columns[n]) for n, style in styles.items() if style == "plain"}
    grouped = [name for name, groups in pointed.items() if groups]
    commas = [name for name, style in styles.items() if style in ("comma", "unclear")]
    if "comma" in styles.values() or (delimiter != "," and commas):
        notes.append(f"decimal commas: {listed(commas)}")
        if grouped:
            why = "points between thousands, as the file has decimal commas elsewhere"
            notes.append(f"{why}: {listed(grouped)} (--decimal point reads decimals)")
        styles |= dict.fromkeys([*commas, *grouped], "comma")
    elif delimiter != "," and False not in pointed.values():
        styles |= dict.fromkeys(grouped, "unclear")
    for name, style in styles.items():
        if style in ("comma", "point", "unclear"):
            values[name] = parse_cells(columns[name], partial(_read_number, style=style))
    return {name: Numbers(values[name], styles.get(name, "plain")) for name in columns}


def _has_groups(cells: Sequence[str]) -> bool | None:
    """Whether all points in a column may stand between thousands; None where there are none."""
    pointed = (cell for cell in cells if "." in cell)
    if (first := next(pointed, None)) is None:
        return None
    return all(map(GROUPED.fullmatch, chain([first], pointed)))


def _style(cells: Iterable[str]) -> str:
    """The notation of the numbers in cells that `float` does not read."""
    marked = {cell for cell in cells if not cell.isalnum()}
    german = {cell for cell in marked if COMMA.fullmatch(cell)}
    german |= {cell for cell in marked if cell.count(".") > 1 and GROUPED.fullmatch(cell)}
    english = {cell for cell in marked if ENGLISH.fullmatch(cell)}
    if german - english:
        return "mixed" if english - german else "comma"
    if english - german:
        return "point"
    return "unclear" if german else "plain"


def _read_number(cell: str, style: str) -> float:
    """A number in one of the styles that `float` does not know; ValueError if it is in another."""
    if style == "point":
        return float(re.sub(f",|{GAP}", "", cell) if ENGLISH.fullmatch(cell) else cell)
    if style == "unclear" and "." not in cell:
        return float(cell)
    if style == "comma" and GERMAN.fullmatch(cell):
        return float(re.sub(rf"\.|{GAP}", "", cell).replace(",", "."))
    raise ValueError(cell)
