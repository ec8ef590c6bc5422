"""Every sentence of the paper's Section 5 and appendix about a result, judged on the stored cells."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import resources
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pace.datasets import DATA_SEED
from pace.reports import Table, Value
from pace_study import study
from pace_study.scores import DENSE, TIE, Array, Draws, t_interval, win_tie_loss
from pace_study.study import AVAILABLE, CITATION, LOCAL, MATRIX, PACE, PARTS, UNPUBLISHED, Row
from pace_study.tables import published, title

HOLDS = "holds"
WITHIN = "not confirmed; compatible with one draw"
FAILS = "does not hold"
UNKNOWN = "cannot be judged"
VERDICTS = (HOLDS, WITHIN, FAILS, UNKNOWN)
MARKS = {HOLDS: "", WITHIN: "≈ ", FAILS: "✗ "}
METRICS = {"accuracy": "accuracy", "weighted_f1": "W-F1"}
TRANSPORT, HALF, MEAN, RAW, DIRECT = study.ABLATION[1:6]
BRIEF = {"c20": "C = 20: ", "c30": "C = 30: ", "metis": "METIS: ", "dirichlet": "Dirichlet: "}
TENTH = 0.1  # points: what "matching", "effectively tied" and "competitive" are held to
ABOVE_ZERO, BELOW_ZERO = (math.ulp(0.0), math.inf), (-math.inf, -math.ulp(0.0))
AT_LEAST_ZERO = (0.0, math.inf)
MORE_CLIENTS = ((AVAILABLE[:-1], ABOVE_ZERO), (AVAILABLE[-1:], BELOW_ZERO))
MATCHING = (-TENTH, TENTH)
COUNT: dict[str, Any] = {"half": 0.5, "unit": ".0f"}  # a sentence that prints a whole number

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
    text = resources.files("pace_study").joinpath("sentences.json").read_text(encoding="utf-8")
    return tuple(Sentence(**entry) for entry in json.loads(text))


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
    rows: list[list[str | Value]] = []
    for claim in claims:
        verdict = Value(claim.verdict, mark="best" if claim.verdict == FAILS else "")
        rows.append([claim.place, claim.text, verdict, claim.evidence])
    heads = ["Where", "The paper's sentence", "Here", "Numbers"]
    total = [[str(counts[verdict]) for verdict in VERDICTS]]
    return [Table.of("", VERDICTS, total, names=0, words=0), Table.of("", heads, rows, names=4)]


# --- one number ---------------------------------------------------------------------------------


class Setting(NamedTuple):
    """A dataset divided among clients."""

    dataset: str
    partition: str = "louvain"
    clients: int = 10


CITED = [Setting(name) for name in CITATION]


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
        return [self.check(asked) for asked in RESULTS[sentence]]

    def check(self, asked: Check) -> Check:
        here = self.measure(asked, DATA_SEED, self.seeds)
        seeds = study.in_order(self.seeds)[: study.REDRAW_SEEDS]
        redraws = study.DRAWS if asked.redraw else ()
        numbers = [self.measure(asked, data_seed, seeds) for data_seed in redraws]
        redrawn = tuple(number for number in numbers if number is not None)
        return replace(asked, here=here, draws=Draws(redrawn) if len(redrawn) > 1 else None)

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


def both_metrics(
    number: Number, settings: Sequence[Setting], form: str = "{}", **wanted: Any
) -> list[Check]:
    """In each setting accuracy and weighted F1; the form says where in its name they stand."""
    checks = []
    for setting, (metric, word) in product(settings, METRICS.items()):
        count = f", C = {setting.clients}" if setting.clients != 10 else ""
        name = form.format(f"{title(setting.dataset)}{count} {word}")
        checks.append(Check(name, number, [setting], metric=metric, **wanted))
    return checks


def on(dataset: str, rows: Sequence[Row], word: str = "", **wanted: Any) -> Check:
    """The row's mean on a dataset, or the first row's less the second's."""
    return Check(title(dataset) + word, mean, [Setting(dataset)], rows, **wanted)


def paces(word: str, **wanted: Any) -> list[Check]:
    """A mean of PACE's on each dataset."""
    return [on(name, (PACE,), word, **wanted) for name in AVAILABLE]


def leads(rows: Sequence[Row], datasets: Sequence[str]) -> list[Check]:
    """PACE against the best of the published others; a displayed tie counts as best."""
    rivals = [row for row in rows if row is not PACE and row.method not in UNPUBLISHED]
    settings, form = list(map(Setting, datasets)), "{} ahead by"
    return both_metrics(lead, settings, form, rows=[*rivals, PACE], bounds=AT_LEAST_ZERO)


def intervals() -> list[Check]:
    """95 % paired t over seeds: beyond zero on the citation graphs, across it on the others."""
    checks = []
    for name, (metric, word) in product(AVAILABLE, METRICS.items()):
        label, bounds = f"{title(name)} {word}", ABOVE_ZERO if name in CITATION else BELOW_ZERO
        ask = partial(Check, settings=[Setting(name)], rows=(PACE, LOCAL), metric=metric)
        low, high = (partial(interval_end, which=which) for which in (0, 1))
        checks += [
            ask(f"{label} mean", mean),
            ask(f"{label} interval from", low, bounds=bounds, redraw=False),
            ask("to", high, redraw=False),
        ]
    return checks


def counted(of: int, papers: Mapping[str, int], **more: Any) -> list[Check]:
    """Gains, ties and losses, each as the paper counts it."""
    return [
        Check(name, partial(share, of=of, kind=kind), CITED, paper=paper, **COUNT, **more)
        for kind, (name, paper) in enumerate(papers.items())
    ]


def gaps_are(rows: Sequence[Row], papers: Mapping[str, float]) -> list[Check]:
    """On each dataset the paper's gap, and one above zero."""
    return [
        asked
        for name, paper in papers.items()
        for asked in (on(name, rows, paper=paper), on(name, rows, " above zero"))
    ]


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
        setting = Setting(dataset, part.partition, part.clients[0])
        checks.append(Check(label, lead, [setting], order, metric, AT_LEAST_ZERO))
    return checks


NOT_RUN = Check("ogbn-arxiv", mean, (), ())
OVER_LOCAL: dict[str, Any] = {"number": mean, "rows": (PACE, LOCAL)}
ADOPTED_AND_BETTER = [
    *paces(" mean α", metric="mean_alpha", unit=".3f"),
    *both_metrics(settings=list(map(Setting, AVAILABLE)), **OVER_LOCAL),
    NOT_RUN,
]
INTERVALS = [*intervals(), NOT_RUN]
FAIR = leads([LOCAL, *study.CALIBRATED], CITATION)
PACES_GAINS: dict[str, Any] = {"settings": CITED, "rows": (PACE,), "metric": "gains"}
UNITS = counted(150, {"helped": 118, "tied": 15, "harmed": 17}, rows=(PACE,), metric="gains")
NONNEGATIVE = Check(
    "receivers of 30 at or above Local", nonnegative, paper=27, **COUNT, **PACES_GAINS
)
WORST = [
    Check("worst receiver's mean", lowest, paper=-1.43, **PACES_GAINS),
    Check("worst single run", np.min, paper=-3.64, **PACES_GAINS),
]
RANK_SIX = partial(Check, number=mean, settings=CITED, rows=(PACE,), unit=".2f")
RETURNS: dict[str, Any] = {"metric": "downlink_percent", "redraw": False}  # the same on any masks

RESULTS: dict[str, Sequence[Check]] = {
    "adopts-and-improves": ADOPTED_AND_BETTER,
    "highest-of-both": [*leads(MATRIX, AVAILABLE), NOT_RUN],
    "intervals": INTERVALS,
    "units": UNITS,
    "receivers": [NONNEGATIVE, *WORST],
    "five-settings": ADOPTED_AND_BETTER,
    "arxiv-alpha": [NOT_RUN],
    "rank-6-means": [
        RANK_SIX("mean accuracy", paper=79.65),
        RANK_SIX("upload %", metric="upload_percent", paper=12.38, redraw=False),
        RANK_SIX("return %", paper=10.47, **RETURNS),
    ],
    "returns-bytes": [
        *paces(" return %", bounds=(9.55, 17.65), unit=".2f", **RETURNS),
        Check(
            "least", lowest, list(map(Setting, AVAILABLE)), (PACE,),
            paper=9.6, half=0.05, unit=".1f", **RETURNS,
        ),
        NOT_RUN,
    ],
    "arxiv-unforced": [NOT_RUN],
    "cnll-recovers": [
        *gaps_are((PACE, TRANSPORT), {"cora": 16.88, "pubmed": 1.13}),
        on("citeseer", (PACE, TRANSPORT), " kept", bounds=(-TENTH, math.inf)),
    ],
    "fixed-half": [
        on("cora", (HALF, PACE), ", competitive", bounds=(-0.5, 0.5)),
        on("pubmed", (HALF, PACE), ", better"),
        on("citeseer", (HALF, PACE), paper=-3.86),
    ],
    "raw-over-mean": [
        *(
            on(name, (RAW, MEAN), paper=paper)
            for name, paper in zip(CITATION, (1.13, 1.61, 0.42), strict=True)
        ),
        Check("won of 15", share, CITED, (RAW, MEAN), paper=15, **COUNT),
    ],
    "propagated-over-raw": [
        on("citeseer", (PACE, RAW), paper=0.44),
        on("cora", (PACE, RAW), ", matching", bounds=MATCHING),
        on("pubmed", (PACE, RAW), ", matching", bounds=MATCHING),
    ],
    "most-consistent": [
        Check(
            "pairs won, geometry less the next component", geometrys_lead, CITED,
            (RAW, MEAN, PACE, DIRECT), unit="+.0f",
        ),
        Check("propagation's gain, CiteSeer less the next", citeseers_lead, CITED, (PACE, RAW)),
    ],
    "anchored-over-direct": [
        *gaps_are((PACE, DIRECT), {"cora": 0.43, "citeseer": 0.24}),
        on("pubmed", (PACE, DIRECT), ", tied", bounds=MATCHING),
    ],
    "anchored-pairs": counted(
        15, {"won of 15": 11, "tied of 15": 1, "lost of 15": 3}, rows=(PACE, DIRECT)
    ),
    "fair-both-metrics": FAIR,
    "six-settings": ADOPTED_AND_BETTER,
    "fair-exceeds": FAIR,
    "c20-c30": [
        asked
        for clients, (datasets, bounds) in product((20, 30), MORE_CLIENTS)
        for asked in both_metrics(
            settings=[Setting(name, clients=clients) for name in datasets],
            bounds=bounds, **OVER_LOCAL,
        )
    ],
    "table-1-bold": bold("main"),
    "table-2-bold": bold("ablation"),
    "appendix-intervals": INTERVALS,
    "appendix-units": UNITS,
    "appendix-receiver-means": [NONNEGATIVE],
    "appendix-worst": WORST,
    "fairness-bold": bold("fairness"),
    "c20-c30-bold": [*bold("c20"), *bold("c30")],
    "partitions-bold": [*bold("metis"), *bold("dirichlet")],
}  # fmt: skip
