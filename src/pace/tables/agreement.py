"""One codebook of all sites' proposals: the union of categories, pooled scaling."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations

from pace.errors import GraphError, ProblemsError, SettingError
from pace.io import many
from pace.tables.cells import alike_notes, in_order, spelt_alike, whole_number
from pace.tables.codebook import Codebook, Column, Kind
from pace.tables.dates import show_day
from pace.tables.problems import listed
from pace.tables.proposal import Proposal, Summary, mean_of, significant

Sites = Mapping[str, Proposal]


def merge_proposals(sites: Sites, *, classes: Sequence[str] = ()) -> tuple[Codebook, list[str]]:
    """One codebook for all sites, and notes on it; columns whose kinds contradict are refused."""
    columns: dict[str, dict[str, Summary]] = {}
    for site, proposal in sites.items():
        for summary in proposal.columns:
            columns.setdefault(summary.name, {})[site] = summary
    alike = {name: group for group in spelt_alike(columns) for name in group}
    notes, warnings, merged, wrong = list[str](), list[str](), [], []
    for name, held in columns.items():
        kinds = {column.kind for column in held.values()}
        if lacking := [site for site in sites if site not in held]:
            near = [repr(other) for other in alike.get(name, ()) if other != name]
            called = f" ({', '.join(near)} is another name)" if near else ""
            notes.append(f"{name!r} is left out: not at {', '.join(lacking)}{called}")
        elif "text" in kinds:
            where = [site for site, column in held.items() if column.kind == "text"]
            notes.append(f"{name!r} is left out: empty, or too many words, at {', '.join(where)}")
        elif len(kinds) > 1 and kinds != {"flag", "number"}:
            listing = ", ".join(f"{column.kind} at {site}" for site, column in held.items())
            wrong.append(f"{name!r} is {listing}: propose it with --category {name}, or clean it")
        elif kinds == {"category"} and (alien := _alone({s: c.words for s, c in held.items()})):
            wrong.append(f"category {name!r} has no word in common: {alien}")
        else:
            merged.append(_merge_column(name, held, notes, warnings))
    if not classes and (alien := _alone({s: p.classes for s, p in sites.items()})):
        wrong.append(f"the label has no class in common: {alien}")
    if wrong:
        raise ProblemsError(f"{many(len(wrong), 'column')} cannot be put together:", wrong)
    if not merged:
        raise GraphError("the sites have no column in common: give columns the same names")
    agreed = {}
    for setting in ("label", "id"):
        names = {site: getattr(proposal, setting) for site, proposal in sites.items()}
        agreed[setting] = usual = Counter(names.values()).most_common(1)[0][0]
        if others := ", ".join(site for site, name in names.items() if name != usual):
            notes.append(f"the {setting} is {usual!r}; {others}: give --{setting} at import")
    for setting in ("weight", "directions"):  # a mean of weighted and plain graphs means nothing
        values = {site: getattr(proposal, setting) for site, proposal in sites.items()}
        agreed[setting] = next(iter(values.values()))
        if len(set(values.values())) > 1:
            listing = ", ".join(f"{value or 'none'} at {site}" for site, value in values.items())
            raise GraphError(
                f"sites differ in --{setting} of their edges, {listing}: rename columns and propose "
                "again"
            )
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
        site
        for site, own in named.items()
        if len(named) > 1 and not any(own & named[other] for other in named if other != site)
    ]
    if not alone:
        return None
    listing = "; ".join(f"{site} has {listed([*map(repr, words[site])], 4)}" for site in alone)
    return (
        f"{listing}. If they mean the same, say so in a site's mapping (`pace codebook propose "
        "--like`); if not, leave the column out (--without), or list all classes (--classes)"
    )


def _merge_classes(
    sites: Sites, classes: Sequence[str], notes: list[str], warnings: list[str]
) -> tuple[str, ...]:
    """The classes in order; notes tell which are not everywhere, and which are spelt alike."""
    where: dict[str, list[str]] = {name: [] for name in classes}
    for site, proposal in sites.items():
        for name in dict.fromkeys(proposal.classes):
            where.setdefault(name, []).append(site)
    if classes and (left := sorted(where.keys() - set(classes))):
        raise SettingError(f"--classes lacks {', '.join(left)}, which occur at a site: list all")
    names = tuple(classes) or tuple(in_order(where))
    if len(names) == 1:
        raise SettingError(
            f"{names[0]!r} is the only class at all sites: there is nothing to learn"
        )
    notes += [
        f"class {name!r} occurs at {', '.join(where[name]) or 'no site'} only"
        for name in names
        if len(where[name]) < len(sites)
    ]
    notes += alike_notes("the label", names, "classes")
    for one, two in combinations(sites, 2) if None not in map(whole_number, names) else ():
        first, second = (set(sites[site].classes) for site in (one, two))
        if first - second and second - first:
            warnings.append(
                f"the classes are {listed(in_order(first))} at {one} and {listed(in_order(second))} at "
                f"{two}: do the numbers mean the same?"
            )
    return names


def _merge_column(
    name: str, held: Mapping[str, Summary], notes: list[str], warnings: list[str]
) -> Column:
    """One column of all sites' summaries of it."""
    columns = held.values()
    kinds = {column.kind for column in columns}
    missing = any(column.missing for column in columns)
    if kinds == {"category"}:
        words = {word for column in columns for word in column.words}
        notes += alike_notes(repr(name), words, "categories")
        values = tuple(in_order(words)) or ("other",)
        return Column(name, "category", values, other=True, indicator=missing)
    if kinds == {"flag"}:
        return Column(name, "flag", fill=0.0, indicator=missing)
    spreads = {site: column.spread for site, column in held.items() if column.spread is not None}
    for site, spread in spreads.items() if "date" not in kinds else ():
        others = [other for where, other in spreads.items() if where != site]
        if others and spread.is_apart(others):
            rest = mean_of(others)
            warnings.append(
                f"{name!r} is about {spread.mean:g} at {site} and {rest:.4g} elsewhere: another unit?"
            )
    kind: Kind = "date" if "date" in kinds else "number"
    centre, scale = _pooled(columns)
    return Column(name, kind, centre=centre, scale=scale, fill=centre, indicator=missing)


def _pooled(columns: Collection[Summary]) -> tuple[float, float]:
    """Mean and standard deviation of all sites' rows."""
    spreads = [(column.rows, column.spread) for column in columns if column.spread is not None]
    total = sum(rows for rows, _ in spreads)
    if not total:
        return 0.0, 1.0
    mean = sum(rows * spread.mean for rows, spread in spreads) / total
    squares = sum(rows * (s.sd**2 + (s.mean - mean) ** 2) for rows, s in spreads)
    return significant(mean), significant(math.sqrt(squares / total)) or 1.0


def codebook_rows(book: Codebook) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of a table, for people."""
    rows = []
    for column in book.columns:
        if column.kind == "category":
            becomes = listed(column.values) + " + other" * column.other
            missing = "marked" if column.indicator else "as other" if column.other else "refused"
        else:
            show = show_day if column.kind == "date" else "{:g}".format
            scaled = f"(value - {show(column.centre)}) / {column.scale:g}"
            becomes = "as it is" if (column.centre, column.scale) == (0, 1) else scaled
            missing = "refused" if column.fill is None else show(column.fill)
            missing += ", marked" * column.indicator
        rows.append([column.name, column.kind, str(len(column.features)), becomes, missing])
    return ["Column", "Kind", "Features", "Becomes", "If missing"], rows


def codebook_discloses(sites: Sites, book: Codebook) -> list[str]:
    """What everybody who gets the job learns from its codebook."""
    sentences = [
        f"Everybody who gets the job reads the names of {len(book.columns)} columns, of "
        f"{len(book.classes)} classes and of all categories, and all sites' pooled centre and scale."
    ]
    where: dict[tuple[str, str], list[str]] = {}
    for site, proposal in sites.items():
        for column in proposal.columns:
            for word in dict.fromkeys(column.words):
                where.setdefault((column.name, word), []).append(site)
    alone = [
        f"{column.name}={word} ({holders[0]})"
        for column in book.columns
        for word in column.values
        if len(holders := where.get((column.name, word), [])) == 1 < len(sites)
    ]
    if alone:
        sentences.append(f"Words that one site alone has: {listed(alone, 8)}.")
    return sentences
