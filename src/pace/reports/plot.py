"""The figure of a run (the extra `report`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pace.errors import SettingError
from pace.io.text import shown
from pace.reports.run_tables import distinct

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pace.reports.run_result import RunResult

READING = {"local": "", "external": ", what came back", "adopted": ", adopted"}


def draw_run(run: RunResult) -> Figure:
    """Left, accuracy by method and reading with its spread over seeds; right, α of every receiver."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SettingError(
            "RunResult.plot needs matplotlib: pip install 'pace-fgl[report]'"
        ) from None
    figure = Figure(figsize=(7, 2.8), layout="constrained")
    scores, alphas = figure.subplots(1, 2, width_ratios=[3, 2])
    rows = distinct(run.summary.results)[::-1]
    names = [f"{row.method}{READING[row.reading]}" for row in rows]
    means = [100 * row.accuracy.mean for row in rows]
    spreads = [100 * (row.accuracy.std or 0) for row in rows]
    scores.errorbar(means, names, xerr=spreads, fmt="o", color="0.2", capsize=2)
    scores.set(xlabel="accuracy, %")
    scores.grid(axis="x", alpha=0.3)
    methods = {name: run.summary.methods[name] for name in reversed(run.summary.methods)}
    methods.pop("local", None)
    if methods:
        flat = [
            [alpha for seed in found.alpha.per_seed for alpha in seed] for found in methods.values()
        ]
        alphas.boxplot(flat, orientation="horizontal", whis=(0, 100))
        alphas.set_yticks(range(1, len(methods) + 1), list(methods))
    alphas.set(xlabel="α of a receiver", xlim=(-0.05, 1.05))
    figure.suptitle(shown(run.settings.title).replace("$", r"\$"), fontsize="medium", wrap=True)
    return figure
