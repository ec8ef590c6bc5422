"""A first mapping for a person to confirm: from this site's cells, and what others say of theirs.

No row of another site is read. What is not certain is left for a person, with a sentence.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import product

from pace.errors import GraphError
from pace.tables.cells import Words, bound_parts, is_number
from pace.tables.codebook import Codebook
from pace.tables.dates import are_dates
from pace.tables.features import CATEGORIES
from pace.tables.mapping import NOTHING, OPEN, ColumnMapping, MappedFile, Rule
from pace.tables.problems import Problems, listed
from pace.tables.proposal import LEAST, Proposal, Spread, Summary, describe_column, possible_ids
from pace.tables.table import TableFile, read_table
from pace.tables.words import MEANINGS, MISSING, fold, unit_of

MOST_PAIRS = 250_000  # of columns that are compared: half a minute
ENOUGH = 1.5  # of likeness, for a name to be proposed
COMPATIBLE = ({"number", "flag"}, {"category", "text"})  # kinds that may be one column
YES, NO = (set(MEANINGS[answer]) for answer in ("yes", "no"))
WORDS = (YES, NO, *map(set, MEANINGS["words"]))
NAMES = [*map(set, MEANINGS["columns"])]
UNITS = {  # factor, and what is added
    **{(factor, 0.0): f"{of}{one} to {two}" for of, one, two, factor in MEANINGS["conversions"]},
    **{(1 / factor, 0.0): f"{of}{two} to {one}" for of, one, two, factor in MEANINGS["conversions"]},
    **{(factor, 0.0): f"times {factor:g}" for factor in (0.001, 0.01, 0.1, 10.0, 100.0, 1000.0)},
    (5 / 9, -160 / 9): "temperature, °F to °C", (9 / 5, 32.0): "temperature, °C to °F",
}  # fmt: skip


def propose_mapping(
    file: TableFile, label: str, id_column: str | None, others: Sequence[Proposal | Codebook] = ()
) -> ColumnMapping:
    """A mapping of all columns, which says what a person should look at."""
    names = [name for name in file.columns if name]
    _, cells = file.read(names, Problems())
    ids = possible_ids({name: cells[name] for name in names if name != label})
    id_column = id_column or (ids[0] if len(ids) == 1 else None)
    special = (label, id_column)
    present = {n: Words(c for c in cells[n] if c.casefold() not in MISSING) for n in names}
    doubts: dict[str, list[str]] = {name: [] for name in names}
    rules = {n: Rule(n, n) if n in special else _rule(n, present, doubts[n]) for n in names}
    if others:
        classes = tuple(dict.fromkeys(word for other in others for word in other.classes))
        values = _recoded(dict.fromkeys(present[label]), classes, doubts[label], asked=True)
        rules[label] = replace(rules[label], name=others[0].label, values=values)
        if id_column:
            rules[id_column] = replace(rules[id_column], name=others[0].id)
        single = [name for name in names if not (rules[name].flags or name in special)]
        mapped = MappedFile(file, ColumnMapping(tuple(rules[name] for name in single)))
        table = read_table(mapped, Problems(), text=single, numbers=single)
        own = {name: describe_column(table, name, MISSING, least=1) for name in single}
        theirs = {column.name: column for other in others for column in _described(other)}
        for name, column in _matched(own, theirs).items():
            rules[name] = _agreed(rules[name], own[name], column, doubts[name])
        used = {column for rule in rules.values() for column in rule.columns}
        flags = {name.casefold().rpartition(": ")[2]: name for name in theirs if name not in used}
        for name, rule in rules.items():
            if rule.flags:
                rules[name] = _agreed_flags(rule, flags, doubts[name])
            elif name in own and rule.name not in theirs:
                doubts[name].append("no other site has such a column: rename it, or it is left out")
    looks = {name: "; ".join(sentences) for name, sentences in doubts.items()}
    return ColumnMapping(tuple(replace(rule, look=looks[name]) for name, rule in rules.items()))


def _described(other: Proposal | Codebook) -> Iterable[Summary]:
    """Others' columns; of a codebook's numbers, centre and scale are known."""
    if isinstance(other, Proposal):
        return other.columns
    spreads = [(column, Spread(column.centre, column.scale)) for column in other.columns]
    return [Summary(c.name, c.kind, words=c.values, spread=spread) for c, spread in spreads]


def _rule(name: str, columns: Mapping[str, Sequence[str]], doubts: list[str]) -> Rule:
    """What a column's own cells ask for."""
    cells, rule = columns[name], Rule(name, name)
    words = dict.fromkeys(cells)
    folded = {fold(word) for word in words}
    if folded and folded <= YES | NO and folded & YES and folded & NO:
        return replace(rule, values={word: str(int(fold(word) in YES)) for word in words})
    if are_dates(words):
        if any(part in fold(name) for part in MEANINGS["births"]):
            dates = [n for n in columns if n != name and are_dates(set(columns[n]))]
            days = [n for part in MEANINGS["admissions"] for n in dates if part in fold(n)]
            if days:
                return replace(rule, age_at=days[0])
            doubts.append('for an age in place of the date, give age_at = "2024-12-31"')
        return rule
    unit = unit_of(words)
    plain = [cell.removesuffix(unit).rstrip() for cell in cells] if unit else list(cells)
    bounds = [cell for cell in plain if bound_parts(cell)]
    if 2 * (len(bounds) + sum(map(is_number, plain))) > len(plain) > 0:
        if bounds:
            kinds = listed(list(dict.fromkeys(bounds)), 3)
            doubts.append(f"{len(bounds)} limits or ranges such as {kinds} become numbers")
        return replace(rule, unit=unit or "", limits=bool(bounds))
    return _several(rule, cells, doubts)


def _several(rule: Rule, cells: Sequence[str], doubts: list[str]) -> Rule:
    """Flags, if cells hold several words; rare ones are left out, as a proposal leaves them out."""
    for separator in ";|,":
        lists = [[part.strip() for part in cell.split(separator)] for cell in cells]
        counts = Counter(part for parts in lists for part in parts if fold(part) not in NOTHING)
        several = sum(len(parts) > 1 for parts in lists)
        short = all(len(part.split()) <= 3 for part in counts)
        few = len(counts) <= CATEGORIES and len(counts) < len(set(cells))
        frequent = sorted(part for part, count in counts.items() if count >= LEAST)
        if several and 5 * several >= len(cells) and short and few and frequent:
            doubts.append(f"several words in a cell: {len(frequent)} flags")
            flags = {part: f"{rule.name}: {part}" for part in frequent}
            return replace(rule, separator=separator, flags=flags)
    return rule


def _matched(own: Mapping[str, Summary], theirs: Mapping[str, Summary]) -> dict[str, Summary]:
    """Which of others' columns each is most like, each once, the most alike first.

    Columns of one name are found by it; every pair of the others is compared.
    """
    named = {fold_name(name): column for name, column in theirs.items()}
    alike = {name: named.get(fold_name(name)) for name in own}
    matched = {n: other for n, other in alike.items() if other and _likeness(own[n], other)}
    taken = {other.name for other in matched.values()}
    mine = [column for name, column in own.items() if name not in matched]
    left = [column for name, column in theirs.items() if name not in taken]
    if len(mine) * len(left) > MOST_PAIRS:
        columns = f"{len(mine):,} columns here and {len(left):,} of others"
        raise GraphError(f"{columns} have no name in common, too many to compare: leave some out")
    scores = [(-_likeness(one, two), one.name, two.name) for one, two in product(mine, left)]
    for unlike, name, other in sorted(scores):
        if -unlike >= ENOUGH and name not in matched and other not in taken:
            matched[name] = theirs[other]
            taken.add(other)
    return matched


def _likeness(mine: Summary, other: Summary) -> float:
    """How alike two columns are, by name and by what they hold; 0 where kinds exclude each other."""
    if mine.kind != other.kind and {mine.kind, other.kind} not in COMPATIBLE:
        return 0.0
    one, two = fold_name(mine.name), fold_name(other.name)
    if one == two:
        return 4.0
    long = min(len(one), len(two)) > 2
    score = 2 * SequenceMatcher(None, one, two).ratio() if long else 0.0
    meanings = [(one in group, two in group) for group in NAMES]
    if (True, True) in meanings:
        score = 3.0
    elif all(map(any, zip(*meanings, strict=True))):
        return 0.0  # height is not weight, however alike they are spelt
    elif long and _begins(one, two):
        score = max(score, 1.8)
    if other.words and mine.words:
        shared = sum(_word(word, other.words) is not None for word in mine.words)
        score += shared / max(len(mine.words), len(other.words)) + (shared == len(mine.words)) * 0.6
    return score


def _agreed(rule: Rule, mine: Summary, other: Summary, doubts: list[str]) -> Rule:
    """The rule with others' name, words and unit."""
    rule = replace(rule, name=other.name)
    if fold_name(mine.name) != fold_name(other.name):
        doubts.append("matched by its name or words")
    if other.kind == "category":
        return replace(rule, values=_recoded(mine.words, other.words, doubts))
    own, theirs = mine.spread, other.spread
    if own and theirs and own.is_apart([theirs]) and not rule.age_at:
        return _agreed_unit(rule, own, theirs, doubts)
    return rule


def _recoded(
    words: Collection[str], others: Sequence[str], doubts: list[str], *, asked: bool = False
) -> dict[str, str]:
    """What words become where others have another for it; with `asked`, a person says the rest."""
    values = {word: _word(word, others) for word in words}
    unknown = [word for word, becomes in values.items() if becomes is None]
    if unknown and asked:
        doubts.append(f"replace each ? by one of {listed(others, 8)}")
    elif unknown:
        doubts.append(f"others have {listed(others, 6)}, not {listed(unknown, 4)}")
    changed = {word: new for word, new in values.items() if new is not None and new != word}
    return changed | (dict.fromkeys(unknown, OPEN) if asked else {})


def _agreed_unit(rule: Rule, own: Spread, theirs: Spread, doubts: list[str]) -> Rule:
    """Another unit, if a usual conversion brings numbers together that lie apart."""
    named = {fold_name(rule.name), fold_name(rule.source)}
    groups = [group | named for group in NAMES if group & named]
    usual = [line for line, name in UNITS.items() if any(name.split(",")[0] in g for g in groups)]

    def gap(line: tuple[float, float]) -> float:  # what is usual for such a column is likelier
        mean, sd = line[0] * own.mean + line[1], line[0] * own.sd
        unusual = 0.3 * (line not in usual) + 9 * (line not in usual and "," in UNITS[line])
        apart = abs(mean - theirs.mean) / max(sd, theirs.sd)
        return apart + abs(math.log(sd / theirs.sd)) + unusual

    about = f"about {own.mean:.4g} here, {theirs.mean:.4g} elsewhere"
    comparable = min(own.sd, theirs.sd) > 0 and own.mean * theirs.mean > 0
    best = min(UNITS, key=gap) if comparable else None
    if best is None or gap(best) > 1.5:
        doubts.append(f"{about}: another unit? give factor, and offset")
        return rule
    doubts.append(f"{about}: {UNITS[best]}?")
    return replace(rule, factor=float(f"{best[0]:.6g}"), offset=float(f"{best[1]:.6g}"))


def _agreed_flags(rule: Rule, flags: Mapping[str, str], doubts: list[str]) -> Rule:
    """Flags by others' names; words that no other site has a flag for are left out."""
    shared = {w: flags[w.casefold()] for w in rule.flags if w.casefold() in flags}
    if not shared:
        doubts.append(f"others have the flags {listed(sorted(flags.values()), 6)}: name yours so")
        return rule
    if left := [word for word in rule.flags if word not in shared]:
        doubts.append(f"no other site has a flag for {listed(left, 6)}")
    return replace(rule, flags=shared)


def _word(word: str, words: Collection[str]) -> str | None:
    """Which of others' words means the same, if that is certain enough to be proposed."""
    if word in words:
        return word
    plain, folded = {fold(other): other for other in words}, fold(word)
    if folded in plain:
        return plain[folded]
    near = {plain[key] for group in WORDS if folded in group for key in group & plain.keys()}
    if not near and folded:
        near = {other for key, other in plain.items() if key and _begins(key, folded)}
    return near.pop() if len(near) == 1 else None


def _begins(one: str, two: str) -> bool:
    return one.startswith(two) or two.startswith(one)


def fold_name(name: str) -> str:
    """A column's name without case, accents, marks and a unit in brackets."""
    return re.sub(r"[^a-z0-9]", "", fold(re.sub(r"[(\[].*?[)\]]", "", name)))
