"""A run for people: its tables, its figure (the extra `report`) and its page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from pace.errors import SettingError
from pace.io import many, shown, written
from pace.reports import document as page
from pace.reports.document import Block, Document, Fold, Section
from pace.reports.table import Cell, Column, Table, Value
from pace.reports.trial import Spread, Summary, Trial, summarise
from pace.task import SCORES, accuracy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pace.reports.run_result import RunResult

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


def distinct(rows: Sequence[Summary]) -> list[Summary]:
    """The rows; methods that train alike have one local model, which comes once."""
    kept: list[Summary] = []
    for row in rows:
        earlier = [other.spreads for other in kept if other.reading == "local"]
        if row.reading != "local" or not any(
            all(row.spreads[name] == other[name] for name in SCORES) for other in earlier
        ):
            kept.append(row)
    return kept


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


def draw_run(run: RunResult) -> Figure:
    """Left, accuracy by method and reading with its spread over seeds; right, α of every receiver."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SettingError("plot needs matplotlib: pip install 'pace-fgl[report]'") from None
    figure = Figure(figsize=(7, 2.8), layout="constrained")
    scores, alphas = figure.subplots(1, 2, width_ratios=[3, 2])
    readings = {"local": "", "external": ", what came back", "adopted": ", adopted"}
    rows = distinct(run.summary)[::-1]
    names = [f"{row.method}{readings[row.reading]}" for row in rows]
    means = [100 * row.spreads["accuracy"].mean for row in rows]
    spreads = [100 * (row.spreads["accuracy"].std or 0) for row in rows]
    scores.errorbar(means, names, xerr=spreads, fmt="o", color="0.2", capsize=2)
    scores.set(xlabel="accuracy, %")
    scores.grid(axis="x", alpha=0.3)
    methods = [row.method for row in rows if row.reading == "adopted"]
    if methods:
        flat = [[a for t in run.trials if t.method == name for a in t.alphas] for name in methods]
        alphas.boxplot(flat, orientation="horizontal", whis=(0, 100))
        alphas.set_yticks(range(1, len(methods) + 1), methods)
    alphas.set(xlabel="α of a receiver", xlim=(-0.05, 1.05))
    figure.suptitle(shown(run.settings.title).replace("$", r"\$"), fontsize="medium", wrap=True)
    return figure


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
