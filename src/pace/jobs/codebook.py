"""One codebook of what every site says of its columns: the union of categories, pooled scaling."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pace.errors import FileError, GraphError, SettingError
from pace.io import atomic, toml
from pace.jobs.proposal import EDGES, Proposal, Summary, load, significant
from pace.tables import codebook, dates
from pace.tables.codebook import Codebook, Column
from pace.tables.nodes import in_order
from pace.tables.suspicions import alike

FORMAT = "pace-codebook-1"
SCALINGS = ("standard", "robust", "none")
NORMAL = 1.349  # interquartile range of a normal distribution, in standard deviations
APART = 3  # standard deviations between a site's mean and all sites': most often another unit
HEAD = """\
# How the columns of everybody's table of nodes become features. Read it and change what is wrong:
# kinds, values, centre and scale, fill and indicator can be given by hand. Then
# `pace new job.pace --codebook THIS_FILE` puts it into a job, where it stays as it is.
"""

Sites = Mapping[str, Proposal]


@dataclass(frozen=True)
class Merged:
    """The codebook, and what those who agree to it should look at."""

    codebook: Codebook
    notes: list[str]


def merge(sites: Sites, *, scaling: str = "standard", classes: Sequence[str] = ()) -> Merged:
    """One codebook for all sites. Kinds that contradict each other are refused, all at once."""
    if scaling not in SCALINGS:
        raise SettingError(f"--scale is {scaling!r}, expected one of {', '.join(SCALINGS)}")
    notes: list[str] = []
    columns, wrong = [], []
    names = dict.fromkeys(column.name for site in sites.values() for column in site.columns)
    for name in names:
        held = {
            site: column
            for site, proposal in sites.items()
            for column in proposal.columns
            if column.name == name
        }
        if lacking := [site for site in sites if site not in held]:
            near = {other for group in alike(names) if name in group for other in group} - {name}
            called = f" ({', '.join(map(repr, sorted(near)))} is another name)" if near else ""
            notes.append(f"{name!r} is left out: not at {', '.join(lacking)}{called}")
            continue
        kinds = {site: column.kind for site, column in held.items()}
        if "text" in kinds.values():
            where = [site for site, kind in kinds.items() if kind == "text"]
            notes.append(f"{name!r} is left out: empty, or too many words, at {', '.join(where)}")
        elif len(set(kinds.values()) - {"flag"}) > 1 or (
            "flag" in kinds.values() and {"category", "date"} & set(kinds.values())
        ):
            said = ", ".join(f"{kind} at {site}" for site, kind in kinds.items())
            wrong.append(
                f"{name!r} is {said}: propose it again with --category {name}, or clean it"
            )
        else:
            columns.append(_column(name, held, scaling, notes))
    if wrong:
        raise GraphError("\n  ".join([f"{len(wrong)} columns do not fit together:", *wrong]))
    if not columns:
        raise GraphError("the sites have no column in common: give columns the same names")
    label, id_column = (_agreed(sites, which, notes) for which in ("label", "id"))
    listed = list(classes) or in_order({each for site in sites.values() for each in site.classes})
    notes += _only_somewhere(sites, listed)
    for group in alike(listed):
        notes.append(f"classes {' and '.join(map(repr, group))}: if they are one, write them alike")
    missing = dict.fromkeys(word for site in sites.values() for word in site.missing)
    weight, directions = (_edges(sites, which) for which in EDGES)
    rest = (id_column, tuple(missing), weight, directions)
    made = Codebook(tuple(columns), label, tuple(listed), *rest)
    return Merged(made, notes)


def _agreed(sites: Sites, which: str, notes: list[str]) -> str:
    """What most sites call it; the others say so when they import."""
    called = [str(getattr(site, which)) for site in sites.values()]
    usual = max(called, key=called.count)
    if others := [name for name, each in zip(sites, called, strict=True) if each != usual]:
        notes.append(f"the {which} is {usual!r}; {', '.join(others)}: give --{which} at import")
    return usual


def _edges(sites: Sites, which: str) -> str:
    """What all sites say of their edges: a sum of weighted and plain graphs is nobody's."""
    called = {site: str(getattr(proposal, which)) for site, proposal in sites.items()}
    if len(set(called.values())) > 1:
        said = ", ".join(f"{each or 'none'} at {site}" for site, each in called.items())
        raise GraphError(
            f"sites differ in --{which} of their edges, {said}: rename columns and propose again"
        )
    return next(iter(called.values()))


def _only_somewhere(sites: Sites, classes: Sequence[str]) -> list[str]:
    said = []
    for name in classes:
        where = [site for site, proposal in sites.items() if name in proposal.classes]
        if len(where) < len(sites):
            said.append(f"class {name!r} occurs at {', '.join(where) or 'no site'} only")
    given = {each for site in sites.values() for each in site.classes}
    if left := sorted(given - set(classes)):
        raise SettingError(
            f"--classes lacks {', '.join(left)}, which occur at a site: list them all"
        )
    return said


def _column(name: str, held: Mapping[str, Summary], scaling: str, notes: list[str]) -> Column:
    kinds = {column.kind for column in held.values()}
    missing = any(column.missing for column in held.values())
    if kinds == {"category"}:
        _tell_alike(name, held, notes)
        words = in_order({word for column in held.values() for word in column.words})
        return Column(name, "category", tuple(words) or ("other",), other=True, indicator=missing)
    if kinds == {"flag"}:
        return Column(name, "flag", fill=0.0, indicator=missing)
    _tell_units(name, held, notes)
    (kind,) = kinds - {"flag"}
    centre, scale = _scaling(held.values(), scaling)
    fill = centre if scaling != "none" else _scaling(held.values(), "standard")[0]
    return Column(name, kind, centre=centre, scale=scale, fill=fill, indicator=missing)


def _scaling(columns: Iterable[Summary], scaling: str) -> tuple[float, float]:
    """Centre and scale of all sites' rows together.

    Mean and variance are pooled exactly, from counts, means and standard deviations, which is what
    sums and squares say; medians and quartiles are averaged over rows.
    """
    known = [(column.rows, column.spread) for column in columns if column.spread is not None]
    total = sum(rows for rows, _ in known)
    if scaling == "none" or not total:
        return 0.0, 1.0
    if scaling == "robust":
        centre = sum(rows * each.quartiles[1] for rows, each in known) / total
        range_ = sum(rows * (each.quartiles[2] - each.quartiles[0]) for rows, each in known) / total
        if range_ > 0:
            return significant(centre), significant(range_ / NORMAL)
    mean = sum(rows * each.mean for rows, each in known) / total
    squares = sum(rows * (each.sd**2 + (each.mean - mean) ** 2) for rows, each in known)
    return significant(mean), significant(math.sqrt(squares / total)) or 1.0


def _tell_alike(name: str, held: Mapping[str, Summary], notes: list[str]) -> None:
    """Words that differ in case or spaces only are most often one."""
    for group in alike(word for column in held.values() for word in column.words):
        listed = " and ".join(map(repr, group))
        many = "two" if len(group) == 2 else len(group)
        notes.append(f"{name!r}: {listed} are {many} categories: if they are one, rename one")


def _tell_units(name: str, held: Mapping[str, Summary], notes: list[str]) -> None:
    means = {site: each.spread.mean for site, each in held.items() if each.spread is not None}
    within = min((each.spread.sd for each in held.values() if each.spread), default=0.0)
    for site, mean in means.items():
        others = [other for where, other in means.items() if where != site]
        if not others or min(abs(mean - other) for other in others) <= APART * within:
            continue
        rest = sum(others) / len(others)
        if max(abs(mean), abs(rest)) > 5 * min(abs(mean), abs(rest)):
            notes.append(
                f"{name!r} is about {mean:g} at {site} and {rest:.4g} elsewhere: another unit?"
            )


def review(book: Codebook) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of a table, for people."""
    heads = ["Column", "Kind", "Features", "Becomes", "If missing"]
    return heads, [_line(column) for column in book.columns]


def _line(column: Column) -> list[str]:
    if column.kind == "category":
        shown = ", ".join(column.values[:6]) + (", …" if len(column.values) > 6 else "")
        more = " + other" if column.other else ""
        missing = "marked" if column.indicator else "as other" if column.other else "refused"
        return [column.name, column.kind, str(len(column.features)), f"{shown}{more}", missing]
    day = column.kind == "date"
    plain = (column.centre, column.scale) == (0, 1)
    centre = dates.day(column.centre) if day else f"{column.centre:g}"
    scaled = "as it is" if plain else f"(value - {centre}) / {column.scale:g}"
    filled = (
        "refused" if column.fill is None else dates.day(column.fill) if day else f"{column.fill:g}"
    )
    marked = ", marked" if column.indicator else ""
    return [column.name, column.kind, str(len(column.features)), scaled, filled + marked]


def disclosed(sites: Sites, book: Codebook) -> list[str]:
    """What everybody who gets the job learns from its codebook."""
    said = [
        f"Everybody who gets the job reads the names of {len(book.columns)} columns, of "
        f"{len(book.classes)} classes and of all categories, and all sites' pooled centre and scale."
    ]
    alone = []
    for column in book.columns:
        for word in column.values:
            where = [
                site
                for site, proposal in sites.items()
                for each in proposal.columns
                if each.name == column.name and word in each.words
            ]
            if len(where) == 1 < len(sites):
                alone.append(f"{column.name}={word} ({where[0]})")
    if alone:
        more = f" and {len(alone) - 8} more" if len(alone) > 8 else ""
        said.append(f"Words that one site alone has: {', '.join(alone[:8])}{more}.")
    return said


def write(path: Path, book: Codebook) -> None:
    """A new file; one that people may have edited is never replaced."""
    content = toml.dump({"format": FORMAT, **book.plain()}, {})
    if not atomic.create(path, f"{HEAD}\n{content}".encode()):
        raise FileError(f"{path} already exists: choose another name or move it")


def read(path: Path) -> Codebook:
    """The codebook of a file, edited or not."""
    found = dict(load(path))
    if (kind := found.pop("format", None)) != FORMAT:
        raise GraphError(
            f"{path} has format {kind!r}, expected {FORMAT!r}: make one with `pace codebook merge`"
        )
    try:
        return codebook.from_plain(found)
    except SettingError as error:
        raise SettingError(f"{path}: {error}") from None
