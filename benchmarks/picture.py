"""The comparisons as marks with their spread, growth as lines."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pandas as pd

from pace.io import atomic

MARKS = ("o", "s", "^", "D", "v", "P", "X")


def draw(path: Path, found: dict[str, Any]) -> None:
    """One panel of ratios on a logarithmic scale, and one for each growth that was measured."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    grown = [key for key in ("scale", "server") if found.get(key)]
    panels = bool(found["compared"]) + len(grown)
    figure, axes = pyplot.subplots(1, panels, figsize=(6 * panels, 4.5), squeeze=False)
    row = list(axes[0])
    if found["compared"]:
        axis, rows = row.pop(0), pd.DataFrame(found["compared"])
        whats, wheres = list(rows.what.unique()), rows.groupby("where", sort=False)
        for place, (where, some) in enumerate(wheres):
            beside = 0.12 * (place - (len(wheres) - 1) / 2)  # so that no mark hides another
            lines = some.what.map(whats.index) + beside
            spread = [some.ratio - some.spread.str[0], some.spread.str[1] - some.ratio]
            mark = MARKS[place % len(MARKS)]
            axis.errorbar(some.ratio, lines, xerr=spread, fmt=mark, label=where)
        axis.set_yticks(range(len(whats)), whats)
        axis.invert_yaxis()
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set_xscale("log")
        axis.set_xlabel("times faster than the peer")
        axis.grid(axis="x", alpha=0.3)
        axis.legend(frameon=False, fontsize=8, loc="center right")
    for key in grown:
        axis, points = row.pop(0), pd.DataFrame(found[key])
        across, up = ("nodes", "seconds") if key == "scale" else ("clients", "ms_per_client")
        axis.plot(points[across], points[up], "o-")
        axis.set_xscale("log")
        axis.set_yscale("log" if key == "scale" else "linear")
        axis.set_xlabel(across)
        axis.set_ylabel(up.replace("_", " "))
        if key == "server":
            axis.set_ylim(0, 1.3 * points[up].max())
    figure.tight_layout()
    content = io.BytesIO()
    figure.savefig(content, format="png")
    pyplot.close(figure)
    atomic.write(path, content.getvalue())
