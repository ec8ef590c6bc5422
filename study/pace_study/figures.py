"""The study's figures, as PNG and PDF. The only file of the study that draws."""

from __future__ import annotations

import io
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

mpl.use("Agg")  # draw to files; no window is wanted

import matplotlib.pyplot as plt

from pace.io import atomic
from pace.merging.carrier import RANK
from pace_study import beyond
from pace_study.cell import Store
from pace_study.diagnostics import paired, receivers
from pace_study.records import CITATION_MEAN, measured, score, title, trials
from pace_study.study import LOCAL, MATRIX, PACE, UNPUBLISHED, Part

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pace.reports.trial import Trial

BLUE, ORANGE, GREEN, RED, GREY = "#1f5fb4", "#d9822b", "#2e8b57", "#b3312c", "#8a8f98"
MARKS = ("D", "o", "^", "v", "<", ">", "s", "p", "P", "*")  # one for each row of the matrix
STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "figure.dpi": 200,
    "savefig.bbox": "tight",
    "svg.hashsalt": "pace",
}


def rank_figure(store: Store, seeds: Sequence[int], part: Part) -> Figure | None:
    """Accuracy by rank on each dataset, with Local dashed, and the bytes of both directions."""
    records = measured(part, store, seeds)
    if not records:
        return None
    labels = [row.label.removeprefix("PACE rank ") for row in part.rows]
    names = [title(name) for name in part.datasets]
    figure, axes = plt.subplots(1, len(names) + 1, figsize=(2.7 * (len(names) + 1), 2.4))
    for axis, name, dataset in zip(axes, names, part.datasets, strict=False):
        found = [r for r in records if r.dataset == name and r.metric == "accuracy"]
        places = [labels.index(r.method.removeprefix("PACE rank ")) for r in found]
        axis.errorbar(
            places,
            [r.mean for r in found],
            [r.std or 0 for r in found],
            color=BLUE,
            marker="o",
            capsize=2,
        )
        local = trials(part, LOCAL, dataset, part.clients[0], store, seeds)
        if local:
            mean = statistics.fmean(score(trial, "local", "accuracy") for trial in local)
            axis.axhline(mean, color=GREY, linestyle="--", label="Local")
            axis.legend(frameon=False, loc="best")
        axis.axvline(labels.index(str(RANK)), color=GREY, linestyle=":")
        axis.set_title(name)
        axis.set_ylabel("Accuracy (%)")
    for metric, colour in (("upload_percent", ORANGE), ("downlink_percent", GREEN)):
        found = [r for r in records if r.dataset == CITATION_MEAN and r.metric == metric]
        places = [labels.index(r.method.removeprefix("PACE rank ")) for r in found]
        word = "upload" if metric == "upload_percent" else "return"
        axes[-1].plot(places, [r.mean for r in found], color=colour, marker="s", label=word)
    axes[-1].set_yscale("log")
    axes[-1].set_title("Bytes")
    axes[-1].set_ylabel("% of dense")
    axes[-1].legend(frameon=False)
    for axis in axes:
        axis.set_xticks(range(len(labels)), labels)
        axis.set_xlabel("Rank")
    figure.tight_layout()
    return figure


def transfer_figure(store: Store, seeds: Sequence[int], part: Part) -> Figure | None:
    """(a-b) PACE - Local with 95 % paired t intervals; (c) helped, tied and harmed receivers."""
    differences = paired(part, store, seeds)
    each = receivers(part, store, seeds)
    if not each:
        return None
    figure, axes = plt.subplots(1, 3, figsize=(11, 0.7 + 0.42 * len(each)), sharey=True)
    names = [r.dataset for r in each][::-1]
    for axis, metric, head in zip(
        axes, ("accuracy", "weighted_f1"), ("(a) Accuracy", "(b) Weighted F1"), strict=False
    ):
        for found in (d for d in differences if d.metric == metric):
            low, high = found.interval
            place = names.index(found.dataset)
            axis.plot([low, high], [place, place], color=BLUE, linewidth=2)
            axis.plot(found.mean, place, "o", color=BLUE)
            axis.annotate(
                "{}/{}/{}".format(*found.counts),
                (1.0, place),
                xycoords=("axes fraction", "data"),
                xytext=(-2, 5),
                textcoords="offset points",
                ha="right",
                fontsize=7,
                color=GREY,
            )
        axis.axvline(0, color=GREY, linewidth=0.8)
        axis.set_title(f"{head}: PACE - Local")
        axis.set_xlabel("points, 95 % paired t; win/tie/loss")
    for one in each:
        place, left = names.index(one.dataset), 0
        for count, colour in zip(one.counts, (GREEN, GREY, RED), strict=True):
            axes[2].barh(place, count, left=left, color=colour, height=0.6)
            left += count
        axes[2].annotate(
            f"worst {one.worst:+.2f}",
            (left, place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
        )
    axes[2].set_title("(c) Receivers helped, tied, harmed")
    axes[2].set_xlabel("receiver-seed units")
    axes[2].margins(x=0.18)
    axes[0].set_yticks(range(len(names)), names)
    figure.tight_layout()
    return figure


def alpha_figure(store: Store, seeds: Sequence[int], part: Part) -> Figure | None:
    """Every receiver's alpha on every seed, receivers sorted by their mean."""
    each = receivers(part, store, seeds)
    if not each:
        return None
    figure, axes = plt.subplots(
        1, len(each), figsize=(2.2 * len(each), 2.4), sharey=True, squeeze=False
    )
    for axis, found in zip(axes[0], each, strict=True):
        order = sorted(found.alphas, key=statistics.fmean)
        for place, alphas in enumerate(order):
            axis.plot([place] * len(alphas), alphas, "o", color=BLUE, alpha=0.35, markersize=3)
            axis.plot(place, statistics.fmean(alphas), "_", color=ORANGE, markersize=9, mew=2)
        axis.set_title(found.dataset)
        axis.set_xlabel("receiver")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set_ylim(-0.04, 1.04)
    axes[0][0].set_ylabel("α")
    figure.tight_layout()
    return figure


def bytes_figure(store: Store, seeds: Sequence[int], part: Part) -> Figure | None:
    """Accuracy against the bytes a client exchanges, for every method."""
    names = [
        name for name in part.datasets if trials(part, LOCAL, name, part.clients[0], store, seeds)
    ]
    if not names:
        return None
    figure, axes = plt.subplots(1, len(names), figsize=(2.4 * len(names) + 1, 2.7), squeeze=False)
    published = [row for row in MATRIX if row.method not in UNPUBLISHED]
    for axis, name in zip(axes[0], names, strict=True):
        for row, mark in zip(published, MARKS, strict=True):
            found = trials(part, row, name, part.clients[0], store, seeds)
            if found:
                sent = 0.0 if row is LOCAL else statistics.fmean(map(_exchanged, found)) / 1000
                height = statistics.fmean(score(trial, row.reading, "accuracy") for trial in found)
                colour = {"PACE": ORANGE, "Local": GREY}.get(row.label, BLUE)
                axis.plot(sent, height, mark, color=colour, label=row.label, alpha=0.85)
        axis.set_title(title(name))
        axis.set_xlabel("kB up + down, per client")
        axis.set_xscale("symlog", linthresh=1)
    axes[0][0].set_ylabel("Accuracy (%)")
    axes[0][-1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=8)
    figure.tight_layout()
    return figure


def guard_figure(store: Store, seeds: Sequence[int], part: Part) -> Figure | None:
    """Mean gain over Local against receivers harmed, by the guard's level; PACE beside it."""
    found = beyond.levels(store, seeds)
    if not found:
        return None
    pace = beyond.line("PACE", beyond.settings(store, seeds, PACE))
    figure, axis = plt.subplots(figsize=(4.6, 3.0))
    shares = [100 * line.harmed / line.receivers for line in found]
    axis.plot(shares, [line.over_local for line in found], "o-", color=ORANGE, label="pace-duo")
    for share, line in zip(shares, found, strict=True):
        word = "no guard" if line.label == "1" else f"level {line.label}"
        axis.annotate(
            word, (share, line.over_local), (6, -9), textcoords="offset points", fontsize=8
        )
    axis.plot(100 * pace.harmed / pace.receivers, pace.over_local, "D", color=BLUE, label="PACE")
    axis.plot(0, 0, "s", color=GREY, label="Local")
    axis.set_xlabel("receivers harmed (%)")
    axis.set_ylabel("accuracy over Local (points)")
    axis.legend(frameon=False, loc="lower right")
    figure.tight_layout()
    return figure


def _exchanged(trial: Trial) -> float:
    """Bytes a client sends and receives."""
    return statistics.fmean(trial.upload) + statistics.fmean(trial.returned)


FIGURES: dict[str, tuple[str, Callable[[Store, Sequence[int], Part], Figure | None]]] = {
    # name: the part it belongs to, what draws it
    "rank": ("rank", rank_figure),
    "transfer": ("diagnostics", transfer_figure),
    "alpha": ("diagnostics", alpha_figure),
    "bytes": ("main", bytes_figure),
    "guard": ("beyond", guard_figure),
}


def draw(parts: Sequence[Part], store: Store, seeds: Sequence[int], folder: Path) -> list[str]:
    """Draw the figures of these parts into the folder; the names of those drawn."""
    wanted = {part.name: part for part in parts}
    drawn = []
    with plt.rc_context(STYLE):  # type: ignore[arg-type]
        for name, (home, make) in FIGURES.items():
            if home not in wanted:
                continue
            figure = make(store, seeds, wanted[home])
            if figure is None:
                continue
            for kind in ("png", "pdf"):
                buffer = io.BytesIO()
                # No date inside: the same numbers give the same file.
                metadata = {"CreationDate": None} if kind == "pdf" else None
                figure.savefig(buffer, format=kind, metadata=metadata)
                atomic.write(folder / f"{name}.{kind}", buffer.getvalue())
            plt.close(figure)
            drawn.append(name)
    return drawn
