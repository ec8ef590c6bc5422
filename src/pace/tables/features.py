"""Feature columns: what kind each is, where no codebook says so, and their encoding as numbers."""

import re
from array import array
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pace.graph import UNKNOWN
from pace.io import many
from pace.tables.cells import Array, cells_at, is_number, parse_cells
from pace.tables.codebook import ABSENT, OTHER, Column, Kind
from pace.tables.dates import are_dates, parse_dates, show_day, unclear_days
from pace.tables.problems import listed
from pace.tables.table import Table
from pace.tables.words import FEW, MISSING, alike_notes, like_numbers, missing_among, not_words

CATEGORIES = 64  # a column of words with more of them is not one-hot encoded
LARGE = 10.0  # root mean square of a feature that is worth a warning
OUTLIER_SCALES = 20  # a value further from the centre is most often in another unit
SHIFTED_SCALES, FEW_ROWS = 4, 10  # a median further from it, of so many rows, is worth a warning
NARROW = 0.2  # scales: numbers that lie so close together and apart are most often in another unit
FILL = "a codebook can fill it: `pace codebook propose`"
LIKE_NUMBERS = "looks like numbers with a unit or in a notation that is not read, so words"

Changes = dict[str, Any]  # what was done -> the indices of its rows


@dataclass(frozen=True)
class Change:
    column: str
    what: str
    rows: Array

    def __str__(self) -> str:
        rows = listed(self.rows.tolist(), 4)
        return f"{self.column!r} in {many(len(self.rows), 'row')} ({rows}): {self.what}"


def kind_of(table: Table, name: str, absent: Collection[str]) -> Kind | None:
    """Date, number or category, by a column's cells; None if they are unreadable, which is refused."""
    numbers, cells = table.numbers[name], table.text[name]
    unread = np.isnan(numbers.values)
    counts = Counter(cells_at(cells, unread))
    absent = missing_among(counts, tuple(absent))
    if are_dates(cells, absent):
        return "date"
    words = {word: count for word, count in counts.items() if word.lower() not in absent}
    read = int((~unread).sum())
    numerals = read + sum(count for word, count in words.items() if is_number(word))
    if 2 * numerals <= read + sum(words.values()):
        wrong = not_words(words)
    elif numbers.style in ("unclear", "mixed"):
        unclear = "may have decimals or thousands behind its mark"
        wrong = f"({next(iter(words))}) {unclear}: say --decimal comma or --decimal point"
    else:
        return "number"
    if wrong is not None:
        table.refuse(None, f"column {name!r} {wrong}")
    return "category" if wrong is None else None


def infer_columns(table: Table) -> list[Column]:
    """Columns without a codebook: numbers stay as they are, dates become days, words one-hot."""
    columns, notes = list[Column](), table.problems.notes
    for name, numbers in table.numbers.items():
        kind, words = kind_of(table, name, MISSING), list[str]()
        if kind == "number" and (remark := missing_nines(numbers.values)) is not None:
            table.problems.warnings.append(f"column {name!r} {remark}: then {FILL}")
        elif kind == "date":
            notes.append(f"column {name!r} became days since 2000-01-01")
        elif kind == "category":
            counts = Counter(word for word in table.text[name] if word.lower() not in ("", "nan"))
            words = sorted(counts)
            if not are_categories(counts):
                most = f"too many to make a feature of each (at most {CATEGORIES})"
                remedy = f"leave it out with --features, or give --id {name} if it is the id"
                wrong = f"holds {len(counts)} different words in {counts.total()} rows, {most}: {remedy}"
                empty = "is empty in every row: leave it out"
                table.refuse(None, f"column {name!r} {wrong if counts else empty}")
                continue
            notes.append(f"column {name!r} became {many(len(words), 'column')}, one for each word")
            if absent := [repr(word) for word in words if word.lower() in missing_among(words)]:
                means = f"if they mean missing, {FILL}"
                notes.append(f"column {name!r}: {', '.join(absent)} taken as words; {means}")
            if (numeral := like_numbers(words)) is not None:
                notes.append(f"column {name!r} {LIKE_NUMBERS}, such as {numeral!r}")
            notes.extend(alike_notes(f"column {name!r}", words, "words"))
        if kind is not None:
            columns.append(Column(name, kind, tuple(words)))
    return columns


def are_categories(counts: Counter[str], least: int = 1, *, forced: bool = False) -> bool:
    """Whether words are few and recur, most rows holding one of `least` rows; ten may be one a row."""
    rare = sum(count for count in counts.values() if count < least)
    recur = len(counts) <= 10 or 2 * max(len(counts), rare) <= counts.total()
    return 0 < len(counts) <= CATEGORIES and (recur or forced)


def encode_columns(
    table: Table, columns: Sequence[Column], missing: Collection[str], changes: list[Change] | None
) -> Tensor:
    """The features of all columns, (rows, features); `changes` gets what was done to which rows."""
    x, at = np.empty((len(table.rows), sum(len(c.features) for c in columns)), np.float32), 0
    rows = np.asarray(table.rows, np.int32)
    words = {word.lower() for word in missing}
    for column in columns:
        encode, key = (_words, "indicator") if column.kind == "category" else (_numbers, "fill")
        remedy = f"; {FILL}" if changes is None else f", and the codebook has no `{key}` for it"
        done: Changes = {}
        block = encode(table, column, words, remedy, done)
        x[:, at : at + block.shape[1]] = block
        at += block.shape[1]
        if changes is not None:
            for what, indices in done.items():
                changes.append(Change(column.name, what, rows[np.asarray(indices)]))
    return torch.from_numpy(x)


def column_values(
    table: Table, name: str, kind: Kind, blanks: Collection[str]
) -> tuple[Array, Array, Array, str]:
    """A column of numbers, flags or dates; where it is missing or wrong; and what a cell should be."""
    if kind == "date":
        if (unclear := unclear_days(table.text[name])) is not None:
            table.refuse(None, f"column {name!r} {unclear}")
        values, expected = parse_dates(table.text[name]), "a date such as 2024-03-31"
        missing = np.array([cell.lower() in blanks for cell in table.text[name]], bool)
    else:
        values, style = table.numbers[name]
        values = values.astype(np.float64)
        number = "a number with a decimal comma" if style == "comma" else "a finite number"
        expected = "0 or 1" if kind == "flag" else number
        numerals = parse_cells([*blanks])  # such as -999
        missing = np.isin(values, numerals[np.isfinite(numerals)])
        unread = np.isnan(values)
        missing[unread] = [cell.lower() in blanks for cell in cells_at(table.text[name], unread)]
    right = np.isin(values, (0, 1)) if kind == "flag" else np.isfinite(values)
    return values, missing, ~missing & ~right, expected


def _numbers(table: Table, column: Column, blanks: set[str], remedy: str, done: Changes) -> Array:
    """One scaled feature, and with `indicator` another that is 1 where the value is missing."""
    name = column.name
    values, missing, wrong, expected = column_values(table, name, column.kind, blanks)
    for index in np.flatnonzero(wrong).tolist():
        table.refuse_cell(index, name, expected)
    absent = np.flatnonzero(missing).astype(np.int32)
    if column.fill is None:
        for index in absent.tolist():
            table.refuse_cell(index, name, expected, f"is empty{remedy}")
    elif len(absent):
        fill = show_day(column.fill) if column.kind == "date" else f"{column.fill:g}"
        done[f"missing, filled with {fill}{' and marked' * column.indicator}"] = absent
        values = np.where(missing, column.fill, values)
    scaled = (values - float(column.centre)) / float(column.scale)
    with np.errstate(invalid="ignore", over="ignore"):
        far = np.flatnonzero(np.abs(scaled) > OUTLIER_SCALES).astype(np.int32)
        block = scaled.astype(np.float32)[:, None]
    if len(far):
        example = f"(such as {values[far[0]]:g}; another unit?)"
        done[f"more than {OUTLIER_SCALES} scales from the centre {example}"] = far
    if column.kind == "number" and (column.centre, column.scale) != (0, 1):
        _check_unit(table, column, values[~missing], np.abs(scaled[~missing]))
    return np.column_stack([block, missing]).astype(np.float32) if column.indicator else block


def missing_nines(values: Array) -> str | None:
    """A remark on nines, such as 999 or -99, that are in several rows and far from all other numbers."""
    unique, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    for end, others in ((-1, unique[:-1]), (0, unique[1:])) if len(unique) > FEW else ():
        nines = re.fullmatch(r"-9+|99+", f"{unique[end]:.0f}") and unique[end] == round(unique[end])
        if nines and counts[end] > 1 and np.abs(unique[end] - others).min() > np.ptp(others):
            rest = f"from {others.min():g} to {others.max():g} in the others"
            return f"is {unique[end]:g} in {counts[end]:,} rows and {rest}. Is it a missing value"
    return None


def leakage(x: Tensor, y: Tensor, names: Sequence[str]) -> str | None:
    """A sentence about features that are constant within each larger class, and not over all."""
    classes, counts = y[y != UNKNOWN].unique(return_counts=True)
    common = classes[counts >= FEW_ROWS].tolist()
    if len(common) < 2:
        return None
    parts = [x[y == label] for label in common]
    within = torch.stack([(part == part[0]).all(0) for part in parts]).all(0)
    between = torch.stack([part[0] != parts[0][0] for part in parts]).any(0)
    telling = [names[feature] for feature in (within & between).nonzero().flatten().tolist()]
    remedy = "leave them out if they are known only with the label"
    return f"{listed(telling)}: the same for all nodes of a class; {remedy}" if telling else None


def _check_unit(table: Table, column: Column, values: Array, distance: Array) -> None:
    """Refuse a column that lies far from the codebook's centre, and warn of one that is shifted."""
    centre = f"scales from the codebook's centre {column.centre:g}"
    middle = float(np.median(distance)) if len(values) else 0.0
    far = values[distance > OUTLIER_SCALES]
    narrow = middle > 2 and np.std(distance) < NARROW
    if middle > OUTLIER_SCALES:
        many_far = f"{len(far):,} of {len(values):,} values are more than {OUTLIER_SCALES} {centre}"
        wrong = f"{many_far} (such as {far[0]:g}): convert another unit by `factor` in a mapping"
        table.refuse(None, f"column {column.name!r}: {wrong}")
    elif len(values) >= FEW_ROWS and (middle > SHIFTED_SCALES or narrow):
        shifted = f"half of the values are {middle:.0f} {centre} or more: another unit?"
        table.problems.warnings.append(f"column {column.name!r}: {shifted}")


def _words(table: Table, column: Column, blanks: set[str], remedy: str, done: Changes) -> Array:
    """One feature for each word of a category, and for `other` and `missing` where it has them."""
    features = {word: feature for feature, word in enumerate(column.words)}
    values = {word: features[word] for word in column.values}
    block = np.zeros((len(table.rows), len(features)), np.float32)
    how, others = "marked" if column.indicator else "taken as `other`", 0
    for index, cell in enumerate(table.text[column.name]):
        if cell in values:
            block[index, values[cell]] = 1
        elif cell.lower() in blanks and (column.indicator or column.other):
            block[index, features[ABSENT if column.indicator else OTHER]] = 1
            done.setdefault(f"missing, {how}", array("i")).append(index)
        elif cell.lower() in blanks:
            table.refuse_cell(index, column.name, "a word", f"is empty{remedy}")
        elif column.other:
            block[index, features[OTHER]] = 1
            others += 1
            what = f"{cell!r} is `other`"
            what = what if what in done or len(done) < CATEGORIES else "more words are `other`"
            done.setdefault(what, array("i")).append(index)
        else:
            table.refuse_cell(index, column.name, "one of the codebook's values")
    if 2 * others > len(table.rows) >= FEW_ROWS:
        most = f"{others:,} of {len(table.rows):,} rows hold words that are not in the codebook"
        wrong = f"column {column.name!r}: {most} ({listed(column.values)}): written otherwise here?"
        table.problems.warnings.append(wrong)
    return block


def unscaled_features(x: Tensor, names: Sequence[str]) -> str | None:
    """A sentence about features far larger than 1, which drown the others; None if there are none."""
    size = torch.linalg.vector_norm(x, dim=0) / len(x) ** 0.5
    large = [
        f"{names[feature] if names else f'number {feature}'} (about {float(size[feature]):.3g})"
        for feature in (size > LARGE).nonzero().flatten().tolist()
    ]
    remedy = "a codebook scales them (`pace codebook propose`)"
    count = f"{many(len(large), 'feature')} far larger than 1, not scaled"
    return f"{count}: {listed(large)}; {remedy}" if large else None
