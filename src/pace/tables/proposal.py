"""What a site says of its table before a codebook is agreed on, and the codebook of what all sites say.

A proposal holds kinds, categories and sizes, and no row. The codebook has the union of categories, and
pooled scaling.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Literal, Self

import numpy as np

from pace.errors import GraphError, ProblemsError, SettingError
from pace.io import many, optional
from pace.tables.cells import bound_parts, is_number
from pace.tables.codebook import BOTH, DIRECTIONS, Codebook, Column, Described, Kind, refuse_doubles
from pace.tables.dates import are_dates, show_day
from pace.tables.features import LIKE_NUMBERS, are_categories, column_values, kind_of, missing_nines
from pace.tables.importing import read_labels
from pace.tables.mapping import ColumnMapping, open_mapped
from pace.tables.problems import MOST_COLUMNS, Problems, check_choice, listed
from pace.tables.table import Table, check_option, data_columns, read_table
from pace.tables.words import MISSING, alike_notes, in_order, integer, like_numbers, missing_among

LEAST = 5  # rows: a category in fewer is counted, not named, and so are numbers
APART, FACTOR = 3, 1.7  # standard deviations between two sites' means, and their ratio
LARGEST = 1e39  # numbers in tables are float32

Sites = Mapping[str, "Proposal"]


@dataclass(frozen=True)
class Spread:
    """Where the numbers of a column lie."""

    mean: float
    sd: float

    def __post_init__(self) -> None:
        if not (abs(self.mean) < LARGEST and 0 <= self.sd < LARGEST):
            raise SettingError("a mean or a standard deviation is out of range")

    def is_apart(self, others: Sequence[Self]) -> bool:
        """Whether it lies so far from all others that it may be in another unit."""
        nearest = min(abs(self.mean - other.mean) for other in others)
        small, large = sorted((abs(self.mean), abs(fmean(other.mean for other in others))))
        within = min(spread.sd for spread in (self, *others))
        return nearest > APART * within and large > FACTOR * small


@dataclass(frozen=True)
class Summary:
    """One column; of a `text`, which has too many words to be a feature, only the name is told."""

    name: str
    kind: Kind | Literal["text"]
    rows: int = optional(0)  # with a value
    missing: int = optional(0)
    words: tuple[str, ...] = optional(())  # in at least LEAST rows
    spread: Spread | None = optional(None)  # of numbers, if there are enough

    def __post_init__(self) -> None:
        if not all(0 <= count < 2**53 for count in (self.rows, self.missing)):
            raise SettingError(f"column {self.name!r} has a number of rows that is out of range")


@dataclass(frozen=True)
class Proposal(Described):
    """A table's columns, as one site describes them."""

    FORMAT = "pace-columns-3"
    TITLE = "it"
    REMEDY = "give files that `pace codebook propose` made"
    DAMAGE = "; it is damaged: ask for it again"
    HEAD = """\
# What this site's table of nodes is like, for agreeing on a codebook. It holds no row of it; read it
# before you send it. Make the codebook with `pace codebook merge`.
"""

    rows: int
    id: str
    label: str
    classes: tuple[str, ...]
    missing: tuple[str, ...]
    weight: str = optional("")  # the column of the edges with their weights
    directions: str = optional(BOTH)  # of edges
    columns: tuple[Summary, ...] = field(kw_only=True)

    def __post_init__(self) -> None:
        if not 0 <= self.rows < 2**53 or len(self.columns) > MOST_COLUMNS:
            size = f"{self.rows} rows and {len(self.columns)} columns"
            raise SettingError(f"it has {size}, expected at most 2^53 and {MOST_COLUMNS:,}")
        refuse_doubles("column", (column.name for column in self.columns))

    def as_table(self) -> tuple[list[str], list[list[str]]]:
        rows = []
        for column in self.columns:
            holds = listed(column.words)
            if column.spread is not None:
                show = show_day if column.kind == "date" else "{:g}".format
                holds = f"{show(column.spread.mean)} ± {column.spread.sd:g}"
            counts = [f"{column.rows:,}", f"{column.missing:,}"]
            rows.append([column.name, column.kind, *counts, holds])
        return ["Column", "Kind", "Rows", "Missing", "Holds"], rows


def propose_columns(
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
    mapping: ColumnMapping | None = None,
) -> tuple[Proposal, list[str]]:
    """Describe a table, and note what to look at; problems are listed with their rows.

    `category` are columns of codes; `missing` are more words for a missing value; categories in fewer
    than `least` rows are not named. With a `mapping`, columns may be named as the table has them.
    """
    check_choice("--directions", directions, DIRECTIONS)
    file, problems = open_mapped(nodes, mapping), Problems()
    if mapping is not None:
        label, id_column = mapping.called(label), id_column and mapping.called(id_column)
        without, category = ([*map(mapping.called, names)] for names in (without, category))
        without = [name for name in without if name in file.columns]  # else it has no line
    ids = [id_column] if id_column else []
    options = {"label": [label], "id": ids, "without": without, "category": category}
    for option, names in options.items():
        for name in names:
            check_option(option, name, file.columns, nodes.name)
    left = data_columns(file, problems, without={label, *without} - {id_column})
    table = read_table(file, problems, text=[label, *left], numbers=left, decimal=decimal)
    if not table.rows:
        raise GraphError(f"{nodes.name} has no rows below its header")
    text = {name: table.text[name] for name in left}
    if not id_column:
        possible = possible_ids(text)
        if len(possible) != 1:
            which = f"{', '.join(possible) or 'no column'} could be it"
            raise SettingError(f"which column has the id of a node? {which}: say so with --id")
        id_column = possible[0]
        if id_column != "id":
            problems.notes.append(f"the id is {id_column!r} (else: --id)")
    words = dict.fromkeys((*MISSING, *(word.strip().lower() for word in missing)))
    signs = {"+"} if any("+" in cells for cells in text.values()) else set[str]()
    absent = missing_among(signs, tuple(words))
    _, classes = read_labels(table, label, (), absent)
    columns = tuple(
        describe_column(table, name, absent, least=least, forced=name in category)
        for name in left
        if name != id_column
    )
    problems.stop()
    about = (len(table.rows), id_column, label, classes, absent)
    proposal = Proposal(*about, weight=weight, directions=directions, columns=columns)
    return proposal, [*problems.notes, *_remarks(table, columns), *problems.warnings]


def possible_ids(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """The column called id, or those that differ in every row and are no dates or measurements."""
    if "id" in columns:
        return ["id"]
    return [
        name
        for name, cells in columns.items()
        if not any("," in cell or "." in cell for cell in cells)
        if len(set(cells)) == len(cells) > 1 and not are_dates(cells)
    ]


def describe_column(
    table: Table, name: str, absent: Collection[str], *, least: int, forced: bool = False
) -> Summary:
    """A column by what its cells are: dates, numbers or words; `forced` if it must be a category."""
    kind, rows = "category" if forced else kind_of(table, name, absent), len(table.rows)
    if kind == "date" or kind == "number":
        values, missing, wrong, expected = column_values(table, name, kind, absent)
        for index in np.flatnonzero(wrong).tolist():
            cell, hint = table.text[name][index], ""
            if kind == "number" and bound_parts(cell) is not None:
                hint = "holds limits or ranges: --mapping FILE proposes how to read them"
            elif kind == "number" and not is_number(cell):
                remedy = f"say --missing {cell!r} if it means so, or --category {name}"
                hint = f"holds words among its numbers: {remedy}"
            table.refuse_cell(index, name, expected, hint)
        values = values[~missing & ~wrong]
        if kind == "number" and (remark := missing_nines(values)) is not None:
            table.problems.warnings.append(f"column {name!r} {remark}: then say --missing")
        if kind == "number" and np.isin(values, (0, 1)).all():
            return Summary(name, "flag", len(values), rows - len(values))
        spread = None
        if len(values) >= LEAST:
            spread = Spread(significant(float(values.mean())), significant(float(values.std())))
        return Summary(name, kind, len(values), rows - len(values), spread=spread)
    counts = Counter(cell for cell in table.text[name] if cell.lower() not in absent)
    total = counts.total()
    if kind is None or not are_categories(counts, least, forced=forced):
        return Summary(name, "text", total, rows - total)
    frequent = in_order(word for word, count in counts.items() if count >= least)
    return Summary(name, "category", total, rows - total, tuple(frequent))


def significant(value: float) -> float:
    """A mean or standard deviation to the six digits that are told of it."""
    return float(f"{value:.6g}")


def _remarks(table: Table, columns: Sequence[Summary]) -> list[str]:
    """What to look at, columns of a kind together."""

    def may_be_codes(name: str) -> bool:
        values = np.unique(table.numbers[name].values)
        values = values[np.isfinite(values)]
        few = 2 < len(values) <= 10 and bool((values == np.round(values)).all())
        return few or any(re.fullmatch(r"0\d+", cell) for cell in table.text[name])

    texts, numbers = ([c.name for c in columns if c.kind == kind] for kind in ("text", "number"))
    codes = [name for name in numbers if may_be_codes(name)]
    named = {
        "empty or too many different words, so no feature": texts,
        LIKE_NUMBERS: [column.name for column in columns if like_numbers(column.words)],
        "few whole numbers, or zeros in front; if they are codes, say --category": codes,
    }
    return [f"{remark}: {listed(names)}" for remark, names in named.items() if names]


def merge_proposals(sites: Sites, *, classes: Sequence[str] = ()) -> tuple[Codebook, list[str]]:
    """One codebook for all sites, and notes on it; columns whose kinds contradict are refused."""
    columns: dict[str, dict[str, Summary]] = {}
    for site, proposal in sites.items():
        for summary in proposal.columns:
            columns.setdefault(summary.name, {})[site] = summary
    notes, warnings, merged, wrong = list[str](), list[str](), [], []
    for name, own in columns.items():
        kinds = {column.kind for column in own.values()}
        if lacking := [site for site in sites if site not in own]:
            notes.append(f"{name!r} is left out: not at {', '.join(lacking)}")
        elif "text" in kinds:
            where = [site for site, column in own.items() if column.kind == "text"]
            notes.append(f"{name!r} is left out: empty, or too many words, at {', '.join(where)}")
        elif len(kinds) > 1 and kinds != {"flag", "number"}:
            listing = ", ".join(f"{column.kind} at {site}" for site, column in own.items())
            wrong.append(f"{name!r} is {listing}: propose it with --category {name}, or clean it")
        elif kinds == {"category"} and (alien := _alone({s: c.words for s, c in own.items()})):
            wrong.append(f"category {name!r} has no word in common: {alien}")
        else:
            merged.append(_merge_column(name, own, notes, warnings))
    if not classes and (alien := _alone({s: p.classes for s, p in sites.items()})):
        wrong.append(f"the label has no class in common: {alien}")
    if wrong:
        raise ProblemsError(f"{many(len(wrong), 'column')} cannot be put together:", wrong)
    if not merged:
        raise GraphError("the sites have no column in common: give columns the same names")
    agreed = {}
    for setting in ("label", "id", "weight", "directions"):
        values = {site: getattr(proposal, setting) for site, proposal in sites.items()}
        agreed[setting] = usual = Counter(values.values()).most_common(1)[0][0]
        others = [site for site, value in values.items() if value != usual]
        if others and setting in ("weight", "directions"):  # their mean would mean nothing
            listing = ", ".join(f"{value or 'none'} at {site}" for site, value in values.items())
            raise GraphError(f"sites differ in --{setting} of edges, {listing}: propose again")
        if others:
            remedy = f"{', '.join(others)}: import with --{setting}"
            notes.append(f"the {setting} is {usual!r}; {remedy}")
    codebook = Codebook(
        **agreed,
        classes=_merge_classes(sites, classes, notes, warnings),
        missing=tuple(dict.fromkeys(word for site in sites.values() for word in site.missing)),
        warnings=tuple(warnings),
        columns=tuple(merged),
    )
    return codebook, notes


def _alone(words: Mapping[str, Sequence[str]]) -> str | None:
    """Of sites that share no word with any other: which, and what to do; None if all share some."""
    named = {site: set(own) for site, own in words.items() if own}
    alone = [
        f"{site} has {listed([*map(repr, words[site])], 4)}"
        for site, own in named.items()
        if len(named) > 1 and not any(own & named[other] for other in named if other != site)
    ]
    remedy = "Map one to the other (--like), leave it out (--without), or give --classes"
    return f"{'; '.join(alone)}. {remedy}" if alone else None


def _merge_classes(
    sites: Sites, classes: Sequence[str], notes: list[str], warnings: list[str]
) -> tuple[str, ...]:
    """The classes in order; notes tell which are not everywhere, and which are spelt alike."""
    own = {site: set(proposal.classes) for site, proposal in sites.items()}
    every = set().union(*own.values())
    if classes and (left := sorted(every - {*classes})):
        raise SettingError(f"--classes lacks {', '.join(left)}, which occur at a site: list all")
    names = tuple(classes or in_order(every))
    if len(names) == 1:
        raise SettingError(f"{names[0]!r} is the only class at all sites: nothing can be learnt")
    for name in names:
        where = [site for site in sites if name in own[site]]
        if len(where) < len(sites):
            notes.append(f"class {name!r} occurs at {', '.join(where) or 'no site'} only")
    notes += alike_notes("the label", names, "classes")
    for one, two in combinations(sites, 2) if None not in map(integer, names) else ():
        if own[one] - own[two] and own[two] - own[one]:
            first, second = (listed(in_order(own[site])) for site in (one, two))
            both = f"{first} at {one} and {second} at {two}"
            warnings.append(f"the classes are {both}: do the numbers mean the same?")
    return names


def _merge_column(
    name: str, own: Mapping[str, Summary], notes: list[str], warnings: list[str]
) -> Column:
    """One column of all sites' summaries of it: numbers with the mean and deviation of all rows."""
    kinds = {column.kind for column in own.values()}
    missing = any(column.missing for column in own.values())
    if kinds == {"category"}:
        words = {word for column in own.values() for word in column.words}
        notes += alike_notes(repr(name), words, "categories")
        values = tuple(in_order(words)) or ("other",)
        return Column(name, "category", values, other=True, indicator=missing)
    if kinds == {"flag"}:
        return Column(name, "flag", fill=0.0, indicator=missing)
    spreads = {site: column.spread for site, column in own.items() if column.spread is not None}
    for site, spread in spreads.items() if "date" not in kinds else ():
        others = [other for where, other in spreads.items() if where != site]
        if others and spread.is_apart(others):
            rest = f"{fmean(other.mean for other in others):.4g} elsewhere: another unit?"
            warnings.append(f"{name!r} is about {spread.mean:g} at {site} and {rest}")
    centre, scale = 0.0, 1.0
    rows = {site: own[site].rows for site in spreads}
    if total := sum(rows.values()):
        mean = sum(rows[site] * s.mean for site, s in spreads.items()) / total
        squares = sum(rows[site] * (s.sd**2 + (s.mean - mean) ** 2) for site, s in spreads.items())
        centre, scale = significant(mean), significant(math.sqrt(squares / total)) or 1.0
    kind: Kind = "date" if "date" in kinds else "number"
    return Column(name, kind, centre=centre, scale=scale, fill=centre, indicator=missing)
