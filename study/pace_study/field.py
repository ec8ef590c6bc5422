"""The field in one table: every method under one protocol, over fresh draws of the masks.

A setting is a graph under a partition. A row is shown in a setting where at least three of the draws are
stored; differences are paired by draw, and their intervals are over draws.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pace.reports import Finding, Table
from pace_study import study
from pace_study.beyond import AIMS, MEANS, SIZES, aim, aims_table, by_setting, over_settings
from pace_study.rounds import ROUNDS
from pace_study.scores import LEVEL, SETTING, Harm, of_rows
from pace_study.study import ALONE, FULL, LOCAL, PARTS, RIDGE, Part, Row
from pace_study.tables import Columns, frame_table

NOTHING_SENT = study.LISTS["nothing-sent"]
FEWEST_DRAWS = 3  # of a row that is shown
SETTING_LINE: Columns = (
    *("setting", "label", "accuracy", "over_local", "interval_local", "over_alone"),
    *("interval_alone", "macro_f1", "roc_auc", "ece", "harm_local", "worst_local", "upload"),
    *("returned", "rounds", "seconds", "membership", "draws", "labels", "trains"),
)
SUMMARY_LINE: Columns = (
    *("label", "rank", "accuracy", "over_local", "lowest_local", "over_alone", "lowest_alone"),
    *("ece", "harm_local", "harm_alone", "upload", "returned", "rounds", "membership", "labels"),
)
TIDY = [*SETTING, "method", "setting", "label", *MEANS, "worst", *SIZES, "membership", "draws"]


def field_settings(
    scores: pd.DataFrame,
    rows: Sequence[Row],
    seeds: Sequence[int],
    membership: Mapping[str, float] | None = None,
    *,
    own: bool = False,
) -> pd.DataFrame:
    """A line for each setting and row of which at least three fresh draws are stored.

    `membership` is how well uploads tell who was trained on, by method. With `own`, methods that are
    stored beside those of the rows have a row too.
    """
    cells = scores[scores.data_seed.isin(study.FRESH_DRAWS) & (scores.model == "gcn")]
    cells = cells[cells.seed == study.in_order(seeds)[0]]
    # Settings in the order of their cells, partition by partition.
    cells = cells.assign(group=cells.groupby(["partition", "clients"], sort=False).ngroup())
    if own:
        listed = {row.method for row in rows}
        rows = [*rows, *(Row(name, name) for name in cells.method.unique() if name not in listed)]
    trials = of_rows(cells, rows).sort_values(["group", "dataset"], kind="stable")
    drawn = trials.groupby([*SETTING, "label"]).seed.transform("size")
    lines = by_setting(trials[drawn >= FEWEST_DRAWS], {"local": LOCAL, "alone": ALONE})
    if lines.empty:
        return lines
    lines = lines.assign(membership=lines.method.map(membership or {}))
    return lines.join(pd.DataFrame(map(facts, lines.method)))


def ranked(settings: pd.DataFrame, core: Sequence[Row]) -> pd.DataFrame:
    """What is ranked: the settings that every core row has, and the rows that have all of them.

    Accuracy is then over the draws that all of these rows have.
    """
    if settings.empty:
        return settings
    needed = {row.label for row in core}
    labels = settings.groupby("setting").label.agg(set)
    lines = settings[settings.setting.isin(labels[labels.map(needed.issubset)].index)]
    counts = lines.groupby("label").setting.nunique()
    lines = lines[lines.label.isin(counts[counts == lines.setting.nunique()].index)]
    draws = lines.groupby("setting").by_draw
    accuracy = draws.transform(lambda rows: pd.concat([*rows], axis=1).dropna().mean().to_numpy())
    return lines.assign(accuracy=accuracy)


def ranks(lines: pd.DataFrame) -> pd.Series:
    """Mean rank by accuracy, 1 is best, of rows that have the same settings; ties share a rank."""
    if lines.empty:
        return pd.Series(dtype=float)
    table = lines.pivot(index="setting", columns="label", values="accuracy")
    mean: pd.Series = table.rank(axis=1, ascending=False).mean()
    return mean.sort_values(kind="stable")


def critical_difference(rows: int, settings: int) -> float:
    """Nemenyi's: mean ranks further apart than this differ with 95 %.

    q √(k (k + 1) / 6 N), with q the studentized range's quantile over √2 (Demšar, 2006).
    """
    from scipy.stats import studentized_range

    quantile = float(studentized_range.ppf(LEVEL, rows, np.inf)) / 2**0.5
    return quantile * math.sqrt(rows * (rows + 1) / (6 * settings))


# --- tables -------------------------------------------------------------------------------------


def facts(method: str) -> dict[str, Any]:
    """Rounds, labels that are fitted to, and what is trained besides Local."""
    rounds = getattr(ROUNDS.get(method), "rounds", 0 if method in NOTHING_SENT else 1)
    labels = "every" if method in study.LISTS["every-label"] else "training"
    trains = study.CONTENT["trains"].get(method, "over rounds" if method in ROUNDS else "")
    return {"rounds": rounds, "labels": labels, "trains": trains}


def summary_table(settings: pd.DataFrame, core: Sequence[Row]) -> Table:
    """Each ranked row over the settings that all of them have, the best mean rank first."""
    rows = ranked(settings, core)
    order, number, lines = ranks(rows), 0, pd.DataFrame()
    if len(rows):
        number = rows.setting.nunique()
        same = rows.groupby("label")[["rounds", "membership", "labels"]].first()
        lines = over_settings(rows).join(same).assign(rank=order).loc[order.index]
    far = f"{critical_difference(len(order), number):.2f}" if number > 1 and len(order) > 1 else "-"
    caption = f"Over {number} settings; mean ranks differ by {far} or more (Nemenyi, 95 %)"
    return frame_table(caption, lines, SUMMARY_LINE, words=1)


def field_tables(settings: pd.DataFrame, core: Sequence[Row]) -> list[Table]:
    """What `pace-full` set out to do, the ranked rows, and every setting."""
    return [
        aims_table("What pace-full set out to do", full_aims(settings)),
        summary_table(settings, core),
        frame_table("Setting by setting", settings, SETTING_LINE, names=2, words=2),
    ]


def asked_table(settings: pd.DataFrame, parts: Sequence[Part]) -> Table:
    """The settings that were asked for, in few columns, the most accurate row of each first."""
    keys = {(name, p.partition, c) for p in parts for name in p.datasets for c in p.clients}
    stored = settings[SETTING].itertuples(index=False, name=None)
    lines = settings[[setting in keys for setting in stored]]
    lines = lines.sort_values(["setting", "accuracy"], ascending=[True, False], kind="stable")
    if lines.setting.nunique() > 1:
        return frame_table("What was asked for", lines, SETTING_LINE[:5], names=2)
    return frame_table(str(lines.setting.max()), lines, SETTING_LINE[1:7])


def full_aims(settings: pd.DataFrame) -> list[Finding]:
    """What `pace-full` set out to do, on the paper's masks, where it and its references are stored."""
    if settings.empty:
        return []
    settings = settings[~settings.dataset.isin(PARTS["field-more-labels"].datasets)]
    rows = {label: lines.set_index("setting") for label, lines in settings.groupby("label")}
    if not {FULL.label, RIDGE.label, ALONE.label, LOCAL.label} <= set(rows):
        return []
    full, local, aims = rows[FULL.label], rows[LOCAL.label], []
    for lead in AIMS["full"]:
        label, least, lowest = lead["against"], lead["mean"], lead.get("lowest")
        if label in rows:
            pairs = full.join(rows[label].by_draw.rename("other"), how="inner")
            ahead = (pairs.by_draw - pairs.other).map(pd.Series.mean).dropna()
            mean, low, where = ahead.mean(), ahead.min(), ahead.idxmin()
            floor = "" if lowest is None else f", nowhere below {lowest:+.1f}"
            statement = f"pace-full − {label}: at least {least:+.1f} on average{floor}"
            measured = f"{mean:+.2f} over {len(ahead)} settings, lowest {low:+.2f} ({where})"
            holds = mean >= least and (lowest is None or low >= lowest)
            aims.append(aim(statement, holds, measured))
    harmed = Harm.total(full.harm_alone.dropna()).percent
    statement = "pace-full: at most a tenth of receivers harmed against a site alone"
    aims.append(aim(statement, harmed <= 10, f"{harmed:.1f} %"))
    both = full.ece.notna() & local.ece.reindex(full.index).notna()
    if both.any():
        ours, theirs = full.ece[both].mean(), local.ece[full.index[both]].mean()
        statement = "pace-full: calibration error at most half of Local's"
        measured = f"{ours:.3f} against {theirs:.3f}"
        aims.append(aim(statement, ours <= theirs / 2, measured))
    return aims
