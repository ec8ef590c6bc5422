"""The pictures of `walkthrough.py`: arrays in, a matplotlib figure out."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, PercentFormatter
from PIL import Image
from torch import Tensor

from pace import Adoption, Graph
from pace.gates import mix
from pace.task import nll

# Okabe and Ito's colours, told apart by colour-blind readers too.
CLASSES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
GAIN, LOSS, INK, QUIET, FAINT = "#0072b2", "#d55e00", "#1d2126", "#5b636d", "#c9ced3"
WIDTH = 7.4  # inches
DENSITY = 140  # pixels an inch
ALPHAS = [step / 100 for step in range(101)]

mpl.rcParams.update(
    {
        "font.size": 9,
        "axes.titlesize": 9.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": QUIET,
        "axes.labelcolor": INK,
        "xtick.color": QUIET,
        "ytick.color": QUIET,
        "legend.frameon": False,
        "legend.fontsize": 8.5,
    }
)


def blend(local: Tensor, external: Tensor, alpha: float) -> Tensor:
    """z(α) = (1 - α) z_L + α z_E."""
    return mix((local, external), (1 - alpha, alpha))


def panels(rows: int, columns: int, height: float, **options: Any) -> tuple[Figure, list[Axes]]:
    """A figure of the common width and its axes, row after row."""
    figure = Figure(figsize=(WIDTH, height), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    return figure, list(figure.subplots(rows, columns, squeeze=False, **options).flat)


def clients(graphs: Sequence[Graph], classes: int) -> Figure:
    """Every client's graph, nodes coloured by class, and a bar of its classes."""
    columns = 3
    rows = -(-len(graphs) // columns)
    figure, axes = panels(rows * 2, columns, 2.75 * rows, height_ratios=[1, 0.055] * rows)
    for place, graph in enumerate(graphs):
        top = axes[place // columns * 2 * columns + place % columns]
        bar = axes[(place // columns * 2 + 1) * columns + place % columns]
        spots = spread_out(graph)
        ends = spots[graph.edges[:, graph.edges[0] < graph.edges[1]].numpy().T]
        top.add_collection(LineCollection(list(ends), colors="0.65", linewidths=0.3, zorder=1))
        colours = [CLASSES[label] for label in graph.y.tolist()]
        top.scatter(spots[:, 0], spots[:, 1], s=5, c=colours, linewidths=0, zorder=2)
        top.set_aspect("equal")
        top.set_axis_off()
        edges = graph.edges.shape[1] // 2
        top.set_title(f"client {place + 1}: {graph.nodes} nodes, {edges} edges", loc="center")
        left = 0
        for label, count in enumerate(torch.bincount(graph.y, minlength=classes).tolist()):
            bar.barh(0, count, left=left, color=CLASSES[label], height=1)
            left += count
        bar.set_axis_off()
        bar.set_xlim(0, left)
    for unused in axes[(rows - 1) * 2 * columns :]:
        if not unused.has_data():
            unused.set_axis_off()
    keys = [Patch(color=CLASSES[label], label=f"class {label}") for label in range(classes)]
    figure.legend(handles=keys, loc="outside lower center", ncols=classes, handlelength=1)
    return figure


def spread_out(graph: Graph, steps: int = 150) -> np.ndarray:
    """Nodes as charges and edges as springs; communities come out as clusters."""
    length, gravity = 0.05, 1.0
    linked = torch.zeros(graph.nodes, graph.nodes)
    linked[graph.edges[0], graph.edges[1]] = 1
    spots = torch.rand(graph.nodes, 2, generator=torch.Generator().manual_seed(1)) * 2 - 1
    for step in range(steps):
        apart = torch.cdist(spots, spots).clamp_min(0.01)
        push = (length / apart) ** 2 - linked * apart / length
        force = push.sum(1, keepdim=True) * spots - push @ spots - gravity * spots
        size = force.norm(dim=1, keepdim=True).clamp_min(1e-9)
        spots = spots + force / size * size.clamp_max(0.1 * (1 - step / steps))
    return spots.numpy()


def training(curves: Mapping[int, Sequence[tuple[float, float]]]) -> Figure:
    """NLL by epoch on training and validation nodes: a pair for each client."""
    figure, axes = panels(1, 2, 2.5, sharey=True)
    for side, (axis, word) in enumerate(zip(axes, ("training", "validation"), strict=True)):
        for place in range(len(next(iter(curves.values())))):
            heights = [each[place][side] for each in curves.values()]
            axis.plot(list(curves), heights, color=GAIN, alpha=0.65, marker="o", markersize=3)
        axis.set_title(f"{word} nodes, a line for each client")
        axis.set_xlabel("epoch")
        axis.set_ylim(bottom=0)
        axis.grid(axis="y", alpha=0.3)
    axes[0].set_ylabel("mean NLL")
    return figure


def sizes(upload: Mapping[str, int], returned: Mapping[str, int], dense: int) -> Figure:
    """Bytes that travel, part by part, under what the whole model would take."""
    figure, (axis,) = panels(1, 1, 2.2)
    shades = ("#0072b2", "#56b4e9", "#e69f00", INK)
    axis.barh(2, dense / 1000, color=FAINT, height=0.6)
    for row, bar in ((1, upload), (0, returned)):
        left = 0.0
        for (part, size), colour in zip(bar.items(), shades, strict=True):
            label = f"{part}: {size:,} bytes" if row else None
            axis.barh(row, size / 1000, left=left, color=colour, height=0.6, label=label)
            left += size / 1000
    for row, total in ((2, dense), (1, sum(upload.values())), (0, sum(returned.values()))):
        text = f" {total:,} bytes" + (f", {total / dense:.1%}" if row < 2 else "")
        axis.text(total / 1000, row, text, va="center", color=INK)
    axis.set_yticks([2, 1, 0], ["the whole model", "upload, once", "return, once"], color=INK)
    axis.set_xlim(0, dense / 1000 * 1.17)
    axis.set_xlabel("kilobytes, for one client")
    axis.tick_params(axis="y", length=0)
    axis.legend(loc="lower right", title="in the upload", title_fontsize=8.5, alignment="left")
    return figure


def spectrum(values: Sequence[Tensor], rank: int) -> Figure:
    """Singular values of every client's first-layer update, and how much of it a rank keeps."""
    figure, (left, right) = panels(1, 2, 2.6)
    for each in values:
        ranks = range(1, len(each) + 1)
        left.plot(ranks, each, color=GAIN, alpha=0.6)
        right.plot(ranks, energy(each), color=GAIN, alpha=0.6)
    left.set(xlabel="index", ylabel="singular value", ylim=(0, None))
    left.set_title("update of layer 1, a line for each client")
    right.set(xlabel="rank", ylabel="energy kept", ylim=(0, 1.02))
    right.set_title("what a rank keeps of it")
    right.yaxis.set_major_formatter(PercentFormatter(1))
    kept = [float(energy(each)[rank - 1]) for each in values]
    for axis in (left, right):
        axis.axvline(rank, color=LOSS, linestyle="--", linewidth=1.2)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.grid(axis="y", alpha=0.3)
    right.annotate(
        f"rank {rank} keeps\n{min(kept):.0%} to {max(kept):.0%}",
        (rank, min(kept)),
        xytext=(22, -34),
        textcoords="offset points",
        color=LOSS,
        arrowprops={"arrowstyle": "-", "color": LOSS},
    )
    return figure


def energy(values: Tensor) -> Tensor:
    """The share of the squared Frobenius norm in the first 1, 2, ... singular values."""
    squares = values.double().square()
    return squares.cumsum(0) / squares.sum()


def moments(each: Tensor, shown: int = 60) -> Figure:
    """Moments of layer 1, a row for each client: the columns that weigh most, heaviest first."""
    figure, (axis,) = panels(1, 1, 2.2)
    order = each.sum(0).argsort(descending=True)[:shown]
    drawn = axis.imshow(each[:, order].clamp_min(1e-2).log10(), aspect="auto", cmap="viridis")
    bar = figure.colorbar(drawn, ax=axis, ticks=[-2, -1, 0, 1], pad=0.01)
    bar.ax.set_yticklabels(["≤ 0.01", "0.1", "1, the mean", "10"])
    axis.set_yticks(range(len(each)), [f"client {place + 1}" for place in range(len(each))])
    axis.set_xlabel(f"feature, the {shown} heaviest of {each.shape[1]}")
    axis.set_xticks([])
    axis.set_title("mean square of what layer 1 reads, relative to the client's mean")
    for side in axis.spines.values():
        side.set_visible(False)
    return figure


def consensus(alike: Tensor, shares: Tensor, heaviest: Tensor, shown: int = 60) -> Figure:
    """How alike the uploaded updates and the consensus are, and whose word counts in which column."""
    count = len(shares)
    figure, (left, right) = panels(1, 2, 2.9, width_ratios=[1, 1.55])
    names = [str(place + 1) for place in range(count)] + ["Δ"]
    left.imshow(alike, vmin=0, vmax=1, cmap="Blues")
    for row in range(count + 1):
        for column in range(count + 1):
            value = float(alike[row, column])
            colour = "white" if value > 0.55 else INK
            text = f"{value:.2f}".removeprefix("0") if row != column else "1"
            left.text(column, row, text, ha="center", va="center", fontsize=7, color=colour)
    left.set_xticks(range(count + 1), names)
    left.set_yticks(range(count + 1), names)
    left.set_title("cosine between updates")
    left.set_xlabel("client, Δ: consensus")
    order = heaviest[:: max(1, len(heaviest) // shown)]
    equal = 1 / count
    tint = right.imshow(shares[:, order], aspect="auto", cmap="PuOr_r", vmin=0, vmax=2 * equal)
    bar = figure.colorbar(tint, ax=right, ticks=[0, equal, 2 * equal], pad=0.02)
    bar.ax.set_yticklabels(["none", f"1/{count}", f"≥ 2/{count}"])
    right.set_yticks(range(count), names[:-1])
    right.set_xticks([])
    right.set_xlabel("feature: frequent on the left, rare on the right")
    right.set_title("weight in Δ, column by column")
    for axis in (left, right):
        axis.tick_params(length=0)
        for side in axis.spines.values():
            side.set_visible(False)
    return figure


def alphas(adoptions: Sequence[Adoption], graphs: Sequence[Graph]) -> Figure:
    """Validation NLL along the segment from Local to External, and where the receiver stops."""
    columns = 3
    rows = -(-len(graphs) // columns)
    figure, axes = panels(rows, columns, 1.9 * rows, sharex=True, sharey=True)
    for place, (axis, adoption, graph) in enumerate(zip(axes, adoptions, graphs, strict=False)):
        curve(axis, adoption, graph)
        axis.set_title(f"client {place + 1}")
        if place % columns == 0:
            axis.set_ylabel("validation NLL")
    axes[0].set_ylim(bottom=0)
    for unused in axes[len(graphs) :]:
        unused.set_axis_off()
    return figure


def curve(axis: Axes, adoption: Adoption, graph: Graph) -> None:
    """One receiver's curve, its choice marked, Local's level dotted."""
    labels = graph.y[graph.val]
    local, external = adoption.local[graph.val].double(), adoption.external[graph.val].double()
    heights = [nll(blend(local, external, alpha), labels) for alpha in ALPHAS]
    best = nll(blend(local, external, adoption.alpha), labels)
    axis.axhline(heights[0], color=QUIET, linestyle=":", linewidth=1)
    axis.plot(ALPHAS, heights, color=GAIN)
    axis.plot(adoption.alpha, best, "o", color=LOSS, markersize=6, zorder=3, clip_on=False)
    low = adoption.alpha < 0.15
    axis.annotate(
        f"α = {adoption.alpha:.2f}" if adoption.alpha else "α = 0",
        (adoption.alpha, best),
        xytext=(7 if low else 0, -5 if low else -12),
        textcoords="offset points",
        ha="left" if low else "center",
        va="top" if low else "center",
        color=LOSS,
    )
    segment(axis)


def segment(axis: Axes) -> None:
    """The horizontal axis from Local to External."""
    axis.set_xlim(0, 1)
    axis.set_xticks([0, 0.5, 1], ["0\nLocal", "0.5\nα", "1\nExternal"])
    ends = axis.get_xticklabels()
    if ends:  # only the lowest of panels above each other has them
        ends[0].set_horizontalalignment("left")
        ends[-1].set_horizontalalignment("right")


def changes(adoption: Adoption, graph: Graph, alpha: float, classes: int) -> Figure:
    """A receiver's test nodes: the margin of the true class before and after, and hits by class."""
    figure, (left, right) = panels(1, 2, 3.1, width_ratios=[1.15, 1])
    truth = graph.y[graph.test]
    before = adoption.local[graph.test]
    after = blend(adoption.local, adoption.external, alpha)[graph.test]
    was, now = margin(before, truth), margin(after, truth)
    fixed, broken = (was <= 0) & (now > 0), (was > 0) & (now <= 0)
    kept = ~fixed & ~broken
    left.scatter(was[kept], now[kept], s=9, color=FAINT, label=f"as before: {int(kept.sum())}")
    left.scatter(was[fixed], now[fixed], s=22, color=GAIN, label=f"put right: {int(fixed.sum())}")
    left.scatter(
        was[broken], now[broken], s=24, color=LOSS, marker="X", label=f"broken: {int(broken.sum())}"
    )
    reach = 1.1 * float(torch.cat([was, now]).abs().quantile(0.985))
    left.plot([-reach, reach], [-reach, reach], color=QUIET, linewidth=0.8, linestyle=":")
    left.axhline(0, color=QUIET, linewidth=0.8)
    left.axvline(0, color=QUIET, linewidth=0.8)
    left.set(xlim=(-reach, reach), ylim=(-reach, reach))
    left.set(xlabel="margin under Local", ylabel=f"margin at α = {alpha:.2f}")
    left.set_title("logit of the true class less the best other")
    left.legend(loc="upper left", handletextpad=0.2, borderpad=0.1)
    counts = torch.bincount(truth, minlength=classes).tolist()
    pairs = zip(per_class(was > 0, truth, classes), per_class(now > 0, truth, classes), strict=True)
    for label, (first, last) in enumerate(pairs):
        colour = GAIN if last >= first else LOSS
        right.plot([first, last], [label, label], color=colour, linewidth=2, zorder=1)
        right.plot(first, label, "o", color=QUIET, markerfacecolor="white", zorder=2)
        right.plot(last, label, "o", color=colour, zorder=3)
    right.set_yticks(range(classes), [f"class {c}, {n} nodes" for c, n in enumerate(counts)])
    right.xaxis.set_major_formatter(PercentFormatter(1))
    right.set(xlim=(-0.03, 1.03), xlabel="○ Local   ● blended")
    right.invert_yaxis()
    right.grid(axis="y", alpha=0.3)
    right.tick_params(axis="y", length=0)
    right.set_title("predicted right, by class")
    return figure


def margin(logits: Tensor, truth: Tensor) -> Tensor:
    """How far the true class is ahead of the best other; at or below zero the prediction is wrong."""
    own = logits.gather(1, truth[:, None]).squeeze(1)
    others = logits.scatter(1, truth[:, None], -torch.inf).max(1).values
    return own - others


def per_class(hits: Tensor, truth: Tensor, classes: int) -> list[float]:
    """The share of hits among the nodes of each class; nothing where there are none."""
    return [
        float(hits[truth == label].double().mean()) if (truth == label).any() else 0.0
        for label in range(classes)
    ]


def receivers(gains: Sequence[tuple[float, float]]) -> Figure:
    """Points of test accuracy against Local: (in full, as adopted) for each receiver."""
    figure, (axis,) = panels(1, 1, 2.4)
    gained(axis, gains)
    axis.legend(handles=gain_keys(), loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def gained(axis: Axes, gains: Sequence[tuple[float, float]]) -> None:
    """A stem for what was adopted, a diamond for what the correction does in full."""
    for place, (full, adopted) in enumerate(gains):
        colour = GAIN if adopted >= 0 else LOSS
        axis.plot(place, full, "D", color=QUIET, markerfacecolor="white", markersize=5, zorder=4)
        axis.vlines(place, 0, adopted, color=colour, linewidth=3, zorder=1)
        axis.plot(place, adopted, "o", color=colour, markersize=9, zorder=3)
    names = [
        f"client {place + 1}\n{adopted:+.1f}".replace("-", "−").replace("+0.0", "0")
        for place, (_, adopted) in enumerate(gains)
    ]
    axis.axhline(0, color=QUIET, linewidth=0.8, zorder=0)
    axis.set_xticks(range(len(gains)), names, color=INK)
    axis.set_ylabel("points of test accuracy\nagainst Local")
    axis.margins(x=0.08, y=0.12)
    axis.grid(axis="y", alpha=0.3)
    axis.tick_params(axis="x", length=0)


def gain_keys() -> list[Line2D]:
    """What the marks of `gained` mean."""
    return [
        Line2D([], [], color=GAIN, marker="o", markersize=8, linewidth=3, label="at the chosen α"),
        Line2D(
            [], [], color=QUIET, marker="D", linewidth=0, markerfacecolor="white", label="at α = 1"
        ),
    ]


def clash(
    adoptions: Sequence[Adoption], graphs: Sequence[Graph], gains: Sequence[tuple[float, float]]
) -> Figure:
    """Receivers that a correction would mislead: every curve rises, every alpha is zero."""
    figure, (left, right) = panels(1, 2, 2.8, width_ratios=[1, 1.5])
    for adoption, graph in zip(adoptions, graphs, strict=True):
        labels = graph.y[graph.val]
        local, external = adoption.local[graph.val].double(), adoption.external[graph.val].double()
        heights = [nll(blend(local, external, alpha), labels) for alpha in ALPHAS]
        best = nll(blend(local, external, adoption.alpha), labels)
        left.plot(ALPHAS, heights, color=GAIN, alpha=0.65)
        left.plot(adoption.alpha, best, "o", color=LOSS, zorder=3, clip_on=False)
    segment(left)
    left.set(ylim=(0, None), ylabel="validation NLL")
    left.set_title("a line for each client")
    chosen = Line2D([], [], color=LOSS, marker="o", linewidth=0, label="the chosen α")
    left.legend(handles=[chosen], loc="upper left")
    gained(right, gains)
    right.set_xticks(range(len(gains)), [str(place + 1) for place in range(len(gains))])
    right.set_xlabel("client")
    right.set_title("on test nodes")
    right.legend(handles=gain_keys(), loc="lower right")
    return figure


def write(figure: Figure, path: Path) -> None:
    """A small PNG: flat colours need no more than a palette."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=DENSITY, facecolor="white")
    image = Image.open(content).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    image.save(path, optimize=True)
