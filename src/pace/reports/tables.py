"""What a run found, for people: the tables in a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pace.io.terminal import many, table

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

Table = tuple[list[str], list[list[str]]]  # heads, rows


def title(found: dict[str, Any]) -> str:
    """`synthetic, louvain, 10 clients, 5 seeds`; numbers on the wire if they are not float32."""
    numbers = found.get("numbers", "float32")
    kind = found["model"].get("kind", "gcn")
    return (
        f"{found['dataset']}, {found['partition']}, {many(found['clients'], 'client')}, "
        f"{many(len(found['seeds']), 'seed')}"
        + ("" if kind == "gcn" else f", {kind}")
        + ("" if numbers == "float32" else f", messages in {numbers}")
    )


def distinct(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The results; methods that train alike have one local model, which comes once."""
    kept: list[dict[str, Any]] = []
    models: list[Any] = []
    for result in found["results"]:
        scores = [result[name] for name in SCORE]
        if result["reading"] == "local":
            if scores in models:
                continue
            models.append(scores)
        kept.append(result)
    return kept


def score_table(found: dict[str, Any]) -> Table:
    """Pooled test scores in percent."""
    results = distinct(found)
    heads = SCORE | (TWO_CLASSES if all("roc_auc" in row for row in results) else {})
    rows = [
        [row["method"], READING[row["reading"]], *(percent(row[name]) for name in heads)]
        for row in results
    ]
    return ["Method", "Reading", *heads.values()], rows


def percent(spread: dict[str, Any]) -> str:
    """`80.34 ± 0.61`, or the value alone where there is one seed."""
    text = f"{100 * spread['mean']:.2f}"
    return text if spread["std"] is None else f"{text} ± {100 * spread['std']:.2f}"


def adoption_table(found: dict[str, Any]) -> Table:
    """For each method that exchanges anything: alphas by client, and bytes against a dense model."""
    rows = []
    for name, each in found["methods"].items():
        if name == "local":
            continue
        alpha, traffic = each["alpha"], each["bytes"]
        rows.append(
            [
                name,
                f"{alpha['mean']:.2f}",
                f"{100 * alpha['zero_share']:.0f}%",
                client_bars(alpha["per_seed"]),
                *(
                    f"{traffic[way]:,.0f} B ({100 * traffic[f'{way}_ratio']:.1f}%)"
                    for way in ("upload", "return")
                ),
            ]
        )
    return ["Method", "Mean α", "α = 0", "By client", "Upload", "Return"], rows


def client_bars(per_seed: Sequence[Sequence[float]]) -> str:
    """Each client's mean alpha as a bar, `·` where it is zero, in groups of ten; long lists are cut."""
    means = [sum(column) / len(column) for column in zip(*per_seed, strict=True)]
    bars = ["·" if mean == 0 else BARS[round(mean * (len(BARS) - 1))] for mean in means[:MOST]]
    groups = ["".join(bars[start : start + 10]) for start in range(0, len(bars), 10)]
    return " ".join(groups) + ("…" if len(means) > MOST else "")


def verdict(found: dict[str, Any]) -> str:
    """One sentence on what the receivers decided, where PACE ran."""
    adopted = [r for r in found["results"] if (r["method"], r["reading"]) == ("pace", "adopted")]
    if not adopted:
        return ""
    local = next(r for r in found["results"] if (r["method"], r["reading"]) == ("pace", "local"))
    gain = 100 * (adopted[0]["accuracy"]["mean"] - local["accuracy"]["mean"])
    kept = 100 * found["alpha"]["zero_share"]
    return (
        f"PACE changes Local's accuracy by {gain:+.2f} points; receivers gave External a mean "
        f"weight of {found['alpha']['mean']:.2f}, and {kept:.0f}% of them kept Local as it was."
    )


def show(found: dict[str, Any], console: Console) -> None:
    """The tables in a terminal of 80 columns or more."""
    from rich.text import Text

    heads, rows = score_table(found)
    marked = [[Text(cell, "bold") for cell in row] if _ours(row) else row for row in rows]
    table(title(found), heads, marked, console, words=0, first=2)
    heads, rows = adoption_table(found)
    if rows:
        wide = [heads.index(head) for head in ("By client", "Upload", "Return")]
        table("What receivers adopted", heads, rows, console, words=0, folding=wide)
    if sentence := verdict(found):
        console.print(sentence)


def compare(found: Mapping[str, dict[str, Any]], console: Console) -> None:
    """Models side by side: Local's accuracy, and what each method's receivers adopted."""
    first = next(iter(found.values()))
    methods = [name for name in first["methods"] if name != "local"]
    rows = []
    for name, run in found.items():
        scores = {(row["method"], row["reading"]): row["accuracy"] for row in run["results"]}
        alone = next(value for (_, reading), value in scores.items() if reading == "local")
        adopted = [percent(scores[method, "adopted"]) for method in methods]
        alphas = [f"{run['methods'][method]['alpha']['mean']:.2f}" for method in methods]
        rows.append([name, percent(alone), *adopted, *alphas])
    heads = ["Model", "Local", *methods, *(f"α, {method}" for method in methods)]
    said = title({**first, "model": {}})
    table(f"{said}: accuracy of what receivers adopted", heads, rows, console, words=0)


def _ours(row: Sequence[str]) -> bool:
    return row[0] == "pace" and row[1] == READING["adopted"]
