"""What a site says of its table before a codebook is agreed on: kinds, categories, sizes, and no row."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from pace.errors import FileError, GraphError, SettingError, did_you_mean
from pace.io import atomic, regular, toml, untrusted
from pace.tables import dates, suspicions
from pace.tables.codebook import BOTH, DIRECTIONS, MISSING, missing_in
from pace.tables.encode import UNCLEAR
from pace.tables.features import CATEGORIES
from pace.tables.nodes import in_order
from pace.tables.nodes import labels as read_labels
from pace.tables.problems import Problems
from pace.tables.table import Numbers, Table
from pace.tables.tables import header, named, read

FORMAT = "pace-columns-1"
LARGEST = 16 * 2**20  # bytes of a file
LEAST = 5  # rows: a category in fewer is counted, not named, and so are numbers
DIGITS = 6  # of means and standard deviations
EDGES = ("weight", "directions")  # what is said of edges, if anything
KINDS = ("number", "flag", "category", "date", "text")
HEAD = """\
# What this site's table of nodes is like, for agreeing on a codebook. It holds no row of it; read it
# before you send it. Make the codebook with `pace codebook merge`.
"""

Values = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Spread:
    """Where the numbers of a column lie."""

    mean: float
    sd: float
    low: float  # rounded outwards
    high: float
    quartiles: tuple[float, float, float]  # rounded


@dataclass(frozen=True)
class Summary:
    """One column. `text` is a column of too many words to be a feature: only its name is said."""

    name: str
    kind: str
    rows: int = 0  # with a value
    missing: int = 0
    words: tuple[str, ...] = ()  # categories in at least LEAST rows
    rare: int = 0  # rows in other categories
    spread: Spread | None = None  # of numbers and dates, if there are enough


@dataclass(frozen=True)
class Proposal:
    """A table's columns, as one site describes them."""

    rows: int
    id: str
    label: str
    classes: tuple[str, ...]
    missing: tuple[str, ...]
    columns: tuple[Summary, ...]
    weight: str = ""  # the column of the edges with their weights
    directions: str = BOTH  # of edges

    def plain(self) -> dict[str, object]:
        """As a file has it."""
        columns = [
            {key: value for key, value in asdict(column).items() if value}
            for column in self.columns
        ]
        told = {key: value for key, value in asdict(self).items() if key not in EDGES}
        edges = {key: getattr(self, key) for key in EDGES if getattr(self, key) not in ("", BOTH)}
        return {"format": FORMAT, **told, **edges, "columns": columns}


def propose(
    nodes: Path,
    *,
    label: str,
    id_column: str | None = None,
    without: Sequence[str] = (),
    category: Sequence[str] = (),
    missing: Sequence[str] = (),
    least: int = LEAST,
    decimal: str | None = None,
    weight: str = "",
    directions: str = BOTH,
) -> tuple[Proposal, list[str]]:
    """Describe a table, and say what is to be looked at; problems are listed with their rows."""
    if directions not in DIRECTIONS:
        raise SettingError(f"--directions is {directions!r}, expected {' or '.join(DIRECTIONS)}")
    notes: list[str] = []
    names = header(nodes)
    named_id = [id_column] if id_column else []
    options = {"label": [label], "id": named_id, "without": without, "category": category}
    for option, asked in options.items():
        for name in asked:
            if name not in names:
                raise SettingError(
                    f"--{option} names {name!r}, which {nodes.name} does not have: "
                    f"{did_you_mean(name, names)}it has {', '.join(names[:12])}"
                )
    absent = tuple(dict.fromkeys((*MISSING, *(word.strip().lower() for word in missing))))
    left = [name for name in named(nodes, names, notes) if name != label and name not in without]
    problems = Problems()
    table = read(nodes, text=[label], numbers=left, problems=problems, decimal=decimal)
    if not table.rows:
        raise GraphError(f"{nodes.name} has no rows below its header: there is nothing to describe")
    words = read(nodes, text=left, problems=Problems())
    id_column = id_column or _id(words, notes)
    if repeated := len(table.rows) - len(set(words.text[id_column])):
        notes.append(f"the id {id_column!r} repeats in {repeated} rows: an import will refuse them")
    absent = missing_in({cell for cells in words.text.values() for cell in cells}, absent)
    _, classes = read_labels(table, label, (), problems, notes, absent)
    columns = [
        _summary(name, table, words, absent, problems, forced=name in category, least=least)
        for name in left
        if name != id_column
    ]
    problems.stop()
    notes += _remarks(columns)
    return (
        Proposal(
            len(table.rows), id_column, label, classes, absent, tuple(columns), weight, directions
        ),
        [*table.notes, *notes],
    )


def _id(words: Table, notes: list[str]) -> str:
    """The column called id, or the one that is different in every row."""
    if "id" in words.text:
        return "id"
    unique = [name for name, cells in words.text.items() if _could_be_id(cells)]
    if len(unique) == 1:
        notes.append(f"{unique[0]!r} is different in every row: taken as the id (else: --id)")
        return unique[0]
    found = f"{', '.join(unique)} could be it" if unique else "no column is different in every row"
    raise SettingError(f"which column has the id of a node? {found}: say so with --id")


def _could_be_id(cells: Sequence[str]) -> bool:
    """Different in every row, and neither a date nor a measured number."""
    values = set(cells)
    measured = any("," in cell or "." in cell for cell in cells)
    return len(values) == len(cells) > 1 and not measured and not dates.are_dates(values)


def _summary(
    name: str,
    table: Table,
    words: Table,
    absent: Sequence[str],
    problems: Problems,
    *,
    forced: bool,
    least: int,
) -> Summary:
    numbers, cells = table.numbers[name], words.text[name]
    present = [cell for cell in cells if cell.lower() not in absent]
    lacking = len(cells) - len(present)
    if not present:
        return Summary(name, "text", 0, lacking)
    if forced:
        return _category(name, present, lacking, least)
    if dates.are_dates(set(present)):
        if dates.unclear(present):
            problems.add(table.file, None, UNCLEAR.format(name))
        found = dates.days(present)
        return _sized(name, "date", np.array([day for day in found if day is not None]), lacking)
    values = _values(numbers, absent)
    if len(values) == len(present):
        kind = "flag" if np.isin(values, (0, 1)).all() else "number"
        return _sized(name, kind, values, lacking)
    if 2 * sum(map(suspicions.is_number, present)) > len(present):
        _tell_words(name, table, numbers, absent, problems)
        return Summary(name, "number")
    if (wrong := suspicions.not_words(set(present))) is not None:
        problems.add(table.file, None, f"column {name!r} {wrong}, or say --category {name}")
    return _category(name, present, lacking, least)


def _values(numbers: Numbers, absent: Sequence[str]) -> Values:
    values = numbers.values[:, 0].astype(np.float64)
    return values[np.isfinite(values)]


def _tell_words(
    name: str, table: Table, numbers: Numbers, absent: Sequence[str], problems: Problems
) -> None:
    """Words in a column of numbers are missing values, or the column is a category: who knows?"""
    wanted = "a number with a decimal comma" if numbers.mixed else "a number"
    for index in np.flatnonzero(~np.isfinite(numbers.values[:, 0])).tolist():
        if index not in numbers.text:
            text = f"{name!r} is {numbers.values[index, 0]}, expected a finite number"
            problems.add(table.file, table.rows[index], text, kind=text)
    for index, cell in numbers.text.items():
        if cell.lower() not in absent:
            problems.add(
                table.file,
                table.rows[index],
                f"{name!r} is {cell!r}, expected {wanted}",
                kind=f"{name!r} holds words among its numbers: say which of them mean that the value "
                f"is missing (--missing {cell!r}), or that it is a category (--category {name})",
                cell=cell,
            )


def _category(name: str, cells: Sequence[str], lacking: int, least: int) -> Summary:
    counts = Counter(cells)
    if len(counts) > max(CATEGORIES, 0):
        return Summary(name, "text", len(cells), lacking)
    often = [word for word, count in counts.items() if count >= least]
    rare = sum(count for count in counts.values() if count < least)
    return Summary(name, "category", len(cells), lacking, tuple(in_order(set(often))), rare)


def _sized(name: str, kind: str, values: Values, lacking: int) -> Summary:
    count = len(values)
    if kind == "flag" or count < LEAST:
        return Summary(name, kind, count, lacking)
    low, high = float(values.min()), float(values.max())
    step = _step(high - low or abs(high) or 1.0)
    first, median, third = (float(each) for each in np.quantile(values, (0.25, 0.5, 0.75)))
    fine = _step(third - first or high - low or 1.0) / 10
    spread = Spread(
        significant(float(values.mean())),
        significant(float(values.std())),
        significant(math.floor(low / step) * step),
        significant(math.ceil(high / step) * step),
        (_rounded(first, fine), _rounded(median, fine), _rounded(third, fine)),
    )
    return Summary(name, kind, count, lacking, spread=spread)


def _rounded(value: float, step: float) -> float:
    return significant(round(value / step) * step)


def _step(span: float) -> float:
    return float(10 ** math.floor(math.log10(span)))


def significant(value: float, digits: int = DIGITS) -> float:
    return float(f"{value:.{digits}g}")


def _remarks(columns: Sequence[Summary]) -> list[str]:
    """What whoever reads the proposal should look at, columns of a kind together."""
    empty = [column.name for column in columns if column.kind == "text" and not column.rows]
    words = [column.name for column in columns if column.kind == "text" and column.rows]
    rare = [column.name for column in columns if column.rare]
    codes = [column.name for column in columns if _looks_like_codes(column)]
    units = [column.name for column in columns if suspicions.unit(column.words) is not None]
    said = [
        (empty, "empty, so no feature: {}"),
        (words, "too many different words to be a feature: {}"),
        (rare, "some rows have rare words, which are not named and become `other`: {}"),
        (units, "numbers with a unit behind them, taken as words; without it they are numbers: {}"),
        (codes, "few whole numbers; if they are codes and no counts, say --category: {}"),
    ]
    return [sentence.format(_listed(names)) for names, sentence in said if names]


def _looks_like_codes(column: Summary) -> bool:
    spread = column.spread
    if column.kind != "number" or spread is None or spread.high - spread.low > 10:
        return False
    return all(map(float.is_integer, spread.quartiles))


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return ", ".join(names[:6]) + more


def table(proposal: Proposal) -> tuple[list[str], list[list[str]]]:
    """Heads and rows, for people."""
    heads = ["Column", "Kind", "Rows", "Missing", "Holds"]
    lines = []
    for column in proposal.columns:
        holds = ", ".join(column.words[:6]) + (", …" if len(column.words) > 6 else "")
        if column.spread is not None:
            ends = (column.spread.low, column.spread.high)
            low, high = map(dates.day if column.kind == "date" else "{:g}".format, ends)
            holds = f"{low} to {high}"
        counts = [f"{column.rows:,}", f"{column.missing:,}"]
        lines.append([column.name, column.kind, *counts, holds])
    return heads, lines


def disclosed(proposal: Proposal, least: int = LEAST) -> list[str]:
    """What the file tells whoever reads it, in sentences."""
    kinds = Counter(column.kind for column in proposal.columns)
    named = sum(len(column.words) for column in proposal.columns)
    said = [
        f"The names of {len(proposal.columns)} columns, that there are {proposal.rows:,} rows, the "
        f"{len(proposal.classes)} classes in {proposal.label!r}, and for each column how many values "
        "are missing. No row, no id, no edge."
    ]
    if kinds["category"]:
        said.append(f"Of categories: {named} words, each of which stands in {least} rows or more.")
    if kinds["number"] or kinds["date"]:
        said.append(
            f"Of numbers and dates: mean and standard deviation to {DIGITS} digits (which is what "
            "their sum and sum of squares say), range and quartiles rounded."
        )
    return said


def write(path: Path, proposal: Proposal) -> None:
    atomic.write(path, (HEAD + "\n" + toml.dump(proposal.plain(), {})).encode())


def load(path: Path) -> Mapping[str, Any]:
    """A TOML file of some megabytes at most."""
    try:
        return untrusted.toml(regular.read(path, LARGEST))
    except OSError as error:
        raise GraphError(f"cannot read {path}: {error.strerror}") from error
    except FileError:
        raise
    except ValueError as error:
        raise GraphError(f"{path} is not TOML ({error})") from error


def read_proposal(path: Path) -> Proposal:
    """What another site wrote; its numbers are checked before they are added up."""
    found = load(path)
    if found.get("format") != FORMAT:
        raise GraphError(
            f"{path} has format {found.get('format')!r}, expected {FORMAT!r}: give files that "
            "`pace codebook propose` made"
        )
    try:
        columns = tuple(map(_read_summary, found["columns"]))
        edges = found.get("weight", ""), found.get("directions", BOTH)
        texts = [found["id"], found["label"], *found["classes"], *found["missing"], *edges]
        rows = found["rows"]
        if not all(isinstance(text, str) for text in texts) or not _is_count(rows):
            raise ValueError("a name is not text, or the number of rows is not a count")
        if len({column.name for column in columns}) < len(columns):
            raise ValueError("a column occurs twice")
        return Proposal(
            rows,
            found["id"],
            found["label"],
            tuple(found["classes"]),
            tuple(found["missing"]),
            columns,
            *edges,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise GraphError(f"{path} is damaged ({error}): ask for it again") from error


def _read_summary(found: Mapping[str, Any]) -> Summary:
    """A column as `propose` writes it, and nothing else."""
    if unknown := set(found) - {field.name for field in fields(Summary)}:
        raise ValueError(f"a column has the unknown key {min(unknown)!r}")
    name, kind, words = found["name"], found["kind"], tuple(found.get("words", ()))
    counts = [found.get(key, 0) for key in ("rows", "missing", "rare")]
    sound = kind in KINDS and all(map(_is_count, counts))
    if not sound or not all(isinstance(word, str) for word in (name, *words)):
        raise ValueError(f"column {str(name)!r} is not as `pace codebook propose` writes it")
    spread = _read_spread(found["spread"]) if "spread" in found else None
    return Summary(name, kind, counts[0], counts[1], words, counts[2], spread)


def _read_spread(found: Mapping[str, Any]) -> Spread:
    mean, sd, low, high = (found[key] for key in ("mean", "sd", "low", "high"))
    first, median, third = found["quartiles"]
    if not all(map(_is_number, (mean, sd, low, high, first, median, third))) or sd < 0:
        raise ValueError("a mean, a range or a quartile is not a finite number")
    return Spread(mean, sd, low, high, (first, median, third))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
