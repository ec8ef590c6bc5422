"""What a simulation found: its settings, its trials, and every view of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pace.errors import FileError, SettingError, needs_extra
from pace.io import atomic, console, drawn, many, records, shown, untrusted, written
from pace.registry import installed
from pace.reports import document as page
from pace.reports.document import Block, Document, Fold, Section, render_page
from pace.reports.table import Cell, Column, Table, Value
from pace.reports.trial import Comparison, Spread, Summary, Trial, summarise, tidy_frame
from pace.task import SCORES, accuracy

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from rich.console import Console

NAME, PAGE = "results.json", "index.html"
LARGEST = 2**28  # bytes of a file of results
LIBRARIES = ("pace-fgl", "torch", "numpy", "scikit-network", "pymetis", "torch-geometric")
READING = {"local": "α = 0, its own model", "external": "α = 1, what came back"}
GATES = {  # what chose α
    "cnll": "α by CNLL",
    "Mixture": "α by mixture",
    "Guarded": "α by guarded mixture",
    "Fixed": "α fixed",
}
SCORE = {"accuracy": "Accuracy", "weighted_f1": "W-F1", "macro_f1": "Macro-F1"}
BINARY = {"roc_auc": "ROC AUC"}
NOTE = (
    "Mean ± sample standard deviation over seeds; best bold, second underlined. Methods that train "
    "alike have one local model, shown once."
)
SCORED = "Scores in percent, on the test nodes of all clients together"
BARS = "▁▂▃▄▅▆▇█"
MOST = 50  # clients that have a bar
versions = partial(installed, LIBRARIES)  # what a result is made with


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """What was asked for, and what it ran with."""

    command: str = ""
    versions: dict[str, str] = field(default_factory=versions)
    dataset: str
    partition: str
    clients: int
    seeds: tuple[int, ...]
    device: str
    data_seed: int | None
    """Of the partition and the masks; None where they were given."""
    model: str
    """Its name in `pace.MODELS`."""
    setups: dict[str, dict[str, Any]] = field(metadata=records.record_key("settings"))
    """By method: what `Federation.describe` says of the first seed's federation, and its gate."""

    @property
    def shape(self) -> dict[str, Any]:
        """The shared model's fields: widths, dropout and the rest."""
        return dict(next(iter(self.setups.values()))["model"])

    @property
    def numbers(self) -> str:
        """How messages are written: `float32`, or of several methods `float32, int8`."""
        return ", ".join(sorted({setup["numbers"] for setup in self.setups.values()}))

    @property
    def title(self) -> str:
        """`synthetic, louvain, 10 clients, 5 seeds`; model and numbers where they are not the usual."""
        parts = [self.dataset, self.partition, many(self.clients, "client")]
        parts.append(many(len(self.seeds), "seed"))
        parts += [self.model] if self.model != "gcn" else []
        parts += [f"messages in {self.numbers}"] if self.numbers != "float32" else []
        return ", ".join(parts)


@dataclass(frozen=True, eq=False)
class RunResult:
    """What `pace.simulate` or `pace run` found. Its repr is the table of scores.

    Example:
        >>> import pace
        >>> dataset = pace.load("synthetic:nodes=90,features=12,communities=3,classes=3")
        >>> graphs = pace.divide(dataset, "dirichlet", clients=3)
        >>> result = pace.simulate(graphs, methods=["local", "pace"], seeds=[7], epochs=5)
        >>> print(result.table().markdown().splitlines()[0])
        | Method | Reading | Accuracy | W-F1 | Macro-F1 |
        >>> len(result.compare("pace", "local").per_seed)
        1
    """

    settings: RunSettings
    trials: tuple[Trial, ...]
    """One for each method and seed."""

    def __repr__(self) -> str:
        return drawn(self.show)

    def show(self, to: Console | None = None) -> None:
        """Print scores, what receivers adopted, and a sentence."""
        adoption = adoption_table(self.trials)
        more = filter(None, [adoption if adoption.rows else None, verdict(self)])
        (to or console()).print(self.table(), *more)

    def _repr_html_(self) -> str:
        return self.table().html()

    @cached_property
    def summary(self) -> list[Summary]:
        """Scores, α and bytes by method and reading."""
        return summarise(self.trials)

    def table(self) -> Table:
        """Pooled test scores in percent, mean ± standard deviation over seeds."""
        gates = {name: setup["gate"] for name, setup in self.settings.setups.items()}
        return score_table(self.summary, self.settings.title, gates)

    def frame(self, by: str = "seed") -> pandas.DataFrame:
        """One tidy pandas table, a row for each method, reading and seed, or also each client.

        Args:
            by: `"seed"`, scores pooled over clients, or `"client"`.
        """
        settings, widths = self.settings, self.settings.shape["widths"]
        shared = ("dataset", "partition", "clients", "data_seed", "model")
        common = {name: getattr(settings, name) for name in shared}
        common |= {"hidden": widths[1] if len(widths) > 2 else None, "layers": len(widths) - 1}
        keyed = []
        for trial in self.trials:
            setup = settings.setups[trial.method]
            rank = setup["method"].get("rank")
            own = {"epochs": setup["recipe"]["epochs"], "numbers": setup["numbers"]}
            own["rank"] = rank if isinstance(rank, int) else None
            keyed.append((common | own, trial))
        return tidy_frame(keyed, by)

    def compare(self, first: str, second: str, score: str = "accuracy") -> Comparison:
        """One method's adopted models less another's, seed by seed, with a 95 % interval.

        Args:
            first: a method of this run.
            second: another.
            score: `accuracy`, `weighted_f1` or `macro_f1`.
        Raises:
            SettingError: the run has no such method or score.
        """
        rows = {row.method: row.spreads for row in self.summary}  # the last reading's
        for name in (first, second):
            if name not in rows:
                raise SettingError(f"the run has no method {name!r}: it has {', '.join(rows)}")
        scores = [name for name in rows[first] if name in (*SCORES, "roc_auc")]
        if score not in scores:
            raise SettingError(f"the score is {score!r}, expected one of {', '.join(scores)}")
        pairs = zip(rows[first][score].per_seed, rows[second][score].per_seed, strict=True)
        return Comparison(first, second, score, tuple(a - b for a, b in pairs))

    def plot(self) -> Figure:
        """Left, accuracy by method and reading with its spread over seeds; right, α by receiver."""
        with needs_extra("plot needs matplotlib", "report"):
            from matplotlib.figure import Figure
        figure = Figure(figsize=(7, 2.8), layout="constrained")
        scores, alphas = figure.subplots(1, 2, width_ratios=[3, 2])
        readings = {"local": "", "external": ", what came back", "adopted": ", adopted"}
        rows = distinct(self.summary)[::-1]
        names = [f"{row.method}{readings[row.reading]}" for row in rows]
        means = [100 * row.spreads["accuracy"].mean for row in rows]
        spreads = [100 * (row.spreads["accuracy"].std or 0) for row in rows]
        scores.errorbar(means, names, xerr=spreads, fmt="o", color="0.2", capsize=2)
        scores.set(xlabel="accuracy, %")
        scores.grid(axis="x", alpha=0.3)
        methods = [row.method for row in rows if row.reading == "adopted"]
        if methods:
            flat = [[a for t in self.trials if t.method == m for a in t.alphas] for m in methods]
            alphas.boxplot(flat, orientation="horizontal", whis=(0, 100))
            alphas.set_yticks(range(1, len(methods) + 1), methods)
        alphas.set(xlabel="α of a receiver", xlim=(-0.05, 1.05))
        title = shown(self.settings.title).replace("$", r"\$")
        figure.suptitle(title, fontsize="medium", wrap=True)
        return figure

    def page(self, folder: str | Path) -> Path:
        """Write `index.html`, one page that needs nothing but itself; its path."""
        path = Path(folder) / PAGE
        atomic.write(path, render_page(run_document(self)).encode())
        return path

    def write(self, folder: str | Path) -> Path:
        """Write `results.json`, which `RunResult.read` reads; its path."""
        path = Path(folder) / NAME
        atomic.write(path, (json.dumps(self.plain(), indent=1) + "\n").encode())
        return path

    def plain(self) -> dict[str, Any]:
        """As JSON has it: settings, a result for each method and reading, then the trials."""
        results = [row | row.pop("spreads") for row in map(records.plain_record, self.summary)]
        trials = [trial.plain() for trial in self.trials]
        return {**records.plain_record(self.settings), "results": results, "trials": trials}

    @classmethod
    def read(cls, folder: str | Path) -> RunResult:
        """The run that `pace run --out` stored in a folder.

        Raises:
            FileError: there is none, or it is damaged.
        """
        path = Path(folder) / NAME
        if not path.exists():
            raise FileError(f"{path} not found: name a folder that `pace run --out` has written")
        with records.reading(path, "not a result of `pace run`", "run it again"):
            content = untrusted.json(untrusted.read(path, LARGEST))
            trials = tuple(Trial.of(trial) for trial in content["trials"])
            return cls(records.read_record(RunSettings, content), trials)


def distinct(rows: Sequence[Summary]) -> list[Summary]:
    """The rows; methods that train alike have one local model, which comes once."""
    unique: dict[object, Summary] = {}
    for row in rows:
        scores = tuple(row.spreads[name] for name in SCORES)
        unique.setdefault(scores if row.reading == "local" else (row.method, row.reading), row)
    return list(unique.values())


def score_table(results: Sequence[Summary], title: str, gates: Mapping[str, str]) -> Table:
    """Pooled test scores in percent, best and second marked; `gates` by method."""
    rows = distinct(results)
    scores = SCORE | (BINARY if all("roc_auc" in row.spreads for row in rows) else {})
    marks = {score: ranked([row.spreads[score].mean for row in rows]) for score in scores}
    lines: list[list[Cell]] = []
    for line, row in enumerate(rows):
        gate = gates[row.method]
        reading = READING.get(row.reading, GATES.get(gate, f"α by {gate}"))
        spreads = [(row.spreads[score], marks[score][line]) for score in scores]
        shown = (Value(percent(spread), spread.mean, mark) for spread, mark in spreads)
        lines.append([row.method, reading, *shown])
    heads = ["Method", "Reading", *scores.values()]
    return Table.of(title, heads, lines, note=NOTE, names=2, words=0)


def percent(spread: Spread) -> str:
    """`80.34 ± 0.61`, or the value alone where there is one seed."""
    return f"{100 * spread.mean:.2f}" + ("" if spread.std is None else f" ± {100 * spread.std:.2f}")


def ranked(means: Sequence[float]) -> list[str]:
    """`best` and `second` by the digits shown, where there is anything to compare."""
    texts = [f"{100 * mean:.2f}" for mean in means]
    order = sorted(set(texts), key=float, reverse=True)
    marks = dict(zip(order, ("best", "second"), strict=False)) if len(texts) > 1 else {}
    return [marks.get(text, "") for text in texts]


def adoption_table(trials: Sequence[Trial]) -> Table:
    """For each method that exchanges anything: alphas by client, bytes of a dense model's."""
    rows = []
    for summary in summarise(trials):
        if summary.reading != "adopted":
            continue
        mean = {name: spread.mean for name, spread in summary.spreads.items()}
        own = [trial for trial in trials if trial.method == summary.method]
        sizes = (mean["upload"], mean["returned"])
        values: list[Cell] = [
            summary.method,
            Value(f"{mean['alpha']:.2f}", mean["alpha"], share=mean["alpha"]),
            Value(f"{100 * mean['kept_local']:.0f}%", mean["kept_local"]),
            Value(bars([fmean(of) for of in zip(*(trial.alphas for trial in own), strict=True)])),
            *(Value(f"{n:,.0f} B", n, below=f"{100 * n / mean['dense']:.1f}%") for n in sizes),
        ]
        rows.append(values)
    heads: list[str | Column] = ["Method", "Mean α", "α = 0"]
    heads += [Column(head, folds=True) for head in ("By client", "Upload", "Return")]
    return Table.of("What receivers adopted", heads, rows, words=0)


def bars(shares: Sequence[float]) -> str:
    """Shares from 0 to 1 as bars, `·` for zero, in groups of ten; long lists are cut."""
    drawn = ["·" if share == 0 else BARS[round(share * (len(BARS) - 1))] for share in shares[:MOST]]
    groups = ["".join(drawn[start : start + 10]) for start in range(0, len(drawn), 10)]
    return " ".join(groups) + ("…" if len(shares) > MOST else "")


def by_accuracy(run: RunResult) -> list[tuple[Summary, float, float]]:
    """What receivers adopted, the best first; each with Local's and its own accuracy in percent."""
    percents = {(r.method, r.reading): 100 * r.spreads["accuracy"].mean for r in run.summary}
    adopted = [row for row in run.summary if row.reading == "adopted"]
    rows = [(r, percents[r.method, "local"], percents[r.method, "adopted"]) for r in adopted]
    return sorted(rows, key=lambda row: -row[2])


def verdict(run: RunResult) -> str:
    """One sentence on what the receivers of the most accurate method decided."""
    if not (ranking := by_accuracy(run)):
        return ""
    best, before, after = ranking[0]
    spreads = best.spreads
    most = f"is the most accurate of {len(ranking)} methods and " if ranking[1:] else ""
    return (
        f"{best.method} {most}changes its Local's accuracy by {after - before:+.2f} points; receivers "
        f"gave what came back a mean weight of {spreads['alpha'].mean:.2f}, and "
        f"{100 * spreads['kept_local'].mean:.0f}% of them kept Local as it was."
    )


def run_document(run: RunResult) -> Document:
    charts = [_changes(run, row.method) for row, _, _ in by_accuracy(run)]
    folded = [Fold(chart.caption, (chart,)) for chart in charts[1:]]
    clients: tuple[Block, ...] = (*charts[:1], *folded)
    return Document(
        f"PACE: {run.settings.title}",
        verdict(run) or "One upload, one return, Local always kept.",
        tuple(_headline(run)),
        (
            Section("Scores", (replace(run.table(), title=SCORED),)),
            *([Section("Client by client", clients)] if clients else []),
            Section("Adoption and bytes", (adoption_table(run.trials),)),
            Section("Command and versions", tuple(_provenance(run))),
        ),
    )


def _headline(run: RunResult) -> Iterable[tuple[str, str]]:
    for row, before, after in by_accuracy(run)[:1]:
        yield f"{before:.2f} %", "accuracy of its Local"
        yield f"{after:.2f} %", f"accuracy with {row.method}"
        yield f"{after - before:+.2f}", f"points {'gained' if after >= before else 'lost'}"
        ratio = row.spreads["returned"].mean / row.spreads["dense"].mean
        yield f"{100 * ratio:.1f} %", "of the dense bytes in a return"


def _changes(run: RunResult, method: str) -> page.Changes:
    """Local against adopted, client by client, α beside."""
    trials = [trial for trial in run.trials if trial.method == method]
    rows = []
    for client, counts in enumerate(trials[0].counts["local"]):
        if not counts.sum():
            continue  # it has no test nodes
        before, after = (
            fmean(accuracy(trial.counts[reading][client]) for trial in trials)
            for reading in ("local", "adopted")
        )
        alpha = fmean(trial.alphas[client] for trial in trials)
        rows.append(page.Change(str(client), before, after, alpha))
    return page.Changes(
        f"Accuracy on each client's test nodes, in percent: {method}",
        tuple(rows),
        f"Means over {many(len(trials), 'seed')}. α is the weight of what came back: 0 keeps Local.",
    )


def _provenance(run: RunResult) -> Iterable[Block]:
    settings = run.settings
    if settings.command:
        yield page.Code(settings.command)
    named = ("dataset", "partition", "clients", "seeds", "data_seed", "numbers", "device")
    facts = {name.replace("_", " "): getattr(settings, name) for name in named}
    facts |= settings.shape | settings.versions
    pairs = [(name, written(name, value)) for name, value in facts.items() if value is not None]
    yield page.Facts(tuple(pairs))
    heads = ["Method", "Rank", "Training steps", "Learning rate", "Weight decay"]
    rows = []
    for name, setup in settings.setups.items():
        training = [f"{setup['recipe'][field]:g}" for field in ("epochs", "rate", "decay")]
        rows.append([name, str(setup["method"].get("rank", "–") or "dense"), *training])
    yield Table.of("Training by method", heads, rows, words=0)
