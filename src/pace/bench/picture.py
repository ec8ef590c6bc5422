"""The comparisons as bars, growth as lines."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from pace import atomic


def draw(path: Path, found: dict[str, Any]) -> None:
    """One panel of ratios on a logarithmic scale, and one for each growth that was measured."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    grown = [key for key in ("scale", "server") if found.get(key)]
    panels = bool(found["rows"]) + len(grown)
    figure, axes = pyplot.subplots(1, panels, figsize=(6 * panels, 4.5), squeeze=False)
    row = list(axes[0])
    if found["rows"]:
        axis = row.pop(0)
        labels = [f"{each['what']}, {each['where']}" for each in found["rows"]][::-1]
        ratios = [each["ratio"] for each in found["rows"]][::-1]
        axis.barh(labels, ratios, color="#3b6ea5")
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set_xscale("log")
        axis.set_xlabel("times faster than the peer")
        axis.tick_params(axis="y", labelsize=7)
    for key in grown:
        axis = row.pop(0)
        across, up = ("nodes", "train_seconds") if key == "scale" else ("clients", "ms_per_client")
        axis.plot([p[across] for p in found[key]], [p[up] for p in found[key]], "o-")
        axis.set_xscale("log")
        axis.set_yscale("log" if key == "scale" else "linear")
        axis.set_xlabel(across)
        axis.set_ylabel(up.replace("_", " "))
        if key == "server":
            axis.set_ylim(bottom=0)
    figure.tight_layout()
    content = io.BytesIO()
    figure.savefig(content, format="png")
    pyplot.close(figure)
    atomic.write(path, content.getvalue())
