"""Methods beyond the paper against PACE: setting by setting, part by part and level by level."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from pace.reports import Table, Value
from pace_study.records import title
from pace_study.scores import SETTING, Harm, interval, of_part, t_interval
from pace_study.study import (
    CITATION,
    DUO,
    GUARDS,
    LOCAL,
    PACE,
    PARTS,
    REGRESSIONS,
    RIDGE,
    STEPS,
    SUMS,
    Part,
    Row,
)
from pace_study.tables import PERCENT, POINTS, Columns, frame_table

TUNING_DRAWS = (1, 2, 3, 4, 5)  # on which the closed form was chosen, for Cora, CiteSeer and PubMed
ONE_SPLIT = "Setting by setting, intervals over seeds on one split"
BY_SETTING = "The closed form, setting by setting, intervals over seeds on one split"
BY_DRAW = "The closed form with redrawn masks that nothing was chosen on, intervals over draws"
HOMES = tuple(PARTS[name] for name in ("beyond", "beyond-metis", "beyond-dirichlet"))
ELSEWHERE = tuple(PARTS[name] for name in ("beyond-twitch", "beyond-heterophilous"))
SENT: Columns = (("Upload", "upload", PERCENT), ("Return", "returned", PERCENT))
LINE: Columns = (
    ("− PACE", "over_pace", POINTS), ("− Local", "over_local", POINTS),
    ("Lowest − PACE", "lowest", POINTS), ("Lowest − Local", "below_local", POINTS),
    ("Harmed", "harm", ""), ("Worst", "worst", POINTS), *SENT,
)  # fmt: skip
ELSEWHERE_LINE: Columns = (
    ("Graph", "setting", ""), ("Method", "label", ""),
    ("Accuracy", "accuracy", ".2f"), ("− Local", "over_local", POINTS),
    ("− PACE", "over_pace", POINTS), ("95 %", "interval", ""), ("ROC AUC", "roc_auc", ".2f"),
    ("Harmed", "harm", ""), ("Worst", "worst", POINTS), *SENT,
)  # fmt: skip
METHODS = (PACE, DUO, RIDGE, SUMS)  # what a user may choose
LEVELS = {f"{level:g}": row for level, row in GUARDS.items()}  # from none to strict
AGAINST: Columns = (
    ("{}", "accuracy", ".2f"), ("− PACE", "over_pace", POINTS), ("95 %", "interval", "")
)  # fmt: skip


@dataclass(frozen=True)
class Beyond:
    """A study's scores and the seeds to read."""

    scores: pd.DataFrame
    seeds: Sequence[int]

    def settings(self, row: Row = DUO, homes: Iterable[Part] = HOMES) -> pd.DataFrame:
        """A row against PACE, in every setting of which both are stored, by the setting's name."""
        lines = {}
        for part in homes:
            ours, pace = (
                dict(iter(_unseen(of_part(self.scores, part, self.seeds, [each])).groupby(SETTING)))
                for each in (row, PACE)
            )
            for place in product(part.datasets, [part.partition], part.clients):
                if place in ours and place in pace:
                    name = f"{title(place[0])}, {place[1]}, C = {place[2]}"
                    lines[name] = {"setting": name, **_setting(ours[place], pace[place])}
        return pd.DataFrame.from_dict(lines, orient="index")

    def lines(self, rows: Iterable[Row] | Mapping[str, Row]) -> pd.DataFrame:
        """Each row over the settings that all rows have; empty unless each has some."""
        named = rows if isinstance(rows, Mapping) else {row.label: row for row in rows}
        found = {label: self.settings(row) for label, row in named.items()}
        common = set.intersection(*(set(settings.index) for settings in found.values()))
        if not common:
            return pd.DataFrame()
        kept = {name: settings[settings.index.isin(common)] for name, settings in found.items()}
        lines = [{"label": label, **line(settings)} for label, settings in kept.items()]
        return pd.DataFrame(lines).set_index("label", drop=False)


def _unseen(trials: pd.DataFrame) -> pd.DataFrame:
    """Without the draws that the closed form was chosen on: those are no confirmation."""
    return trials[~(trials.dataset.isin(CITATION) & trials.data_seed.isin(TUNING_DRAWS))]


def _setting(ours: pd.DataFrame, pace: pd.DataFrame) -> dict[str, object]:
    """Trials of one row and of PACE in one setting; `worst` is the worst receiver's mean gain."""
    differences = ours.accuracy.to_numpy() - pace.accuracy.to_numpy()
    draws = ours.data_seed.to_numpy()
    independent = differences  # by seed on one split, or by draw: seeds of a draw share its split
    if len(set(draws)) > 1:
        independent = pd.Series(differences).groupby(draws).mean().to_numpy()
    low, high = t_interval(independent)
    gains = np.stack(ours.gains.to_list())  # trial, receiver
    harm = Harm.of((gains * np.stack(ours.nodes.to_list()) / 100).round())
    accuracy, over_local = ours.accuracy.mean(), ours.over_local.mean()
    return {
        "accuracy": accuracy,
        "over_pace": differences.mean(),
        "low": low,
        "high": high,
        "interval": interval((low, high), "one seed"),
        "over_local": over_local,
        "local": accuracy - over_local,
        "harm": harm,
        "harmed": harm.harmed,
        "worst": gains.mean(0).min(),
        **{way: ours[way].sum() / pace[way].sum() for way in ("upload", "returned")},
        "roc_auc": ours.roc_auc.mean(),
        **ours.iloc[0][[*SETTING, "method"]].to_dict(),
    }


def line(settings: pd.DataFrame) -> dict[str, Any]:
    """One row over all settings."""
    harm = Harm.total(settings.harm)
    return {
        "settings": len(settings),
        "over_pace": settings.over_pace.mean(),
        "over_local": settings.over_local.mean(),
        "lowest": settings.over_pace.min(),
        "below_local": settings.over_local.min(),
        "harm": harm,
        "harmed": harm.harmed,
        "receivers": harm.receivers,
        "worst": settings.worst.min(),
        "upload": settings.upload.mean(),
        "returned": settings.returned.mean(),
    }


# --- what they set out to do --------------------------------------------------------------------


@dataclass(frozen=True)
class Aim:
    """What a method set out to do, whether it did, and the numbers that say so."""

    statement: str
    holds: bool
    evidence: str


def duo_aims(study: Beyond) -> list[Aim]:
    """What pace-duo set out to do."""
    found = study.lines((PACE, DUO))
    if found.empty:
        return []
    ours, (old, new) = study.settings(), (found.loc[label] for label in found.index)
    least, lowest = ours.over_pace.idxmin(), ours.over_local.idxmin()
    most = ours[["upload", "returned"]].max(axis=1)
    return [
        Aim(
            "No setting is worse than PACE by more than 0.1 point.",
            new.lowest >= -0.1,
            f"lowest {new.lowest:+.2f} ({least}); {(ours.over_pace < -0.1).sum()} of {len(ours)} "
            "settings below -0.1",
        ),
        Aim(
            "On average it is at least 0.3 point better than PACE.",
            new.over_pace >= 0.3,
            f"{new.over_pace:+.2f} over {new.settings:.0f} settings",
        ),
        Aim(
            "No setting is below Local by more than 0.1 point.",
            new.below_local >= -0.1,
            f"lowest {new.below_local:+.2f} ({lowest}); PACE's lowest {old.below_local:+.2f}",
        ),
        Aim(
            "At most half as many receivers are harmed as by PACE.",
            new.harmed <= old.harmed / 2,
            _harm(new, old),
        ),
        Aim(
            "It costs at most 52 % of PACE's bytes, in each direction.",
            most.max() <= 0.52,
            f"upload {100 * new.upload:.1f} %, return {100 * new.returned:.1f} % on average; "
            f"most {100 * most.max():.1f} % ({most.idxmax()})",
        ),
    ]


def ridge_aims(study: Beyond) -> list[Aim]:
    """What the closed form set out to do, in both its forms."""
    found = study.lines((PACE, RIDGE, SUMS))
    if found.empty:
        return []
    old, ridge, sums = (found.loc[label] for label in found.index)
    aims = [
        Aim(
            f"{new.name}: on average at least {least} points above PACE.",
            new.over_pace >= least,
            f"{new.over_pace:+.2f} over {new.settings:.0f} settings",
        )
        for new, least in ((ridge, 3.0), (sums, 2.5))
    ]
    for new in (ridge, sums):
        aims += [
            Aim(
                f"{new.name}: no setting more than 0.1 point below PACE or Local.",
                min(new.lowest, new.below_local) >= -0.1,
                f"lowest {new.lowest:+.2f} against PACE, {new.below_local:+.2f} against Local",
            ),
            Aim(
                f"{new.name}: at most a third of PACE's harmed receivers.",
                new.harmed <= old.harmed / 3,
                _harm(new, old),
            ),
        ]
    aims.append(
        Aim(
            f"{ridge.name}: each direction at most PACE's bytes.",
            max(ridge.upload, ridge.returned) <= 1,
            f"upload {100 * ridge.upload:.1f} %, return {100 * ridge.returned:.1f} % on average; "
            f"{sums.name} {100 * sums.upload:.0f} % and {100 * sums.returned:.0f} %",
        )
    )
    return aims


def _harm(new: pd.Series, old: pd.Series) -> str:
    return (
        f"{new.harm.harmed} against {old.harm.harmed} of {new.harm.receivers}, by more than one node "
        f"{new.harm.by_more} against {old.harm.by_more}; worst receiver "
        f"{new.worst:+.2f} against {old.worst:+.2f}"
    )


# --- tables -------------------------------------------------------------------------------------


def duo_tables(study: Beyond) -> list[Table]:
    """pace-duo's three tables and its aims."""
    columns = [
        ("Local", (DUO, "local"), ".2f"), ("PACE", (PACE, "accuracy"), ".2f"),
        *_against(DUO, "pace-duo"),
        ("Harmed, PACE", (PACE, "harmed"), "d"), ("Harmed, duo", (DUO, "harmed"), "d"),
        ("Worst, PACE", (PACE, "worst"), POINTS), ("Worst, duo", (DUO, "worst"), POINTS),
        *((head, (DUO, which), form) for head, which, form in SENT),
    ]  # fmt: skip
    return [
        aims_table("What it set out to do", duo_aims(study)),
        side_by_side(ONE_SPLIT, study, columns),
        frame_table("Part by part", study.lines(STEPS[1:]), (("", "label", ""), *LINE)),
        frame_table(
            "The guard by its level", study.lines(LEVELS), (("Level", "label", ""), *LINE), words=0
        ),
    ]


def ridge_tables(study: Beyond) -> list[Table]:
    """The closed form's tables and aims."""
    every = {"Harmed: PACE": PACE, "duo": DUO, "ridge": RIDGE, "sums": SUMS}
    columns = [
        ("Local", (RIDGE, "local"), ".2f"),
        *((row.label, (row, "accuracy"), ".2f") for row in (PACE, DUO)),
        *_against(RIDGE, "pace-ridge"), *_against(SUMS, "sums"),
        *((head, (row, "harmed"), "d") for head, row in every.items()),
        ("Worst, ridge", (RIDGE, "worst"), POINTS), ("Worst, sums", (SUMS, "worst"), POINTS),
    ]  # fmt: skip
    first = (("", "label", ""), *LINE)
    return [
        aims_table("What the closed form set out to do", ridge_aims(study)),
        frame_table("Which one to take", study.lines(METHODS), first),
        side_by_side(BY_SETTING, study, columns),
        side_by_side(BY_DRAW, study, columns, [PARTS["beyond-masks"]]),
        elsewhere_table(study),
        frame_table("What each choice is worth", study.lines(REGRESSIONS), first),
    ]


def aims_table(caption: str, aims: Sequence[Aim]) -> Table:
    words = {True: Value("reached"), False: Value("not reached", mark="best")}
    rows: list[list[str | Value]] = [
        [aim.statement, words[bool(aim.holds)], aim.evidence] for aim in aims
    ]
    return Table.of(caption, ("Aim", "", "Measured"), rows, names=3)


def _against(row: Row, name: str) -> Columns:
    return [(head.format(name), (row, which), form) for head, which, form in AGAINST]


def side_by_side(
    caption: str, study: Beyond, columns: Columns, homes: Sequence[Part] = HOMES
) -> Table:
    """Several methods in one line, setting by setting, where all of them are stored.

    A column's number is that of a row: `(row, which)`.
    """
    rows = dict.fromkeys(row for _, (row, _), _ in columns)
    found = pd.concat({row: study.settings(row, homes) for row in rows}, axis=1, join="inner")
    first = ("Setting", (next(iter(rows)), "setting"), "")
    return frame_table(caption, found, (first, *columns))


def elsewhere_table(study: Beyond) -> Table:
    """Twitch's countries and graphs whose neighbours differ, a line for each method."""
    found = pd.concat(
        study.settings(row, ELSEWHERE).assign(label=row.label)
        for row in (LOCAL, PACE, DUO, RIDGE, SUMS)
    )
    found = found.loc[found.index[found.label == LOCAL.label]]
    caption = "Seven countries, and graphs whose neighbours differ"
    return frame_table(caption, found, ELSEWHERE_LINE, names=2)
