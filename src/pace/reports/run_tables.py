"""The tables of a run: scores, what receivers adopted, models side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pace.reports.summary import MethodSummary, ScoreRow, Spread
from pace.reports.table import Column, Table, Value

if TYPE_CHECKING:
    from rich.console import Console

    from pace.reports.run_result import RunResult

READING = {
    "local": "α = 0, its own model",
    "external": "α = 1, what came back",
    "adopted": "α by CNLL",
}
SCORE = {"accuracy": "Accuracy", "weighted_f1": "W-F1", "macro_f1": "Macro-F1"}
BINARY = {"roc_auc": "ROC AUC"}
NOTE = (
    "Mean ± sample standard deviation over seeds; best bold, second underlined. Methods that train "
    "alike have one local model, shown once."
)
NAMES = (Column("Method", numeric=False), Column("Reading", numeric=False))
BARS = "▁▂▃▄▅▆▇█"
MOST = 50  # clients that have a bar


def distinct(rows: Sequence[ScoreRow]) -> list[ScoreRow]:
    """The rows; methods that train alike have one local model, which comes once."""
    kept: list[ScoreRow] = []
    for row in rows:
        earlier = [other.scores for other in kept if other.reading == "local"]
        if row.reading != "local" or row.scores not in earlier:
            kept.append(row)
    return kept


def score_table(results: Sequence[ScoreRow], title: str) -> Table:
    """Pooled test scores in percent, best and second marked."""
    rows = distinct(results)
    scores = SCORE | (BINARY if all(row.roc_auc for row in rows) else {})
    marks = {score: ranked([row.scores[score].mean for row in rows]) for score in scores}
    values = []
    for line, row in enumerate(rows):
        spreads = [(row.scores[score], marks[score][line]) for score in scores]
        values.append((*row_names(row), *(Value(percent(s), s.mean, mark) for s, mark in spreads)))
    return Table(title, (*NAMES, *map(Column, scores.values())), tuple(values), NOTE, names=2)


def row_names(row: ScoreRow) -> tuple[Value, Value]:
    reading = READING[row.reading]
    return Value(row.method, row.method), Value(reading, reading)


def percent(spread: Spread) -> str:
    """`80.34 ± 0.61`, or the value alone where there is one seed."""
    text = f"{100 * spread.mean:.2f}"
    return text if spread.std is None else f"{text} ± {100 * spread.std:.2f}"


def ranked(means: Sequence[float]) -> list[str]:
    """`best` and `second` by the digits shown, where there is anything to compare."""
    shown = [f"{100 * mean:.2f}" for mean in means]
    order = sorted(set(shown), key=float, reverse=True)
    marks = dict(zip(order, ("best", "second"), strict=False)) if len(shown) > 1 else {}
    return [marks.get(text, "") for text in shown]


def adoption_table(methods: Mapping[str, MethodSummary]) -> Table:
    """For each method that exchanges anything: alphas by client, and bytes against a dense model."""
    rows = [
        [
            name,
            f"{method.alpha.mean:.2f}",
            f"{100 * method.alpha.zero_share:.0f}%",
            client_bars(method.alpha.per_seed),
            f"{method.bytes.upload:,.0f} B ({100 * method.bytes.upload_ratio:.1f}%)",
            f"{method.bytes.returned:,.0f} B ({100 * method.bytes.return_ratio:.1f}%)",
        ]
        for name, method in methods.items()
        if name != "local"
    ]
    heads = ["Method", "Mean α", "α = 0", "By client", "Upload", "Return"]
    return Table.of("What receivers adopted", heads, rows, words=0, folding=heads[3:])


def client_bars(per_seed: Sequence[Sequence[float]]) -> str:
    """Each client's mean alpha as a bar, `·` where it is zero, in groups of ten; long lists are cut."""
    means = [sum(column) / len(column) for column in zip(*per_seed, strict=True)]
    bars = ["·" if mean == 0 else BARS[round(mean * (len(BARS) - 1))] for mean in means[:MOST]]
    groups = ["".join(bars[start : start + 10]) for start in range(0, len(bars), 10)]
    return " ".join(groups) + ("…" if len(means) > MOST else "")


def verdict(run: RunResult) -> str:
    """One sentence on what the receivers decided, where PACE ran."""
    accuracy = {row.reading: row.accuracy for row in run.summary.results if row.method == "pace"}
    if "adopted" not in accuracy:
        return ""
    gain = 100 * (accuracy["adopted"].mean - accuracy["local"].mean)
    alpha = run.summary.alpha
    return (
        f"PACE changes Local's accuracy by {gain:+.2f} points; receivers gave External a mean "
        f"weight of {alpha.mean:.2f}, and {100 * alpha.zero_share:.0f}% of them kept Local as it was."
    )


def show(run: RunResult, console: Console) -> None:
    """Scores, what receivers adopted, and a sentence."""
    run.table().show(console)
    adoption = adoption_table(run.summary.methods)
    if adoption.rows:
        adoption.show(console)
    if sentence := verdict(run):
        console.print(sentence)


def model_table(runs: Mapping[str, RunResult]) -> Table:
    """Models side by side: Local's accuracy, and what each method's receivers adopted."""
    first = next(iter(runs.values()))
    methods = [name for name in first.summary.methods if name != "local"]
    rows = []
    for name, run in runs.items():
        scores = {(row.method, row.reading): row.accuracy for row in run.summary.results}
        alone = next(value for (_, reading), value in scores.items() if reading == "local")
        adopted = [percent(scores[method, "adopted"]) for method in methods]
        alphas = [f"{run.summary.methods[method].alpha.mean:.2f}" for method in methods]
        rows.append([name, percent(alone), *adopted, *alphas])
    heads = ["Model", "Local", *methods, *(f"α, {method}" for method in methods)]
    settings = first.settings
    title = f"{settings.dataset}, {settings.partition}, {settings.clients} clients"
    return Table.of(f"{title}: accuracy of what receivers adopted", heads, rows, words=0)
