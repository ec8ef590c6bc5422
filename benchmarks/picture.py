"""The comparisons as marks with their spread, growth as lines."""

from __future__ import annotations

import io
from pathlib import Path

from benchmarks.clock import Measurements
from pace.io import atomic

MARKS = ("o", "s", "^", "D", "v", "P", "X")


def draw(path: Path, found: Measurements) -> None:
    """One panel of ratios on a logarithmic scale, and one for each growth that was measured."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    grown = [key for key in ("scale", "server") if found.points.get(key)]
    panels = bool(found.rows) + len(grown)
    figure, axes = pyplot.subplots(1, panels, figsize=(6 * panels, 4.5), squeeze=False)
    row = list(axes[0])
    if found.rows:
        axis = row.pop(0)
        whats = list(dict.fromkeys(row.what for row in found.rows))
        wheres = list(dict.fromkeys(row.where for row in found.rows))
        for place, where in enumerate(wheres):
            some = [each for each in found.rows if each.where == where]
            beside = 0.12 * (place - (len(wheres) - 1) / 2)  # so that no mark hides another
            lines = [whats.index(each.what) + beside for each in some]
            spread = [
                [each.ratio - each.spread[0] for each in some],
                [each.spread[1] - each.ratio for each in some],
            ]
            ratios = [each.ratio for each in some]
            axis.errorbar(ratios, lines, xerr=spread, fmt=MARKS[place % len(MARKS)], label=where)
        axis.set_yticks(range(len(whats)), whats)
        axis.invert_yaxis()
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set_xscale("log")
        axis.set_xlabel("times faster than the peer")
        axis.grid(axis="x", alpha=0.3)
        axis.legend(frameon=False, fontsize=8, loc="center right")
    for key in grown:
        axis = row.pop(0)
        across, up = ("nodes", "train_seconds") if key == "scale" else ("clients", "ms_per_client")
        axis.plot([p[across] for p in found.points[key]], [p[up] for p in found.points[key]], "o-")
        axis.set_xscale("log")
        axis.set_yscale("log" if key == "scale" else "linear")
        axis.set_xlabel(across)
        axis.set_ylabel(up.replace("_", " "))
        if key == "server":
            axis.set_ylim(0, 1.3 * max(float(p[up]) for p in found.points[key]))
    figure.tight_layout()
    content = io.BytesIO()
    figure.savefig(content, format="png")
    pyplot.close(figure)
    atomic.write(path, content.getvalue())
