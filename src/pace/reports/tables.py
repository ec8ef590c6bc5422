"""What a run found, for people: the tables in a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pace.io.terminal import many
from pace.reports.run_result import RunResult, RunSettings, ScoreRow, Spread
from pace.reports.table import Table, Value

if TYPE_CHECKING:
    from rich.console import Console

READING = {
    "local": "α = 0, its own model",
    "external": "α = 1, what came back",
    "adopted": "α by CNLL",
}
SCORE = {"accuracy": "Accuracy", "weighted_f1": "W-F1", "macro_f1": "Macro-F1"}
TWO_CLASSES = {"roc_auc": "ROC AUC"}  # of these alone
BARS = "▁▂▃▄▅▆▇█"
MOST = 50  # clients that have a bar

Cells = tuple[list[str], list[list[str]]]  # heads, rows


def title(run: RunSettings, *, model: bool = True) -> str:
    """`synthetic, louvain, 10 clients, 5 seeds`; model and numbers where they are not the usual."""
    kind, numbers = run.model.kind, run.numbers
    return (
        f"{run.dataset}, {run.partition}, {many(run.clients, 'client')}, "
        f"{many(len(run.seeds), 'seed')}"
        + (f", {kind}" if model and kind != "gcn" else "")
        + ("" if numbers == "float32" else f", messages in {numbers}")
    )


def distinct(rows: Sequence[ScoreRow]) -> list[ScoreRow]:
    """The rows; methods that train alike have one local model, which comes once."""
    kept: list[ScoreRow] = []
    local_scores: list[dict[str, Spread]] = []
    for row in rows:
        if row.reading == "local":
            if row.scores in local_scores:
                continue
            local_scores.append(row.scores)
        kept.append(row)
    return kept


def score_table(rows: Sequence[ScoreRow]) -> Cells:
    """Pooled test scores in percent."""
    shown = distinct(rows)
    heads = SCORE | (TWO_CLASSES if all(row.roc_auc for row in shown) else {})
    cells = [
        [row.method, READING[row.reading], *(percent(row.scores[name]) for name in heads)]
        for row in shown
    ]
    return ["Method", "Reading", *heads.values()], cells


def percent(spread: Spread) -> str:
    """`80.34 ± 0.61`, or the value alone where there is one seed."""
    text = f"{100 * spread.mean:.2f}"
    return text if spread.std is None else f"{text} ± {100 * spread.std:.2f}"


def adoption_table(run: RunResult) -> Cells:
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
        for name, method in run.summary.methods.items()
        if name != "local"
    ]
    return ["Method", "Mean α", "α = 0", "By client", "Upload", "Return"], rows


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
    """The tables in a terminal of 80 columns or more."""
    heads, rows = score_table(run.summary.results)
    marked = [[Value(cell, mark="best" if _ours(row) else "") for cell in row] for row in rows]
    Table.of(title(run.settings), heads, marked, words=0, names=2).show(console)
    heads, rows = adoption_table(run)
    if rows:
        wide = ("By client", "Upload", "Return")
        Table.of("What receivers adopted", heads, rows, words=0, folding=wide).show(console)
    if sentence := verdict(run):
        console.print(sentence)


def compare(runs: Mapping[str, RunResult], console: Console) -> None:
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
    about = title(first.settings, model=False)
    caption = f"{about}: accuracy of what receivers adopted"
    Table.of(caption, heads, rows, words=0).show(console)


def _ours(row: Sequence[str]) -> bool:
    return row[0] == "pace" and row[1] == READING["adopted"]
