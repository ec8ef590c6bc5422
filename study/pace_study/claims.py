"""Every sentence of the paper's Section 5 and appendix about a result, judged on the stored cells."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pace.datasets import DATA_SEED
from pace_study.records import published, title
from pace_study.scores import DENSE, TIE, Array, Draws, t_interval, win_tie_loss
from pace_study.study import (
    ABLATION,
    AVAILABLE,
    CALIBRATED,
    CITATION,
    LOCAL,
    MATRIX,
    PACE,
    PARTS,
    REDRAW_SEEDS,
    REDRAWS,
    UNPUBLISHED,
    Row,
    in_order,
)

HOLDS = "holds"
WITHIN = "not confirmed; compatible with one draw"
FAILS = "does not hold"
UNKNOWN = "cannot be judged"
VERDICTS = (HOLDS, WITHIN, FAILS, UNKNOWN)
WORST_FIRST = (FAILS, WITHIN, HOLDS)
MARKS = {HOLDS: "", WITHIN: "≈ ", FAILS: "✗ "}
METRICS = {"accuracy": "accuracy", "weighted_f1": "W-F1"}
TRANSPORT, HALF, MEAN, RAW, DIRECT = ABLATION[1:6]
BRIEF = {"c20": "C = 20", "c30": "C = 30", "metis": "METIS", "dirichlet": "Dirichlet"}
TENTH = 0.1  # points: what "matching", "effectively tied" and "competitive" are held to
ABOVE_ZERO, BELOW_ZERO = (math.ulp(0.0), math.inf), (-math.inf, -math.ulp(0.0))
AT_LEAST_ZERO = (0.0, math.inf)
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


@dataclass(frozen=True)
class Claim:
    """A sentence in the paper's words, what became of it here, and the numbers that say so."""

    id: str
    place: str
    statement: str
    verdict: str
    evidence: str


@cache
def sentences() -> tuple[Sentence, ...]:
    """All of them; `tests/study/paper_sentences.py` finds them in the paper's source."""
    text = resources.files("pace_study").joinpath("sentences.json").read_text(encoding="utf-8")
    return tuple(Sentence(**entry) for entry in json.loads(text))


def judge_claims(scores: pd.DataFrame, seeds: Sequence[int]) -> list[Claim]:
    """Every sentence about a result, in the paper's order."""
    numbers = Numbers(scores, seeds)
    return [
        Claim(sentence.id, sentence.place, sentence.text, *judged(RESULTS[sentence.id](numbers)))
        for sentence in sentences()
        if sentence.kind == "result"
    ]


# --- one number ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Check:
    """A number, the range that the sentence puts it in, and what redrawing the masks does to it.

    A sentence that prints a number wants it to the printed digit (`exact`); one that says more, less
    or equal wants a direction.
    """

    name: str
    here: float | None
    low: float
    high: float
    draws: Draws | None = None
    exact: bool = False
    unit: str = "+.2f"

    @property
    def verdict(self) -> str:
        """Holds: here and, of a direction, on average over redraws. Within: a redraw may meet it."""
        if self.here is None:
            return UNKNOWN
        met = self.low <= self.here <= self.high
        if self.draws is None:
            return HOLDS if met else FAILS
        if met and (self.exact or self.low <= self.draws.mean <= self.high):
            return HOLDS
        low, high = self.draws.interval
        return WITHIN if met or (low <= self.high and high >= self.low) else FAILS

    @property
    def evidence(self) -> str:
        """`✗ Cora -0.99, draws +0.93 [+0.21, +1.65]`: the verdict, ours, redraws; the paper's number."""
        if self.here is None:
            return f"{self.name} not run"
        text = f"{MARKS[self.verdict]}{self.name} {self.here:{self.unit}}"
        if self.exact:
            text += f" (paper {(self.low + self.high) / 2:{self.unit}})"
        if self.draws is not None:
            low, high = self.draws.interval
            text += f", draws {self.draws.mean:{self.unit}} [{low:{self.unit}}, {high:{self.unit}}]"
        return text


NOT_RUN = Check("ogbn-arxiv", None, 0, 0)


def judged(checks: Sequence[Check]) -> tuple[str, str]:
    """The sentence's verdict, which is its worst check's, and the evidence of them all."""
    known = [check.verdict for check in checks if check.verdict != UNKNOWN]
    verdict = next((each for each in WORST_FIRST if each in known), UNKNOWN)
    return verdict, "; ".join(check.evidence for check in checks)


class Setting(NamedTuple):
    """A dataset divided among clients."""

    dataset: str
    partition: str = "louvain"
    clients: int = 10


CITED = [Setting(name) for name in CITATION]


class Numbers:
    """Numbers of the stored cells, on the study's masks and on redraws of them."""

    def __init__(self, scores: pd.DataFrame, seeds: Sequence[int]) -> None:
        self.scores = scores[scores.model == "gcn"].reset_index(drop=True)
        self.seeds = list(seeds)
        keys = ["dataset", "partition", "clients", "method", "rank", "reading", "data_seed", "seed"]
        columns = (self.scores[key] for key in keys)
        self._index = {key: place for place, key in enumerate(zip(*columns, strict=True))}

    def values(
        self,
        settings: Sequence[Setting],
        rows: Sequence[Row],
        metric: str = "accuracy",
        data_seed: int = DATA_SEED,
        seeds: Sequence[int] | None = None,
    ) -> Array | None:
        """values[setting, row, seed], with receivers behind for `gains`; None unless all are there."""
        seeds = self.seeds if seeds is None else seeds
        every = product(settings, rows, seeds)
        try:
            places = [
                self._index[*place, row.method, row.rank or DENSE, row.reading, data_seed, seed]
                for place, row, seed in every
            ]
        except KeyError:
            return None
        shape = len(settings), len(rows), len(seeds)
        found = self.scores[metric].to_numpy()[np.array(places).reshape(shape)]
        return np.array(found.tolist()) if metric == "gains" else found

    def check(
        self,
        name: str,
        number: Number,
        settings: Sequence[Setting],
        rows: Sequence[Row],
        *,
        metric: str = "accuracy",
        bounds: tuple[float, float] = ABOVE_ZERO,
        paper: float | None = None,
        half: float = 0.005,
        unit: str = "+.2f",
        redraw: bool = True,
    ) -> Check:
        """That a number is between bounds or, given the paper's, equal to it to the printed digit."""
        found = self.values(settings, rows, metric)
        here = None if found is None else float(number(found))
        chosen = in_order(self.seeds)[:REDRAW_SEEDS]
        redrawn = [
            float(number(values))
            for data_seed in range(REDRAWS if redraw else 0)
            if (values := self.values(settings, rows, metric, data_seed, chosen)) is not None
        ]
        draws = Draws(tuple(redrawn)) if len(redrawn) > 1 else None
        if paper is not None:
            bounds = (paper - half - 1e-9, paper + half + 1e-9)
        return Check(name, here, *bounds, draws, exact=paper is not None, unit=unit)


def mean(values: Array) -> float:
    """The row's mean over seeds, averaged over settings."""
    return float(values[:, 0].mean())


def gap(values: Array) -> float:
    """The first row's mean less the second's, averaged over settings."""
    return float((values[:, 0] - values[:, 1]).mean())


def lead(values: Array) -> float:
    """The last row's mean less the best of the others', as displayed: to two digits."""
    means = values[0].mean(1)
    return round(float(means[-1]), 2) - round(float(means[:-1].max()), 2)


def interval_end(values: Array, which: int) -> float:
    """One end of the 95 % paired interval of the first row less the second."""
    return t_interval(values[0, 0] - values[0, 1])[which]


def units(gains: Array, kind: int) -> float:
    """Helped, tied or harmed of 150 receiver-seed units; redraws have fewer seeds and are scaled."""
    return 150 * win_tie_loss(gains.ravel())[kind] / gains.size


def pairs_won(values: Array, kind: int = 0) -> float:
    """Won, tied or lost of the 15 dataset-seed pairs; redraws have fewer seeds and are scaled."""
    differences = (values[:, 0] - values[:, 1]).ravel()
    return 15 * win_tie_loss(differences)[kind] / differences.size


# --- the paper's sentences ----------------------------------------------------------------------

Judge = Callable[[Numbers], list[Check]]


def both_metrics(
    numbers: Numbers, form: str, number: Number, settings: Sequence[Setting], **more: Any
) -> list[Check]:
    """In each setting accuracy and weighted F1; the form says where in its name they stand."""
    checks = []
    for setting, (metric, word) in product(settings, METRICS.items()):
        count = f", C = {setting.clients}" if setting.clients != 10 else ""
        name = form.format(f"{title(setting.dataset)}{count} {word}")
        checks.append(numbers.check(name, number, [setting], metric=metric, **more))
    return checks


def over_local(
    numbers: Numbers, datasets: Sequence[str], clients: int = 10, **bounds: tuple[float, float]
) -> list[Check]:
    """PACE - Local in both metrics."""
    settings = [Setting(name, clients=clients) for name in datasets]
    return both_metrics(numbers, "{}", gap, settings, rows=(PACE, LOCAL), **bounds)


def paces(numbers: Numbers, word: str, metric: str, **more: Any) -> list[Check]:
    """A mean of PACE's on each dataset."""
    return [
        numbers.check(
            f"{title(name)} {word}", mean, [Setting(name)], (PACE,), metric=metric, **more
        )
        for name in AVAILABLE
    ]


def adopted_and_better(numbers: Numbers) -> list[Check]:
    adoption = paces(numbers, "mean α", "mean_alpha", unit=".3f")
    return [*adoption, *over_local(numbers, AVAILABLE), NOT_RUN]


def leads(numbers: Numbers, rows: Sequence[Row], datasets: Sequence[str]) -> list[Check]:
    """The last row against the best of the others; a displayed tie counts as best."""
    settings = list(map(Setting, datasets))
    return both_metrics(numbers, "{} ahead by", lead, settings, rows=rows, bounds=AT_LEAST_ZERO)


def highest(numbers: Numbers) -> list[Check]:
    """PACE against the best of Local and the matched controls, in both metrics."""
    rivals = [row for row in MATRIX if row is not PACE and row.method not in UNPUBLISHED]
    return [*leads(numbers, [*rivals, PACE], AVAILABLE), NOT_RUN]


def intervals(numbers: Numbers) -> list[Check]:
    """95 % paired t over seeds: beyond zero on the citation graphs, across it on the others."""
    checks = []
    for name in AVAILABLE:
        for metric, word in METRICS.items():
            label, low_bounds = f"{title(name)} {word}", (BELOW_ZERO, ABOVE_ZERO)[name in CITATION]
            judge = partial(
                numbers.check, settings=[Setting(name)], rows=(PACE, LOCAL), metric=metric
            )
            ends = partial(judge, redraw=False)
            checks += [
                judge(f"{label} mean", gap),
                ends(f"{label} interval from", partial(interval_end, which=0), bounds=low_bounds),
                ends("to", partial(interval_end, which=1)),
            ]
    return [*checks, NOT_RUN]


def counts(
    numbers: Numbers, number: Callable[..., float], papers: Mapping[str, int], **more: Any
) -> list[Check]:
    """Gains, ties and losses, each as the paper counts it."""
    return [
        numbers.check(name, partial(number, kind=kind), CITED, paper=paper, **COUNT, **more)
        for kind, (name, paper) in enumerate(papers.items())
    ]


def helped_and_harmed(numbers: Numbers) -> list[Check]:
    papers = {"helped": 118, "tied": 15, "harmed": 17}
    return counts(numbers, units, papers, rows=(PACE,), metric="gains")


def nonnegative(numbers: Numbers) -> list[Check]:
    def of_thirty(gains: Array) -> float:
        return 30 * float((gains[:, 0].mean(1) >= -TIE).mean())

    name = "receivers of 30 at or above Local"
    return [numbers.check(name, of_thirty, CITED, (PACE,), metric="gains", paper=27, **COUNT)]


def worst(numbers: Numbers) -> list[Check]:
    def lowest(gains: Array) -> float:
        return float(gains[:, 0].mean(1).min())

    judge = partial(numbers.check, settings=CITED, rows=(PACE,), metric="gains")
    return [
        judge("worst receiver's mean", lowest, paper=-1.43),
        judge("worst single run", np.min, paper=-3.64),
    ]


def receivers(numbers: Numbers) -> list[Check]:
    return [*nonnegative(numbers), *worst(numbers)]


def rank_six(numbers: Numbers) -> list[Check]:
    judge = partial(numbers.check, number=mean, settings=CITED, rows=(PACE,), unit=".2f")
    return [
        judge("mean accuracy", paper=79.65),
        judge("upload %", metric="upload_percent", paper=12.38, redraw=False),
        judge("return %", metric="downlink_percent", paper=10.47, redraw=False),
    ]


def few_bytes(numbers: Numbers) -> list[Check]:
    """Whatever the masks, a return has the same bytes: no redraws."""
    bounds = (9.55, 17.65)
    checks = paces(numbers, "return %", "downlink_percent", bounds=bounds, unit=".2f", redraw=False)
    known = [check.here for check in checks if check.here is not None]
    least = min(known) if len(known) == len(AVAILABLE) else None
    return [*checks, Check("least", least, 9.55, 9.65, exact=True, unit=".1f"), NOT_RUN]


def gap_on(
    numbers: Numbers, name: str, dataset: str, rows: Sequence[Row], bounds: tuple[float, float]
) -> Check:
    return numbers.check(name, gap, [Setting(dataset)], rows, bounds=bounds)


def gap_is(numbers: Numbers, dataset: str, rows: Sequence[Row], paper: float) -> Check:
    return numbers.check(title(dataset), gap, [Setting(dataset)], rows, paper=paper)


def gaps_are(numbers: Numbers, rows: Sequence[Row], papers: Mapping[str, float]) -> list[Check]:
    """On each dataset the paper's gap, and one above zero."""
    checks = []
    for name, paper in papers.items():
        checks.append(gap_is(numbers, name, rows, paper))
        checks.append(gap_on(numbers, f"{title(name)} above zero", name, rows, ABOVE_ZERO))
    return checks


def cnll_recovers(numbers: Numbers) -> list[Check]:
    rows = (PACE, TRANSPORT)
    checks = gaps_are(numbers, rows, {"cora": 16.88, "pubmed": 1.13})
    return [*checks, gap_on(numbers, "CiteSeer kept", "citeseer", rows, (-TENTH, math.inf))]


def fixed_half(numbers: Numbers) -> list[Check]:
    rows = (HALF, PACE)
    return [
        gap_on(numbers, "Cora, competitive", "cora", rows, (-0.5, 0.5)),
        gap_on(numbers, "PubMed, better", "pubmed", rows, ABOVE_ZERO),
        gap_is(numbers, "citeseer", rows, -3.86),
    ]


def geometry(numbers: Numbers) -> list[Check]:
    rows = (RAW, MEAN)
    papers = zip(CITATION, (1.13, 1.61, 0.42), strict=True)
    won = numbers.check("won of 15", pairs_won, CITED, rows, paper=15, **COUNT)
    return [*(gap_is(numbers, name, rows, paper) for name, paper in papers), won]


def propagated(numbers: Numbers) -> list[Check]:
    rows = (PACE, RAW)
    matching = [
        gap_on(numbers, f"{title(name)}, matching", name, rows, MATCHING)
        for name in ("cora", "pubmed")
    ]
    return [gap_is(numbers, "citeseer", rows, 0.44), *matching]


def most_consistent(numbers: Numbers) -> list[Check]:
    """RegMean's geometry wins more of the 15 pairs than any other component; propagation on CiteSeer."""

    def more(values: Array) -> float:
        raw, plain, ours, direct = (values[:, [at]] for at in range(4))
        others = (np.hstack([ours, raw]), np.hstack([ours, direct]))
        return pairs_won(np.hstack([raw, plain])) - max(map(pairs_won, others))

    def concentrated(values: Array) -> float:
        cora, citeseer, pubmed = (values[:, 0] - values[:, 1]).mean(1)
        return float(citeseer - max(cora, pubmed))

    rows = (RAW, MEAN, PACE, DIRECT)
    name = "pairs won, geometry less the next component"
    return [
        numbers.check(name, more, CITED, rows, unit="+.0f"),
        numbers.check(
            "propagation's gain, CiteSeer less the next", concentrated, CITED, (PACE, RAW)
        ),
    ]


def anchored(numbers: Numbers) -> list[Check]:
    rows = (PACE, DIRECT)
    checks = gaps_are(numbers, rows, {"cora": 0.43, "citeseer": 0.24})
    return [*checks, gap_on(numbers, "PubMed, tied", "pubmed", rows, MATCHING)]


def anchored_pairs(numbers: Numbers) -> list[Check]:
    papers = {"won of 15": 11, "tied of 15": 1, "lost of 15": 3}
    return counts(numbers, pairs_won, papers, rows=(PACE, DIRECT))


def fair(numbers: Numbers) -> list[Check]:
    """PACE against the best baseline with the same CNLL, Local among them."""
    rivals = [LOCAL, *(row for row in CALIBRATED if row.method not in UNPUBLISHED)]
    return leads(numbers, [*rivals, PACE], CITATION)


def more_clients(numbers: Numbers) -> list[Check]:
    checks = []
    for clients in (20, 30):
        checks += over_local(numbers, AVAILABLE[:-1], clients)
        checks += over_local(numbers, ("computers",), clients, bounds=BELOW_ZERO)
    return checks


def arxiv(numbers: Numbers) -> list[Check]:
    return [NOT_RUN]


def bold(*names: str) -> Judge:
    """The row that the paper prints bold is the best of its column here."""

    def judge(numbers: Numbers) -> list[Check]:
        return [check for name in names for check in _bold(numbers, name)]

    return judge


def _bold(numbers: Numbers, name: str) -> list[Check]:
    part = PARTS[name]
    rows = {row.label: row for row in part.rows if row.method not in UNPUBLISHED}
    paper = published()
    paper = paper[(paper.table == part.table) & (paper.clients == part.clients[0])]
    checks = []
    for dataset in (each for each in part.datasets if each in AVAILABLE):
        for metric in part.metrics:
            column = paper[(paper.dataset == title(dataset)) & (paper.metric == metric)]
            theirs = column.set_index("method")["mean"].loc[list(rows)]
            best = theirs[theirs == theirs.max()].index[-1]
            order = [*(row for label, row in rows.items() if label != best), rows[best]]
            short = f"{BRIEF[name]}: " if name in BRIEF else ""
            checks.append(
                numbers.check(
                    f"{short}{title(dataset)} {METRICS[metric]} {best} ahead by",
                    lead,
                    [Setting(dataset, part.partition, part.clients[0])],
                    order,
                    metric=metric,
                    bounds=AT_LEAST_ZERO,
                )
            )
    return checks


RESULTS: dict[str, Judge] = {
    "adopts-and-improves": adopted_and_better,
    "highest-of-both": highest,
    "intervals": intervals,
    "units": helped_and_harmed,
    "receivers": receivers,
    "five-settings": adopted_and_better,
    "arxiv-alpha": arxiv,
    "rank-6-means": rank_six,
    "returns-bytes": few_bytes,
    "arxiv-unforced": arxiv,
    "cnll-recovers": cnll_recovers,
    "fixed-half": fixed_half,
    "raw-over-mean": geometry,
    "propagated-over-raw": propagated,
    "most-consistent": most_consistent,
    "anchored-over-direct": anchored,
    "anchored-pairs": anchored_pairs,
    "fair-both-metrics": fair,
    "six-settings": adopted_and_better,
    "fair-exceeds": fair,
    "c20-c30": more_clients,
    "table-1-bold": bold("main"),
    "table-2-bold": bold("ablation"),
    "appendix-intervals": intervals,
    "appendix-units": helped_and_harmed,
    "appendix-receiver-means": nonnegative,
    "appendix-worst": worst,
    "fairness-bold": bold("fairness"),
    "c20-c30-bold": bold("c20", "c30"),
    "partitions-bold": bold("metis", "dirichlet"),
}
