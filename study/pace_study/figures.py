"""The study's figures, as PNG and PDF. The only file of the study that draws."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

mpl.use("Agg")  # draw to files; no window is wanted

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pace.io import atomic
from pace.merging import RANK
from pace_study.beyond import LEVELS
from pace_study.field import critical_difference, ranked, ranks
from pace_study.scores import of_part, t_interval, win_tie_loss
from pace_study.study import LOCAL, MATRIX, PACE, UNPUBLISHED, Part
from pace_study.tables import CITATION_MEAN, title

if TYPE_CHECKING:
    from pace_study.outcome import Outcome

BLUE, ORANGE, GREEN, RED, GREY = "#1f5fb4", "#d9822b", "#2e8b57", "#b3312c", "#8a8f98"
MARKS = ("D", "o", "^", "v", "<", ">", "s", "p", "P", "*")  # one for each row of the matrix
STYLE = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.alpha": 0.25, "figure.dpi": 200, "savefig.bbox": "tight",
}  # fmt: skip


def gains(part: Part, scores: pd.DataFrame, seeds: Sequence[int]) -> pd.DataFrame:
    """PACE less Local in points, a row for each dataset and metric.

    `points` has one a seed, `interval` is of a paired t test over them, `won` counts seeds won,
    tied and lost. `receivers` and `alphas` are (receiver, seed), `helped` counts the former, `worst` is
    the lowest of their means.
    """
    local = of_part(scores, part, seeds, [replace(PACE, reading="local")])
    rows = []
    for dataset, mine in of_part(scores, part, seeds, [PACE]).groupby("dataset", sort=False):
        before, receivers = local[local.dataset == dataset], np.stack(mine.gains.to_list(), axis=1)
        shared = {
            "dataset": title(dataset),
            "receivers": receivers,
            "helped": win_tie_loss(receivers.ravel()),
            "worst": float(receivers.mean(1).min()),
            "alphas": np.stack(mine.alphas.to_list(), axis=1),
        }
        for metric in part.metrics:
            points = mine[metric].to_numpy() - before[metric].to_numpy()
            over_seeds = {"interval": t_interval(points), "won": win_tie_loss(points)}
            rows.append({**shared, "metric": metric, "points": points, **over_seeds})
    return pd.DataFrame(rows)


def rank_figure(outcome: Outcome, part: Part) -> Figure | None:
    """Accuracy by rank on each dataset, with Local dashed, and the bytes of both directions."""
    if part not in outcome.numbers:
        return None
    numbers = outcome.numbers[part]
    labels = [row.label.removeprefix("PACE rank ") for row in part.rows]
    numbers = numbers.assign(place=numbers.method.str.removeprefix("PACE rank ").map(labels.index))
    local = of_part(outcome.scores, part, outcome.seeds, [LOCAL]).groupby("dataset").accuracy.mean()
    panels = len(part.datasets) + 1
    figure, axes = plt.subplots(1, panels, figsize=(2.7 * panels, 2.4))
    for axis, dataset in zip(axes, part.datasets, strict=False):
        values = numbers[(numbers.dataset == title(dataset)) & (numbers.metric == "accuracy")]
        deviations = values["std"].fillna(0)
        axis.errorbar(values.place, values["mean"], deviations, color=BLUE, marker="o", capsize=2)
        if dataset in local:
            axis.axhline(local[dataset], color=GREY, linestyle="--", label="Local")
            axis.legend(frameon=False, loc="best")
        axis.axvline(labels.index(str(RANK)), color=GREY, linestyle=":")
        axis.set(title=title(dataset), ylabel="Accuracy (%)")
    shares = numbers[numbers.dataset == CITATION_MEAN]
    for word, colour, way in (("upload", ORANGE, "upload"), ("return", GREEN, "downlink")):
        values = shares[shares.metric == f"{way}_percent"]
        axes[-1].plot(values.place, values["mean"], color=colour, marker="s", label=word)
    axes[-1].set(yscale="log", title="Bytes", ylabel="% of dense")
    axes[-1].legend(frameon=False)
    for axis in axes:
        axis.set_xticks(range(len(labels)), labels)
        axis.set_xlabel("Rank")
    return figure


def transfer_figure(outcome: Outcome, part: Part) -> Figure | None:
    """(a-b) PACE - Local with 95 % paired t intervals; (c) helped, tied and harmed receivers."""
    rows = gains(part, outcome.scores, outcome.seeds)[::-1]
    if rows.empty:
        return None
    accuracy = rows[rows.metric == "accuracy"]
    figure, axes = plt.subplots(1, 3, figsize=(11, 0.7 + 0.42 * len(accuracy)), sharey=True)
    heads = {"accuracy": "(a) Accuracy", "weighted_f1": "(b) Weighted F1"}
    for axis, (metric, head) in zip(axes, heads.items(), strict=False):
        for height, line in enumerate(rows[rows.metric == metric].itertuples()):
            axis.plot(line.interval, [height, height], color=BLUE, linewidth=2)
            axis.plot(line.points.mean(), height, "o", color=BLUE)
            word, corner = "{}/{}/{}".format(*line.won), ("axes fraction", "data")
            style = {"ha": "right", "fontsize": 7, "color": GREY}
            axis.annotate(word, (1.0, height), (-2, 5), corner, "offset points", **style)
        axis.axvline(0, color=GREY, linewidth=0.8)
        axis.set(title=f"{head}: PACE - Local", xlabel="points, 95 % paired t; win/tie/loss")
    counts = np.array(accuracy.helped.to_list()).T
    ends = counts.cumsum(0)
    for count, end, colour in zip(counts, ends, (GREEN, GREY, RED), strict=True):
        axes[2].barh(range(len(accuracy)), count, left=end - count, color=colour, height=0.6)
    for height, (end, worst) in enumerate(zip(ends[-1], accuracy.worst, strict=True)):
        offset = {"textcoords": "offset points", "va": "center", "fontsize": 7}
        axes[2].annotate(f"worst {worst:+.2f}", (end, height), (4, 0), **offset)
    axes[2].set(title="(c) Receivers helped, tied, harmed", xlabel="receiver-seed units")
    axes[2].margins(x=0.18)
    axes[0].set_yticks(range(len(accuracy)), accuracy.dataset)
    return figure


def alpha_figure(outcome: Outcome, part: Part) -> Figure | None:
    """Every receiver's alpha on every seed, receivers sorted by their mean."""
    rows = gains(replace(part, metrics=("accuracy",)), outcome.scores, outcome.seeds)
    if rows.empty:
        return None
    size = 2.2 * len(rows), 2.4
    figure, axes = plt.subplots(1, len(rows), figsize=size, sharey=True, squeeze=False)
    for axis, dataset in zip(axes[0], rows.itertuples(), strict=True):
        order = dataset.alphas[dataset.alphas.mean(1).argsort(kind="stable")]
        for receiver, alphas in enumerate(order):
            axis.plot([receiver] * len(alphas), alphas, "o", color=BLUE, alpha=0.35, markersize=3)
            axis.plot(receiver, alphas.mean(), "_", color=ORANGE, markersize=9, mew=2)
        axis.set(title=dataset.dataset, xlabel="receiver", ylim=(-0.04, 1.04))
        axis.xaxis.get_major_locator().set_params(integer=True)
    axes[0][0].set_ylabel("α")
    return figure


def bytes_figure(outcome: Outcome, part: Part) -> Figure | None:
    """Accuracy against the bytes a client exchanges, for every method."""
    published = [row for row in MATRIX if row.method not in UNPUBLISHED]
    trials = of_part(outcome.scores, part, outcome.seeds, published)
    trials = trials[trials.clients == part.clients[0]]
    total = trials.upload + trials.returned
    trials = trials.assign(kilobytes=total / trials.alphas.map(len) / 1000)
    trials.loc[trials.label == LOCAL.label, "kilobytes"] = 0.0
    means = trials.groupby(["dataset", "label"])[["kilobytes", "accuracy"]].mean()
    names = [name for name in part.datasets if (name, LOCAL.label) in means.index]
    if not names:
        return None
    figure, axes = plt.subplots(1, len(names), figsize=(2.4 * len(names) + 1, 2.7), squeeze=False)
    for axis, name in zip(axes[0], names, strict=True):
        for row, mark in zip(published, MARKS, strict=True):
            if (name, row.label) in means.index:
                colour = {"PACE": ORANGE, "Local": GREY}.get(row.label, BLUE)
                point = means.loc[name, row.label]
                axis.plot(*point, mark, color=colour, label=row.label, alpha=0.85)
        axis.set(title=title(name), xlabel="kB up + down, per client")
        axis.set_xscale("symlog", linthresh=1)
    axes[0][0].set_ylabel("Accuracy (%)")
    axes[0][-1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=8)
    return figure


def guard_figure(outcome: Outcome, part: Part) -> Figure | None:
    """Mean gain over Local against receivers harmed, by the guard's level; PACE beside it."""
    levels = outcome.beyond.lines(LEVELS)
    if levels.empty:
        return None
    (pace,) = outcome.beyond.lines((PACE,)).itertuples()
    figure, axis = plt.subplots(figsize=(4.6, 3.0))
    shares = [harm.percent for harm in levels.harm_local]
    axis.plot(shares, levels.over_local, "o-", color=ORANGE, label="pace-duo")
    for level, share, points in zip(levels.label, shares, levels.over_local, strict=True):
        word = "no guard" if level == "1" else f"level {level}"
        axis.annotate(word, (share, points), (6, -9), textcoords="offset points", fontsize=8)
    axis.plot(pace.harm_local.percent, pace.over_local, "D", color=BLUE, label="PACE")
    axis.plot(0, 0, "s", color=GREY, label="Local")
    axis.set(xlabel="receivers harmed (%)", ylabel="accuracy over Local (points)")
    axis.legend(frameon=False, loc="lower right")
    return figure


def field_figure(outcome: Outcome, part: Part) -> Figure | None:
    """Mean ranks on one axis; a bar as long as the critical difference joins what does not differ."""
    if "field" not in outcome.draws:
        return None
    lines = ranked(*outcome.draws["field"])
    order, number = ranks(lines), lines.setting.nunique()
    if number < 2:
        return None
    apart = critical_difference(len(order), number)
    figure, axis = plt.subplots(figsize=(7.0, 0.6 + 0.22 * len(order)))
    axis.plot(order, range(len(order)), "o", color=BLUE)
    last = -1
    for first, value in enumerate(order):
        end = int((order - value <= apart).to_numpy().nonzero()[0].max())
        if end > max(first, last):
            axis.plot([value, value], [first - 0.2, end + 0.2], color=ORANGE, linewidth=1.5)
            last = end
    axis.set_yticks(range(len(order)), order.index)
    axis.invert_yaxis()
    axis.set_xlabel(f"mean rank by accuracy (critical difference {apart:.2f})")
    return figure


FIGURES = {  # name: the parts it belongs to, what draws it
    "rank": ("rank", rank_figure),
    "transfer": ("diagnostics", transfer_figure),
    "alpha": ("diagnostics", alpha_figure),
    "bytes": ("main", bytes_figure),
    "guard": ("beyond", guard_figure),
    "field": ("field*", field_figure),
}


def draw_figures(outcome: Outcome, folder: Path) -> list[Path]:
    """Draw the figures of an outcome's parts into the folder; the files written.

    There is no date inside: the same numbers give the same file.
    """
    written = []
    with plt.rc_context(STYLE):  # type: ignore[arg-type]
        for name, (home, draw) in FIGURES.items():
            parts = [part for part in outcome.parts if fnmatch(part.name, home)]
            if not parts or (figure := draw(outcome, parts[0])) is None:
                continue
            figure.tight_layout()
            for kind, metadata in (("png", None), ("pdf", {"CreationDate": None})):
                buffer = io.BytesIO()
                figure.savefig(buffer, format=kind, metadata=metadata)
                written.append(folder / f"{name}.{kind}")
                atomic.write(written[-1], buffer.getvalue())
            plt.close(figure)
    return written
