"""Rows against other rows, setting by setting; and methods beyond the paper against PACE.

Differences are in points, paired by draw and seed.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from pace.reports import Finding, Table, Value
from pace_study import content, study
from pace_study.scores import SETTING, Harm, of_part, t_interval
from pace_study.study import DUO, LOCAL, PACE, PARTS, RIDGE, SUMS, Part, Row
from pace_study.tables import COLUMNS, PERCENT, Columns, frame_table, title

MEANS = ["accuracy", "macro_f1", "roc_auc", "ece", "seconds"]
SIZES = ["upload", "returned"]
TUNING_DRAWS = (1, 2, 3, 4, 5)  # on which the closed form was chosen, for Cora, CiteSeer and PubMed
ONE_SPLIT = "Setting by setting, intervals over seeds on one split"
BY_SETTING = "The closed form, setting by setting, intervals over seeds on one split"
BY_DRAW = "The closed form with redrawn masks that nothing was chosen on, intervals over draws"
OTHER_GRAPHS = "Seven countries, and graphs whose neighbours differ"
HOMES = tuple(PARTS[name] for name in ("beyond", "beyond-metis", "beyond-dirichlet"))
ELSEWHERE = tuple(PARTS[name] for name in ("beyond-twitch", "beyond-heterophilous"))
SENT: Columns = (("Upload", "upload", PERCENT), ("Return", "returned", PERCENT))
LINE: Columns = (
    *("over_pace", "over_local", "lowest_pace", "lowest_local", "harm_local", "worst_local", *SENT),
)
ELSEWHERE_LINE: Columns = (
    *(("Graph", "setting", ""), "label", "accuracy", "over_local", "over_pace", "interval_pace"),
    *("roc_auc", "harm_local", "worst_local", *SENT),
)
AIMS = tomllib.loads(content("aims.toml"))
AIM_ROWS = {"duo": {"duo": DUO}, "ridge": {"ridge": RIDGE, "sums": SUMS}}
METHODS = (PACE, DUO, RIDGE, SUMS)  # what a user may choose
LEVELS = dict(zip(("1", "0.5", "0.2", "0.05"), study.GUARDS, strict=True))  # from none to strict


def by_setting(trials: pd.DataFrame, others: Mapping[str, Row]) -> pd.DataFrame:
    """A line for each setting and label of some trials, against each of the other rows there."""
    lines = []
    for (dataset, partition, clients), members in trials.groupby(SETTING, sort=False):
        rows = {
            label: group.set_index(["data_seed", "seed"]).sort_index()
            for label, group in members.groupby("label", sort=False)
        }
        for label, ours in rows.items():
            lines.append(
                {
                    **ours.iloc[0][[*SETTING, "method"]],
                    "setting": f"{title(dataset)}, {partition}, C = {clients}",
                    "label": label,
                    **ours[MEANS].mean(),
                    **{way: (ours[way] / ours.alphas.map(len)).mean() for way in SIZES},
                    "draws": len(ours),
                    "by_draw": ours.accuracy,
                }
            )
            for name, row in others.items():
                points = against(ours, rows.get(row.label), partition)
                lines[-1] |= {f"{key}_{name}": value for key, value in points.items()}
    return pd.DataFrame(lines)


def against(ours: pd.DataFrame, other: pd.DataFrame | None, partition: str) -> dict[str, Any]:
    """Points over another row's trials in one setting, over the draws and seeds that both have.

    Intervals are over draws, whose seeds share a split, or over the seeds of the only draw. `worst` is a
    receiver's mean or, where each draw has receivers of its own, the lowest.
    """
    both = ours.index.intersection([] if other is None else other.index)
    if other is None or both.empty:
        return {"over": np.nan, "interval": (np.nan, np.nan), "harm": np.nan, "worst": np.nan}
    mine, theirs = ours.loc[both], other.loc[both]
    points = mine.accuracy - theirs.accuracy
    draws = points.groupby(level="data_seed").mean()
    same = len(draws) == 1 or not partition.startswith("dirichlet")
    nodes = np.stack(mine.hits.to_list()) - np.stack(theirs.hits.to_list())
    shares = 100 * nodes / np.maximum(np.stack(mine.nodes.to_list()), 1)
    return {
        "over": float(points.mean()),
        "interval": t_interval(draws if len(draws) > 1 else points),
        "harm": Harm.of(nodes, same),
        "worst": float(shares.mean(0).min() if same else shares.min()),
    }


def over_settings(lines: pd.DataFrame) -> pd.DataFrame:
    """A line for each label of those by setting: means, and the lowest and all harm against others."""
    groups = lines.groupby("label", sort=False)
    summary = groups[[*MEANS, *SIZES]].mean().assign(settings=groups.size())
    for other in (name.removeprefix("over_") for name in lines if name.startswith("over_")):
        over, harm = groups[f"over_{other}"], groups[f"harm_{other}"]
        summary[f"over_{other}"], summary[f"lowest_{other}"] = over.mean(), over.min()
        summary[f"harm_{other}"] = harm.agg(lambda harms: Harm.total(harms.dropna()))
        summary[f"worst_{other}"] = groups[f"worst_{other}"].min()
    return summary.assign(label=summary.index)


@dataclass(frozen=True, eq=False)
class Beyond:
    """A study's scores and the seeds to read."""

    scores: pd.DataFrame
    seeds: Sequence[int]

    @cache  # noqa: B019 - as long as the scores
    def compared(self, homes: Sequence[Part] = HOMES) -> pd.DataFrame:
        """Every row against PACE, in each setting of which both are stored; bytes in PACE's.

        Without the draws that the closed form was chosen on: those are no confirmation.
        """
        trials = pd.concat(of_part(self.scores, part, self.seeds) for part in homes)
        tuned = trials.dataset.isin(study.CITATION) & trials.data_seed.isin(TUNING_DRAWS)
        lines = by_setting(trials[~tuned], {"local": LOCAL, "pace": PACE})
        if lines.empty:
            return pd.DataFrame(columns=["label", "setting"])
        sizes = lines[lines.label == PACE.label].set_index("setting")[SIZES]
        lines[SIZES] /= sizes.reindex(lines.setting).to_numpy()
        return lines[lines.over_pace.notna()].set_index("setting", drop=False)

    def settings(self, row: Row = DUO, homes: Sequence[Part] = HOMES) -> pd.DataFrame:
        """A row, by the setting's name."""
        lines = self.compared(homes)
        return lines[lines.label == row.label]

    def lines(self, rows: Iterable[Row] | Mapping[str, Row]) -> pd.DataFrame:
        """Each row over the settings that all rows have; empty unless each has some."""
        named = rows if isinstance(rows, Mapping) else {row.label: row for row in rows}
        settings = {name: self.settings(row) for name, row in named.items()}
        common = set.intersection(*(set(own.index) for own in settings.values()))
        if not common:
            return pd.DataFrame()
        lines = pd.concat(own.assign(label=name) for name, own in settings.items())
        return over_settings(lines[lines.index.isin(common)])


# --- what they set out to do --------------------------------------------------------------------


def aim(statement: str, holds: bool, evidence: str) -> Finding:
    """What a method set out to do, whether it did, and the numbers that say so."""
    return Finding(statement, "holds" if holds else "fails", evidence)


def judged_aims(name: str, beyond: Beyond) -> list[Finding]:
    """What pace-duo or the closed form set out to do (`aims.toml`), over the settings of all rows."""
    rows = {"pace": PACE} | AIM_ROWS[name]
    lines, findings = beyond.lines(rows), []
    if lines.empty:
        return []
    numbers = {
        key: _numbers(lines.loc[key], lines.loc["pace"], beyond.settings(row))
        for key, row in rows.items()
    }
    for said in AIMS[name]:
        ours = numbers[said["of"]]
        reached = [ours[key] >= least for key, least in said.get("least", {}).items()]
        reached += [ours[key] <= most for key, most in said.get("most", {}).items()]
        findings.append(aim(said["aim"], all(reached), said["evidence"].format(**numbers)))
    return findings


def _numbers(line: pd.Series, pace: pd.Series, settings: pd.DataFrame) -> pd.Series:
    """What aims name of a row: its line, bytes in percent, and in which settings it is at its ends."""
    ours, theirs, sizes = line.harm_local, pace.harm_local, 100 * settings[SIZES].max(axis=1)
    words = (
        f"{ours.harmed} against {theirs.harmed} of {ours.receivers}, by more than one node "
        f"{ours.by_more} against {theirs.by_more}; worst receiver "
        f"{line.worst_local:+.2f} against {pace.worst_local:+.2f}"
    )
    more = {
        **{way: 100 * line[way] for way in SIZES},
        "largest": sizes.max(),
        "largest_in": sizes.idxmax(),
        "lowest_pace_in": settings.over_pace.idxmin(),
        "lowest_local_in": settings.over_local.idxmin(),
        "below": (settings.over_pace < -0.1).sum(),
        "harmed": ours.harmed / max(theirs.harmed, 1e-9),  # where PACE harms none, none may be
        "harm": words,
    }
    return pd.Series({**line, **more})


# --- tables -------------------------------------------------------------------------------------


def duo_tables(beyond: Beyond) -> list[Table]:
    """pace-duo's three tables and its aims."""
    columns = [
        ("Local", LOCAL, "accuracy"), ("PACE", PACE, "accuracy"), ("pace-duo", DUO, "accuracy"),
        ("− PACE", DUO, "over_pace"), ("95 %", DUO, "interval_pace"),
        ("Harmed, PACE", PACE, "harm_local"), ("Harmed, duo", DUO, "harm_local"),
        ("Worst, PACE", PACE, "worst_local"), ("Worst, duo", DUO, "worst_local"),
        ("Upload", DUO, "upload"), ("Return", DUO, "returned"),
    ]  # fmt: skip
    levels = beyond.lines(LEVELS)
    return [
        aims_table("What it set out to do", judged_aims("duo", beyond)),
        side_by_side(ONE_SPLIT, beyond, columns),
        frame_table("Part by part", beyond.lines(study.STEPS[1:]), (("", "label", ""), *LINE)),
        frame_table("The guard by its level", levels, (("Level", "label", ""), *LINE), words=0),
    ]


def ridge_tables(beyond: Beyond) -> list[Table]:
    """The closed form's tables and aims."""
    columns = [
        ("Local", LOCAL, "accuracy"), ("PACE", PACE, "accuracy"), ("pace-duo", DUO, "accuracy"),
        ("pace-ridge", RIDGE, "accuracy"), ("− PACE", RIDGE, "over_pace"),
        ("95 %", RIDGE, "interval_pace"), ("sums", SUMS, "accuracy"),
        ("− PACE", SUMS, "over_pace"), ("95 %", SUMS, "interval_pace"),
        ("Harmed: PACE", PACE, "harm_local"), ("duo", DUO, "harm_local"),
        ("ridge", RIDGE, "harm_local"), ("sums", SUMS, "harm_local"),
        ("Worst, ridge", RIDGE, "worst_local"), ("Worst, sums", SUMS, "worst_local"),
    ]  # fmt: skip
    first = (("", "label", ""), *LINE)
    return [
        aims_table("What the closed form set out to do", judged_aims("ridge", beyond)),
        frame_table("Which one to take", beyond.lines(METHODS), first),
        side_by_side(BY_SETTING, beyond, columns),
        side_by_side(BY_DRAW, beyond, columns, (PARTS["beyond-masks"],)),
        frame_table(OTHER_GRAPHS, beyond.compared(ELSEWHERE), ELSEWHERE_LINE, names=2),
        frame_table("What each choice is worth", beyond.lines(study.REGRESSIONS), first),
    ]


def aims_table(caption: str, aims: Sequence[Finding]) -> Table:
    verdicts = {"holds": Value("reached"), "fails": Value("not reached", mark="best")}
    rows = [(aim.statement, verdicts[aim.verdict], aim.evidence) for aim in aims]
    return Table.of(caption, ("Aim", "", "Measured"), rows, names=3)


def side_by_side(
    caption: str,
    beyond: Beyond,
    columns: Sequence[tuple[str, Row, str]],
    homes: tuple[Part, ...] = HOMES,
) -> Table:
    """Several methods in one line, setting by setting, where all of them are stored.

    A column has a head, and shows a number of a row.
    """
    rows = dict.fromkeys(row for _, row, _ in columns)
    settings = pd.concat({row: beyond.settings(row, homes) for row in rows}, axis=1, join="inner")
    forms = {name: form for name, (_, form) in COLUMNS.items()}
    forms |= {"harm_local": "d", "upload": PERCENT, "returned": PERCENT}
    shown = [(head, (row, name), forms[name]) for head, row, name in columns]
    return frame_table(caption, settings, [("Setting", (LOCAL, "setting"), ""), *shown])
