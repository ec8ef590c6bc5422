"""Every sentence of the paper's Section 5 and appendix about a result, judged on the stored cells."""

import json
import math
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from pace.datasets import DATA_SEED
from pace.reports import Table, Value
from pace_study import content, study
from pace_study.scores import DENSE, TIE, Array, Draws, t_interval, win_tie_loss
from pace_study.study import AVAILABLE, PARTS, UNPUBLISHED, Row
from pace_study.tables import published, title

HOLDS = "holds"
WITHIN = "not confirmed; compatible with one draw"
FAILS = "does not hold"
UNKNOWN = "cannot be judged"
VERDICTS = (HOLDS, WITHIN, FAILS, UNKNOWN)
MARKS = {HOLDS: "", WITHIN: "≈ ", FAILS: "✗ "}
METRICS = {"accuracy": "accuracy", "weighted_f1": "W-F1"}
BRIEF = {"c20": "C = 20: ", "c30": "C = 30: ", "metis": "METIS: ", "dirichlet": "Dirichlet: "}
ABOVE_ZERO, BELOW_ZERO = (math.ulp(0.0), math.inf), (-math.inf, -math.ulp(0.0))

Setting = tuple[str, str, int]  # dataset, partition, clients
Number = Callable[[Array], float]  # of values[setting, row, seed], or [..., receiver]


@dataclass(frozen=True)
class Sentence:
    """A sentence of the paper that counts, measures or compares.

    Its kind is `result`, `set-up` (how it was done), `history` (how the paper came about), `layout`
    (what a table or figure shows) or `proof`. Results are judged here, the set-up by tests.
    """

    id: str
    place: str
    text: str
    kind: str
    verdict: str = UNKNOWN  # what became of a result here
    evidence: str = ""  # and the numbers that say so


@cache
def sentences() -> tuple[Sentence, ...]:
    """All of them; `tests/study/paper_sentences.py` finds them in the paper's source."""
    return tuple(Sentence(**entry) for entry in json.loads(content("sentences.json")))


def judge_claims(scores: pd.DataFrame, seeds: Sequence[int]) -> list[Sentence]:
    """Every sentence about a result, in the paper's order."""
    numbers, claims = Numbers(scores, seeds), []
    for sentence in sentences():
        if sentence.kind == "result":
            verdict, evidence = judged(numbers.checks(sentence.id))
            claims.append(replace(sentence, verdict=verdict, evidence=evidence))
    return claims


def claims_tables(claims: Sequence[Sentence]) -> list[Table]:
    """Counts of the verdicts, then every sentence."""
    counts = Counter(claim.verdict for claim in claims)
    rows = []
    for claim in claims:
        verdict = Value(claim.verdict, mark="best" if claim.verdict == FAILS else "")
        rows.append((claim.place, claim.text, verdict, claim.evidence))
    heads = ["Where", "The paper's sentence", "Here", "Numbers"]
    total = [[str(counts[verdict]) for verdict in VERDICTS]]
    return [Table.of("", VERDICTS, total, names=0, words=0), Table.of("", heads, rows, names=4)]


# --- one number ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Check:
    """A number of some rows in some settings, where a sentence says that it is, and what it is.

    A sentence that prints a number wants it to the printed digit; one that says more, less or equal
    wants a direction.
    """

    name: str
    number: Number
    settings: Sequence[Setting]
    rows: Sequence[Row]
    metric: str = "accuracy"
    bounds: tuple[float, float] = ABOVE_ZERO
    paper: float | None = None  # in place of bounds: the printed number
    half: float = 0.005  # of its last digit
    unit: str = "+.2f"
    redraw: bool = True
    here: float | None = None  # as measured on the study's masks
    draws: Draws | None = None  # and on redraws of them

    @property
    def verdict(self) -> str:
        """Holds: here and, of a direction, on average over redraws. Within: a redraw may meet it."""
        if self.here is None:
            return UNKNOWN
        least, most = self.bounds
        if self.paper is not None:
            least, most = self.paper - self.half - 1e-9, self.paper + self.half + 1e-9
        met = least <= self.here <= most
        if self.draws is None:
            return HOLDS if met else FAILS
        if met and (self.paper is not None or least <= self.draws.mean <= most):
            return HOLDS
        low, high = self.draws.interval
        return WITHIN if met or (low <= most and high >= least) else FAILS

    @property
    def evidence(self) -> str:
        """`✗ Cora -0.99, draws +0.93 [+0.21, +1.65]`: the verdict, ours, redraws; the paper's number."""
        if self.here is None:
            return f"{self.name} not run"
        text = f"{MARKS[self.verdict]}{self.name} {self.here:{self.unit}}"
        if self.paper is not None:
            text += f" (paper {self.paper:{self.unit}})"
        if self.draws is not None:
            low, high = self.draws.interval
            text += f", draws {self.draws.mean:{self.unit}} [{low:{self.unit}}, {high:{self.unit}}]"
        return text


def judged(checks: Sequence[Check]) -> tuple[str, str]:
    """The sentence's verdict, which is its worst check's, and the evidence of them all."""
    verdicts = [check.verdict for check in checks if check.verdict != UNKNOWN]
    verdict = next((kind for kind in (FAILS, WITHIN, HOLDS) if kind in verdicts), UNKNOWN)
    return verdict, "; ".join(check.evidence for check in checks)


class Numbers:
    """Numbers of the stored cells, on the study's masks and on redraws of them."""

    def __init__(self, scores: pd.DataFrame, seeds: Sequence[int]) -> None:
        self.seeds = list(seeds)
        keys = ["dataset", "partition", "clients", "method", "rank", "reading", "data_seed", "seed"]
        trials = scores[scores.model == "gcn"].to_dict("records")
        self._trials = {tuple(trial[key] for key in keys): trial for trial in trials}

    def checks(self, sentence: str) -> list[Check]:
        """Everything that a sentence asks, by its id, measured."""
        seeds, measured = study.in_order(self.seeds)[: study.REDRAW_SEEDS], []
        for asked in RESULTS[sentence]:
            here = self.measure(asked, DATA_SEED, self.seeds)
            redraws = study.DRAWS if asked.redraw else ()
            numbers = [self.measure(asked, data_seed, seeds) for data_seed in redraws]
            redrawn = tuple(number for number in numbers if number is not None)
            draws = Draws(redrawn) if len(redrawn) > 1 else None
            measured.append(replace(asked, here=here, draws=draws))
        return measured

    def measure(self, asked: Check, data_seed: int, seeds: Sequence[int]) -> float | None:
        """The number on these masks and seeds; None where a cell is missing."""

        def value(setting: Setting, row: Row, seed: int) -> Any:
            key = (*setting, row.method, row.rank or DENSE, row.reading, data_seed, seed)
            return self._trials[key][asked.metric]

        try:
            values = [
                [[value(setting, row, seed) for seed in seeds] for row in asked.rows]
                for setting in asked.settings
            ]
        except KeyError:
            return None
        return float(asked.number(np.array(values))) if values else None


def difference(values: Array) -> Array:
    """The first row less the second, or the only row: [setting, seed], or [..., receiver]."""
    return values[:, 0] - values[:, 1] if values.shape[1] > 1 else values[:, 0]


def mean(values: Array) -> float:
    """Over seeds, averaged over settings."""
    return float(difference(values).mean())


def lowest(values: Array) -> float:
    """The lowest mean over seeds: of settings, or of receivers."""
    return float(difference(values).mean(1).min())


def lead(values: Array) -> float:
    """The last row's mean less the best of the others', as displayed: to two digits."""
    means = values[0].mean(1)
    return round(float(means[-1]), 2) - round(float(means[:-1].max()), 2)


def interval_end(values: Array, which: int) -> float:
    """One end of the 95 % paired interval of the first row less the second."""
    return t_interval(difference(values)[0])[which]


def share(values: Array, of: int = 15, kind: int = 0) -> float:
    """Won, tied or lost of 15 dataset-seed pairs; helped, tied or harmed of 150 receiver-seed units.

    Redraws have fewer seeds and are scaled.
    """
    points = difference(values).ravel()
    return of * win_tie_loss(points)[kind] / points.size


def nonnegative(gains: Array) -> float:
    """Of thirty receivers, those whose mean is at or above Local."""
    return 30 * float((difference(gains).mean(1) >= -TIE).mean())


def geometrys_lead(values: Array) -> float:
    """Pairs that RegMean's geometry wins, less those of the next component."""
    raw, plain, ours, direct = range(4)
    won, *others = (share(values[:, pair]) for pair in ([raw, plain], [ours, raw], [ours, direct]))
    return won - max(others)


def citeseers_lead(values: Array) -> float:
    """The first row's gain over the second on CiteSeer, less that on the next dataset."""
    cora, citeseer, pubmed = difference(values).mean(1)
    return float(citeseer - max(cora, pubmed))


# --- the paper's sentences ----------------------------------------------------------------------

NUMBERS: dict[str, Callable[..., Any]] = {
    "mean": mean, "lowest": lowest, "least": np.min, "lead": lead, "interval_end": interval_end,
    "share": share, "nonnegative": nonnegative, "geometrys_lead": geometrys_lead,
    "citeseers_lead": citeseers_lead,
}  # fmt: skip
GROUPS: dict[str, Sequence[str]] = {**study.LISTS, "both": tuple(METRICS)}


def checks_of(name: str) -> list[Check]:
    """Everything that a sentence asks, or another one that says the same."""
    return [check for line in CLAIMS[name] for check in asked(line)]


def asked(line: dict[str, Any]) -> list[Check]:
    """The checks of a line of `claims.toml`, in each of its settings and metrics."""
    rest = dict(line)
    if "same" in rest:
        return checks_of(rest["same"])
    if "bold" in rest:
        return bold(rest["bold"])
    if "each" in rest:
        variants = [{"over": dataset} for dataset in group(rest.pop("each"))]
    elif "metrics" in rest:
        variants = [{"metric": metric} for metric in group(rest.pop("metrics"))]
    elif "checks" in rest:
        variants = rest.pop("checks")
    else:
        return [check(rest)]
    return [check for variant in variants for check in asked(rest | variant)]


def group(words: str | Sequence[str]) -> Sequence[str]:
    return GROUPS.get(words, (words,)) if isinstance(words, str) else words


def check(line: dict[str, Any]) -> Check:
    """One number, in one metric."""
    rest = {"metric": "accuracy", "rows": ()} | line
    clients = rest.pop("clients", 10)
    datasets, count = group(rest.pop("over")), f", C = {clients}" if clients != 10 else ""
    place = ", ".join(title(dataset) + count for dataset in datasets)
    name = rest.pop("name").format(place=place, metric=METRICS.get(rest["metric"]))
    which = {key: rest.pop(key) for key in ("of", "kind", "which") if key in rest}
    number = partial(NUMBERS[rest.pop("number", "mean")], **which)
    if rest.pop("whole", False):
        rest |= {"half": 0.5, "unit": ".0f"}
    if rest.get("bounds") == "below zero":
        rest["bounds"] = BELOW_ZERO
    rest["rows"] = [study.ROWS[label] for label in rest["rows"]]
    return Check(name, number, [(dataset, "louvain", clients) for dataset in datasets], **rest)


def bold(name: str) -> list[Check]:
    """The row that the paper prints bold is the best of its column here."""
    part = PARTS[name]
    rows = {row.label: row for row in part.rows if row.method not in UNPUBLISHED}
    paper = published()
    paper = paper[(paper.table == part.table) & (paper.clients == part.clients[0])]
    checks = []
    for dataset, metric in product([d for d in part.datasets if d in AVAILABLE], part.metrics):
        column = paper[(paper.dataset == title(dataset)) & (paper.metric == metric)]
        theirs = column.set_index("method")["mean"].loc[list(rows)]
        best = theirs[theirs == theirs.max()].index[-1]
        order = [*(row for label, row in rows.items() if label != best), rows[best]]
        label = f"{BRIEF.get(name, '')}{title(dataset)} {METRICS[metric]} {best} ahead by"
        setting = (dataset, part.partition, part.clients[0])
        checks.append(Check(label, lead, [setting], order, metric, bounds=(0.0, math.inf)))
    return checks


CLAIMS = tomllib.loads(content("claims.toml"))
RESULTS = {name: checks_of(name) for name in CLAIMS}
