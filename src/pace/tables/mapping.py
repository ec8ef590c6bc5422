"""A site's mapping: how the columns of its own export become the columns that sites agree on.

`ColumnMapping.HEAD`, with which every such file begins, says what a line may hold. Of limits, `<3` is
half of 3, `>100` is 100, `60-69` is their middle and `80+` is 80.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pace.errors import GraphError, SettingError, did_you_mean
from pace.io import optional, record_key, records
from pace.tables.cells import Array, Words, bound_parts
from pace.tables.codebook import Described, refuse_doubles
from pace.tables.dates import are_dates, parse_dates, unclear_days
from pace.tables.problems import Problems, listed
from pace.tables.table import Read, TableFile, open_table
from pace.tables.words import MISSING

YEAR = 365.25  # days
NOTHING = ("", "-", "–", "none")  # in a cell that may hold several words
OPEN = "?"  # in the place of a word that a person has to say


@dataclass(frozen=True)
class Rule:
    """How one column of the export becomes one or, with `flags`, several columns."""

    name: str  # as the sites agree
    source: str = field(metadata=record_key("from"))  # as the export has it
    values: dict[str, str] = field(default_factory=dict, metadata=records.OPTIONAL)
    unit: str = optional("")
    factor: float = optional(1.0)
    offset: float = optional(0.0)
    limits: bool = optional(False)
    age_at: str = optional("")
    separator: str = optional("")
    flags: dict[str, str] = field(default_factory=dict, metadata=records.OPTIONAL)
    look: str = optional("")  # what a person should look at

    def __post_init__(self) -> None:
        if not self.name or not self.source:
            raise SettingError("a line of the mapping has an empty name or from")
        if self.factor == 0:
            raise SettingError(f"{self.name!r} has the factor 0, which makes all values alike")
        if bool(self.flags) != bool(self.separator):
            raise SettingError(f"{self.name!r} has flags or a separator: give both, or none")

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what it becomes."""
        return tuple(self.flags.values()) or (self.name,)

    @property
    def converts(self) -> bool:
        """Whether it makes numbers."""
        return bool(self.unit) or self.limits or (self.factor, self.offset) != (1, 0)

    def numerals(self, cells: Iterable[str]) -> Words:
        return Words(numeral for cell in cells for numeral in self._parts(cell)[0])

    def convert(self, cells: Sequence[str], numbers: Array) -> Array:
        """What cells become, of the numbers in them, which are float32 as any column's."""
        parts = [(len(numerals), weight) for numerals, weight in map(self._parts, cells)]
        counts, weights = np.array(parts).reshape(-1, 2).T
        sums = np.zeros(len(cells), np.float32)
        np.add.at(sums, np.repeat(np.arange(len(cells)), counts.astype(int)), numbers)
        with np.errstate(over="ignore"):
            converted: Array = (sums * weights * self.factor + self.offset).astype(np.float32)
        return converted

    def _parts(self, cell: str) -> tuple[Sequence[str], float]:
        """The numbers in a cell, and the weight by which they are summed."""
        return (bound_parts(cell) if self.limits else None) or ((cell,), 1.0)


@dataclass(frozen=True)
class ColumnMapping(Described):
    FORMAT = "pace-mapping-1"
    TITLE = "the mapping"
    REMEDY = "`pace codebook propose --mapping` makes one"
    HEAD = """\
# How this site's columns become the columns that sites agree on: a line each. Read it and change what
# is wrong; a column whose line is deleted is not used. `from` is the name in your table. Also:
#   values = {ja = "1", nein = "0"}     what words become
#   unit = "mg", factor = 0.1, offset = 0.0, limits = true
#                                       numbers: text behind them, another unit, <3 and 60-69
#   age_at = "2024-12-31"               a date of birth becomes an age on a day, or in a column's
#   separator = ";", flags = {E11 = "diabetes"}
#                                       each of several words in a cell becomes a column of 0 and 1
#   look = "..."                        what to look at here, and nothing else
# It stays at this site: `pace codebook propose --mapping` and `pace graph import --mapping` read it.
"""

    columns: tuple[Rule, ...]

    def __post_init__(self) -> None:
        refuse_doubles("column", (name for rule in self.columns for name in rule.columns))

    def called(self, name: str) -> str:
        """The agreed name of a column that is called so here."""
        return next((rule.name for rule in self.columns if rule.source == name), name)

    @property
    def unsettled(self) -> list[str]:
        """What a person has to say before it can be used."""
        return [
            f"{rule.name}: what is {word!r}?"
            for rule in self.columns
            for word, becomes in rule.values.items()
            if becomes == OPEN
        ]


def open_mapped(path: Path, mapping: ColumnMapping | None) -> TableFile:
    """A table whose header has been read, seen through the mapping if there is one."""
    file = open_table(path)
    return file if mapping is None else MappedFile(file, mapping)


class MappedFile(TableFile):
    """A table seen through a mapping: it has the agreed columns, and what is in them is as agreed."""

    def __init__(self, file: TableFile, mapping: ColumnMapping) -> None:
        super().__init__(file.path)
        if left := mapping.unsettled:
            raise SettingError(f"the mapping says {OPEN!r}: {listed(left)} Replace each {OPEN!r}.")
        for rule in mapping.columns:
            if rule.source not in file.columns:
                has = f"{did_you_mean(rule.source, file.columns)}it has {listed(file.columns, 12)}"
                raise GraphError(
                    f"{file.name} has no column {rule.source!r}, the mapping's {rule.name!r}; {has}"
                )
        self.file, self.rules = file, mapping.columns
        self.delimiter, self.notes = file.delimiter, file.notes
        self.columns = [name for rule in self.rules for name in rule.columns]
        self.conversions = {name: r for r in self.rules if r.converts for name in r.columns}

    def read(self, columns: Sequence[str], problems: Problems) -> Read:
        rules = [rule for rule in self.rules if {*columns} & {*rule.columns}]
        sources = [rule.source for rule in rules]
        sources += [rule.age_at for rule in rules if rule.age_at in self.file.columns]
        rows, raw = self.file.read(list(dict.fromkeys(sources)), problems)
        cells: dict[str, Sequence[str]] = {}
        for rule in rules:
            cells |= self._cells(rule, raw, problems)
        return rows, {name: cells[name] for name in columns}

    def _cells(
        self, rule: Rule, raw: Mapping[str, Sequence[str]], problems: Problems
    ) -> dict[str, Words]:
        """What the cells of a column become before they are read as numbers."""
        values = {word.casefold(): becomes for word, becomes in rule.values.items()}
        cells = [values.get(cell.casefold(), cell) for cell in raw[rule.source]]
        if rule.flags:
            parts = [{p.strip().casefold() for p in cell.split(rule.separator)} for cell in cells]
            unknown = {*MISSING} - {*NOTHING}
            absent = [cell.casefold() in unknown for cell in cells]
            flags = {}
            for word, name in rule.flags.items():  # an empty cell holds none of the words
                pairs = zip(parts, absent, strict=True)
                flags[name] = Words("" if no else str(int(word.casefold() in p)) for p, no in pairs)
            return flags
        if rule.age_at:
            ends = raw.get(rule.age_at, [rule.age_at] * len(cells))
            if rule.age_at not in raw and not are_dates({rule.age_at}):
                expected = f"expected a day such as 2024-12-31 or a column of {self.name}"
                raise SettingError(f"age_at of {rule.name!r} is {rule.age_at!r}, {expected}")
            if unclear := unclear_days(cells) or unclear_days(ends):
                problems.add(self.name, None, f"column {rule.source!r} {unclear}")
            born, until = parse_dates(cells), parse_dates(ends)
            for index in np.flatnonzero(np.isnan(until) & ~np.isnan(born)).tolist():
                cells[index] = ends[index]  # a missing day is a missing age
            if later := int((born > until).sum()):
                wrong = f"{later:,} days of {rule.source!r} are after {rule.age_at!r}: ages are negative"
                problems.add(self.name, None, wrong)
            ages = zip(((until - born) / YEAR).tolist(), cells, strict=True)
            cells = [f"{age:.2f}" if age == age else cell for age, cell in ages]
        if rule.unit:
            cells = [cell.removesuffix(rule.unit).rstrip() for cell in cells]
        return {rule.name: Words(cells)}
