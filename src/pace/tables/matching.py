"""A first mapping for a person to confirm: from this site's cells, and what others say of theirs.

Others' descriptions (a proposal, a codebook) hold names, kinds, words and where numbers lie; no row of
another site is read. Whatever is not certain is left for a person to look at, with a sentence.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import product

import numpy as np

from pace.tables.cells import MISSING, are_dates, is_number, parse_columns, unit_of
from pace.tables.codebook import Codebook
from pace.tables.features import CATEGORIES
from pace.tables.mapping import NOTHING, OPEN, ColumnMapping, Rule, bound_parts
from pace.tables.problems import Problems, listed
from pace.tables.proposal import LEAST, Proposal, possible_ids
from pace.tables.table import TableFile

ENOUGH = 1.5  # of likeness, for a name to be proposed
APART, FACTOR = 3, 1.7  # as `agreement` asks for another unit
YES = {"yes", "y", "ja", "j", "true", "oui", "si", "x", "positive", "positiv", "pos"}
NO = {"no", "n", "nein", "false", "non", "negative", "negativ", "neg"}
WORDS = (YES, NO, {"m", "male", "man", "mann", "mannlich", "homme"},
         {"f", "w", "female", "woman", "frau", "weiblich", "femme"})  # fmt: skip
NAMES: tuple[set[str], ...] = (
    {"age", "alter", "ageyears", "years", "jahre", "birthdate", "birth", "dob", "dateofbirth",
     "geburtsdatum", "geburtstag", "geboren", "born", "gebdat"},
    {"sex", "gender", "geschlecht", "sexe"},
    {"weight", "gewicht", "bodyweight", "weightkg", "weightlb", "poids"},
    {"height", "grosse", "groesse", "koerpergroesse", "korpergrosse", "taille"},
    {"temperature", "temp", "temperatur", "bodytemp"},
    {"smoker", "smoking", "smokes", "raucher", "rauchen", "fumeur", "tobacco"},
    {"admitted", "admission", "admissiondate", "admdate", "aufnahme", "aufnahmedatum", "eintritt"},
    {"cholesterol", "cholesterin", "chol"},
    {"discharged", "dischargedate", "entlassdatum", "austritt"},
    {"ward", "station", "abteilung", "department", "service", "fachabteilung"},
    {"creatinine", "kreatinin", "krea", "crea", "creat", "creatinin"},
    {"glucose", "glukose", "blutzucker", "bz", "bloodsugar"},
    {"hemoglobin", "haemoglobin", "hamoglobin", "hb", "hgb"},
    {"platelets", "thrombocytes", "thrombozyten", "plt"},
    {"systolic", "sbp", "rrsys", "blutdruck", "bloodpressure"},
    {"diagnoses", "diagnosis", "diagnosen", "diag", "dx", "comorbidities", "conditions"},
    {"outcome", "result", "ergebnis", "outcome30d", "readmission", "readmitted", "wiederaufnahme",
     "entlassung", "class", "label"},
    {"id", "case", "caseid", "fall", "fallnr", "fallnummer", "patient", "patientid", "patid", "mrn",
     "pid", "nr"},
)  # fmt: skip
BIRTHS = ("birth", "born", "dob", "geb", "naissance")
ADMISSIONS = ("adm", "aufn", "eintritt", "visit", "date", "datum")
UNITS = {  # what a number is multiplied by
    0.45359237: "lb to kg", 2.20462: "kg to lb", 2.54: "inches to cm", 1 / 2.54: "cm to inches",
    1 / 18.016: "glucose, mg/dl to mmol/l", 18.016: "glucose, mmol/l to mg/dl",
    1 / 88.42: "creatinine, µmol/l to mg/dl", 88.42: "creatinine, mg/dl to µmol/l",
    1 / 38.67: "cholesterol, mg/dl to mmol/l", 38.67: "cholesterol, mmol/l to mg/dl",
    1.6114: "hemoglobin, mmol/l to g/dl", 1 / 1.6114: "hemoglobin, g/dl to mmol/l",
    7.50062: "kPa to mmHg", 0.133322: "mmHg to kPa", 1 / 12: "months to years", 12.0: "years to months",
    1 / 365.25: "days to years", 365.25: "years to days", 1 / 60: "minutes to hours", 60.0: "hours to "
    "minutes", 0.1: "a tenth", 10.0: "ten times", 0.01: "a hundredth", 100.0: "a hundred times",
    0.001: "a thousandth", 1000.0: "a thousand times",
}  # fmt: skip
FAHRENHEIT = (5 / 9, -160 / 9)  # to Celsius


@dataclass(frozen=True)
class Known:
    """What is known of a column: another site's by its description, or one's own."""

    name: str
    kind: str  # number, flag, category, date, text; label or id
    words: tuple[str, ...] = ()
    mean: float = math.nan
    sd: float = math.nan


def known_columns(other: Proposal | Codebook) -> list[Known]:
    """The columns of others' description, the label and the id among them."""
    special = [Known(other.label, "label", other.classes), Known(other.id, "id")]
    if isinstance(other, Codebook):
        return special + [Known(c.name, c.kind, c.values, c.centre, c.scale) for c in other.columns]
    spreads = [(c, c.spread) for c in other.columns]
    sized = [(c, (s.mean, s.sd) if s else (math.nan, math.nan)) for c, s in spreads]
    return special + [Known(c.name, c.kind, c.words, *sizes) for c, sizes in sized]


def propose_mapping(
    file: TableFile, label: str, id_column: str | None, others: Sequence[Proposal | Codebook] = ()
) -> tuple[ColumnMapping, dict[str, str]]:
    """A mapping of all columns, and by column what a person should look at."""
    names = [name for name in file.columns if name]
    _, cells, _ = file.read(names, (), Problems())
    present = {
        name: [cell for cell in cells[name] if cell.casefold() not in MISSING] for name in names
    }
    ids = ["id"] if "id" in names else possible_ids({n: cells[n] for n in names if n != label})
    id_column = id_column or (ids[0] if len(ids) == 1 else None)
    numbers = parse_columns(cells, None, file.delimiter, [])
    doubts: dict[str, list[str]] = {name: [] for name in names}
    rules, own = {}, {}
    for name in names:
        special = "label" if name == label else "id" if name == id_column else ""
        rule = Rule(name, name) if special else _rule(name, present, doubts[name])
        values = numbers[name].values
        finite = values[np.isfinite(values)].astype(np.float64)
        sizes = (float(finite.mean()), float(finite.std())) if len(finite) else (math.nan, math.nan)
        words = tuple(rule.values.get(w, w) for w in dict.fromkeys(present[name]))
        kind = special or _kind(rule, present[name])
        rules[name], own[name] = rule, Known(name, kind, words, *sizes)
    theirs = {known.name: known for other in others for known in known_columns(other)}
    for name, known in _matched(own, theirs).items():
        rules[name] = _agreed(rules[name], own[name], known, doubts[name])
    if theirs:
        used = {column for rule in rules.values() for column in rule.columns}
        flags = {k.casefold().rpartition(": ")[2]: k for k in theirs if k not in used}
        for name, rule in rules.items():
            if rule.flags:
                rules[name] = _agreed_flags(rule, flags, doubts[name])
            elif rule.name not in theirs:
                doubts[name].append("no other site has such a column: rename it, or it is left out")
    found = {name: "; ".join(sentences) for name, sentences in doubts.items() if sentences}
    return ColumnMapping(tuple(rules.values())), found


def _kind(rule: Rule, cells: Sequence[str]) -> str:
    """What a column will be, once the rule is applied."""
    if rule.flags:
        return "flags"
    if rule.values:
        return "flag"
    if rule.is_number or rule.age_at or 2 * sum(map(is_number, cells)) > len(cells):
        return "flag" if set(cells) <= {"0", "1"} else "number"
    return "date" if are_dates(set(cells)) else "category"


def _rule(name: str, columns: Mapping[str, Sequence[str]], doubts: list[str]) -> Rule:
    """What a column's own cells ask for."""
    cells, rule = columns[name], Rule(name, name)
    words = dict.fromkeys(cells)
    folded = {fold(word) for word in words}
    if folded and folded <= YES | NO and folded & YES and folded & NO:
        return replace(rule, values={word: str(int(fold(word) in YES)) for word in words})
    if are_dates(words):
        if any(part in fold(name) for part in BIRTHS):
            dates = [n for n in columns if n != name and are_dates(set(columns[n]))]
            days = [n for part in ADMISSIONS for n in dates if part in fold(n)]
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
        if 5 * several < len(cells) or not short or len(counts) > CATEGORIES or not several:
            continue
        if not len(counts) < len(set(cells)):
            continue
        frequent = sorted(part for part, count in counts.items() if count >= LEAST)
        if frequent:
            doubts.append(f"several words in a cell: {len(frequent)} flags")
            flags = {part: f"{rule.name}: {part}" for part in frequent}
            return replace(rule, separator=separator, flags=flags)
    return rule


def _matched(own: Mapping[str, Known], theirs: Mapping[str, Known]) -> dict[str, Known]:
    """Which of others' columns each is most like, each once, the most alike first."""
    scores = [
        (_likeness(mine, other), name, other.name)
        for (name, mine), other in product(own.items(), theirs.values())
    ]
    matched: dict[str, Known] = {}
    taken = set[str]()
    for score, name, other_name in sorted(scores, key=lambda item: (-item[0], item[1], item[2])):
        if score >= ENOUGH and name not in matched and other_name not in taken:
            matched[name] = theirs[other_name]
            taken.add(other_name)
    return matched


def _likeness(mine: Known, other: Known) -> float:
    """How alike two columns are, by name and by what they hold; 0 where kinds exclude each other."""
    if "label" in (mine.kind, other.kind) or "id" in (mine.kind, other.kind):
        return 9.0 if mine.kind == other.kind else 0.0
    numbers = ("number", "flag")
    if mine.kind != other.kind and not (mine.kind in numbers and other.kind in numbers):
        return 0.0
    one, two = fold_name(mine.name), fold_name(other.name)
    if one == two:
        return 4.0
    score = 2 * SequenceMatcher(None, one, two).ratio() if min(len(one), len(two)) > 2 else 0.0
    if any(one in group and two in group for group in NAMES):
        score = 3.0
    elif min(len(one), len(two)) > 2 and (one.startswith(two) or two.startswith(one)):
        score = max(score, 1.8)
    if other.words and mine.words:
        found = sum(_word(word, other.words) is not None for word in mine.words)
        score += found / max(len(mine.words), len(other.words)) + (found == len(mine.words)) * 0.6
    return score


def _agreed(rule: Rule, mine: Known, other: Known, doubts: list[str]) -> Rule:
    """The rule with others' name, words and unit."""
    rule = replace(rule, name=other.name)
    if fold_name(mine.name) != fold_name(other.name) and other.kind not in ("label", "id"):
        doubts.append("matched by its name or words")
    if other.kind in ("label", "category"):
        values = {word: _word(word, other.words) for word in mine.words}
        unknown = [word for word, becomes in values.items() if becomes is None]
        if other.kind == "label":
            asked = dict.fromkeys(unknown, OPEN)
            if unknown:
                doubts.append(f"replace each ? by one of {listed(other.words, 8)}")
        else:
            asked = {}
            if unknown:
                doubts.append(f"others have {listed(other.words, 6)}, not {listed(unknown, 4)}")
        changed = {word: new for word, new in values.items() if new is not None and new != word}
        return replace(rule, values=changed | asked)
    if other.kind == "number" and not rule.age_at:
        return _agreed_unit(rule, mine, other, doubts)
    return rule


def _agreed_unit(rule: Rule, mine: Known, other: Known, doubts: list[str]) -> Rule:
    """Another unit, if the numbers lie elsewhere and a usual conversion brings them together."""
    distance, least = abs(mine.mean - other.mean), min(mine.sd, other.sd)
    sizes = sorted(map(abs, (mine.mean, other.mean)))
    if not (distance > APART * least and sizes[1] > FACTOR * sizes[0]):
        return rule
    lines = {(factor, 0.0): name for factor, name in UNITS.items()}
    lines |= {FAHRENHEIT: "temperature, °F to °C", (9 / 5, 32.0): "temperature, °C to °F"}
    named = {fold_name(other.name), fold_name(mine.name)}
    groups = [group | named for group in NAMES if group & named]
    own = [line for line, name in lines.items() if any(name.split(",")[0] in g for g in groups)]

    def gap(line: tuple[float, float]) -> float:  # what is usual for such a column is likelier
        mean, sd = line[0] * mine.mean + line[1], line[0] * mine.sd
        unusual = 0.3 * (line not in own) + 9 * (line not in own and "," in lines[line])
        return abs(mean - other.mean) / max(sd, other.sd) + abs(math.log(sd / other.sd)) + unusual

    about = f"about {mine.mean:.4g} here, {other.mean:.4g} elsewhere"
    best = min(lines, key=gap) if least > 0 and mine.mean * other.mean > 0 else None
    if best is None or gap(best) > 1.5:
        doubts.append(f"{about}: another unit? give factor, and offset")
        return rule
    doubts.append(f"{about}: {lines[best]}?")
    return replace(rule, factor=float(f"{best[0]:.6g}"), offset=float(f"{best[1]:.6g}"))


def _agreed_flags(rule: Rule, flags: Mapping[str, str], doubts: list[str]) -> Rule:
    """Flags by others' names; words that nobody else has a flag for are left out."""
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
    plain = {fold(other): other for other in words}
    one = fold(word)
    if one in plain:
        return plain[one]
    same = [group & plain.keys() for group in WORDS if one in group]
    near = {plain[other] for group in same for other in group}
    if not near and one:
        near = {other for key, other in plain.items() if key and _begins(key, one)}
    return near.pop() if len(near) == 1 else None


def _begins(one: str, two: str) -> bool:
    return one.startswith(two) or two.startswith(one)


def fold(word: str) -> str:
    """A word without case, accents and spaces."""
    return "".join(_folded(word))


def fold_name(name: str) -> str:
    """A column's name without case, accents, marks and a unit in brackets."""
    return re.sub(r"[^a-z0-9]", "", fold(re.sub(r"[(\[].*?[)\]]", "", name)))


def _folded(word: str) -> Iterator[str]:
    for letter in unicodedata.normalize("NFKD", word.casefold()):
        if not unicodedata.combining(letter) and not letter.isspace():
            yield letter
