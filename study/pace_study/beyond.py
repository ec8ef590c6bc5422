"""Methods beyond the paper against PACE: setting by setting, part by part and level by level."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pace.reports import Table, Value
from pace_study.records import title
from pace_study.scores import SETTING, Harm, of_part, t_interval
from pace_study.study import (
    BEYOND,
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

TUNING_DRAWS = (1, 2, 3, 4, 5)  # on which the closed form was chosen, for Cora, CiteSeer and PubMed
ONE_SPLIT = "Setting by setting, intervals over seeds on one split"
BY_SETTING = "The closed form, setting by setting, intervals over seeds on one split"
BY_DRAW = "The closed form with redrawn masks that nothing was chosen on, intervals over draws"
HOMES = tuple(PARTS[name] for name in ("beyond", "beyond-metis", "beyond-dirichlet"))
ELSEWHERE = tuple(PARTS[name] for name in ("beyond-twitch", "beyond-heterophilous"))
SETTING_HEADS = (
    "Setting", "Local", "PACE", "pace-duo", "− PACE", "95 %", "Harmed, PACE",
    "Harmed, duo", "Worst, PACE", "Worst, duo", "Upload", "Return",
)  # fmt: skip
METHOD_HEADS = (
    "Setting", "Local", "PACE", "pace-duo", "pace-ridge", "− PACE", "95 %", "sums",
    "− PACE", "95 %", "Harmed: PACE", "duo", "ridge", "sums", "Worst, ridge", "Worst, sums",
)  # fmt: skip
ELSEWHERE_HEADS = (
    "Graph", "Method", "Accuracy", "− Local", "− PACE", "95 %", "ROC AUC", "Harmed",
    "Worst", "Upload", "Return",
)  # fmt: skip
LINE_HEADS = (
    "", "− PACE", "− Local", "Lowest − PACE", "Lowest − Local", "Harmed", "Worst", "Upload",
    "Return",
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
            for dataset in part.datasets:
                for clients in part.clients:
                    place = dataset, part.partition, clients
                    if place in ours and place in pace:
                        name = f"{title(dataset)}, {part.partition}, C = {clients}"
                        lines[name] = _setting(ours[place], pace[place])
        return pd.DataFrame.from_dict(lines, orient="index")

    def lines(self, rows: Mapping[str, Row]) -> pd.DataFrame:
        """Each row over the settings that all rows have; empty unless each has some."""
        found = {label: self.settings(row) for label, row in rows.items()}
        common = set.intersection(*(set(settings.index) for settings in found.values()))
        if not common:
            return pd.DataFrame()
        kept = {
            label: settings.loc[settings.index.isin(common)] for label, settings in found.items()
        }
        return pd.DataFrame({label: line(settings) for label, settings in kept.items()}).T

    def steps(self) -> pd.DataFrame:
        """From PACE to pace-duo, a part at a time."""
        return self.lines({row.label: row for row in STEPS if row is not LOCAL})

    def levels(self) -> pd.DataFrame:
        """The guard by its level, from none to strict."""
        return self.lines({f"{level:g}": row for level, row in GUARDS.items()})

    def methods(self) -> pd.DataFrame:
        """PACE and everything beyond it that a user may choose."""
        return self.lines({row.label: row for row in (PACE, DUO, RIDGE, SUMS)})

    def choices(self) -> pd.DataFrame:
        """What each choice of the closed form is worth."""
        return self.lines({row.label: row for row in REGRESSIONS})


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
    return {
        "accuracy": ours.accuracy.mean(),
        "over_pace": differences.mean(),
        "low": low,
        "high": high,
        "over_local": ours.over_local.mean(),
        "harmed": harm.harmed,
        "by_more": harm.by_more,
        "receivers": harm.receivers,
        "worst": gains.mean(0).min(),
        "upload": ours.upload.sum() / pace.upload.sum(),
        "returned": ours.returned.sum() / pace.returned.sum(),
        "roc_auc": ours.roc_auc.mean(),
        **ours.iloc[0][[*SETTING, "method"]].to_dict(),
    }


def line(settings: pd.DataFrame) -> dict[str, float]:
    """One row over all settings."""
    return {
        "settings": len(settings),
        "over_pace": settings.over_pace.mean(),
        "over_local": settings.over_local.mean(),
        "lowest": settings.over_pace.min(),
        "below_local": settings.over_local.min(),
        "harmed": int(settings.harmed.sum()),
        "by_more": int(settings.by_more.sum()),
        "receivers": int(settings.receivers.sum()),
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
    found = study.lines({"old": PACE, "new": DUO})
    if found.empty:
        return []
    ours, (old, new) = study.settings(), (found.loc[label] for label in ("old", "new"))
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
    found = study.lines({row.label: row for row in (PACE, RIDGE, SUMS)})
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
        f"{new.harmed:.0f} against {old.harmed:.0f} of {new.receivers:.0f}, by more than one node "
        f"{new.by_more:.0f} against {old.by_more:.0f}; worst receiver "
        f"{new.worst:+.2f} against {old.worst:+.2f}"
    )


# --- tables -------------------------------------------------------------------------------------


def duo_tables(study: Beyond) -> list[Table]:
    """pace-duo's three tables and its aims."""
    levels = _lines("The guard by its level", study.levels(), "Level")
    return [
        aims_table("What it set out to do", duo_aims(study)),
        _numbers(ONE_SPLIT, SETTING_HEADS, _setting_rows(study)),
        _lines("Part by part", study.steps()),
        levels,
    ]


def ridge_tables(study: Beyond) -> list[Table]:
    """The closed form's tables and aims."""
    redrawn = _method_rows(study, [PARTS["beyond-masks"]])
    return [
        aims_table("What the closed form set out to do", ridge_aims(study)),
        _lines("Which one to take", study.methods()),
        _numbers(BY_SETTING, METHOD_HEADS, _method_rows(study)),
        _numbers(BY_DRAW, METHOD_HEADS, redrawn),
        elsewhere_table(study),
        _lines("What each choice is worth", study.choices()),
    ]


def aims_table(caption: str, aims: Sequence[Aim]) -> Table:
    words = {True: Value("reached"), False: Value("not reached", mark="best")}
    rows: list[list[str | Value]] = [
        [aim.statement, words[bool(aim.holds)], aim.evidence] for aim in aims
    ]
    return Table.of(caption, ("Aim", "", "Measured"), rows, names=3)


def _setting_rows(study: Beyond) -> list[list[str]]:
    pace = study.settings(PACE)
    return [
        [
            name,
            f"{ours.accuracy - ours.over_local:.2f}",
            f"{pace.accuracy[name]:.2f}",
            *_against_pace(ours),
            str(pace.harmed[name]),
            str(ours.harmed),
            f"{pace.worst[name]:+.2f}",
            f"{ours.worst:+.2f}",
            *_bytes(ours),
        ]
        for name, ours in study.settings().iterrows()
    ]


def _method_rows(study: Beyond, homes: Sequence[Part] = HOMES) -> list[list[str]]:
    """The closed form beside PACE and pace-duo, setting by setting."""
    pace, duo, ridge, sums = (study.settings(row, homes) for row in (PACE, DUO, RIDGE, SUMS))
    return [
        [
            name,
            f"{one.accuracy - one.over_local:.2f}",
            f"{pace.accuracy[name]:.2f}",
            f"{duo.accuracy[name]:.2f}",
            *_against_pace(one),
            *_against_pace(sums.loc[name]),
            *(str(each.harmed[name]) for each in (pace, duo, ridge, sums)),
            f"{one.worst:+.2f}",
            f"{sums.worst[name]:+.2f}",
        ]
        for name, one in ridge.iterrows()
        if name in sums.index and name in duo.index
    ]


def elsewhere_table(study: Beyond) -> Table:
    """Twitch's countries and graphs whose neighbours differ, a line for each method."""
    rows = (LOCAL, PACE, DUO, RIDGE, SUMS)
    found = {row.label: study.settings(row, ELSEWHERE) for row in rows}
    lines = []
    for name in found[LOCAL.label].index:
        for label, settings in found.items():
            if name not in settings.index:
                continue
            ours = settings.loc[name]
            lines.append(
                [
                    name,
                    label,
                    f"{ours.accuracy:.2f}",
                    f"{ours.over_local:+.2f}",
                    *_against_pace(ours)[1:],
                    "-" if pd.isna(ours.roc_auc) else f"{ours.roc_auc:.2f}",
                    f"{ours.harmed} of {ours.receivers} ({ours.by_more})",
                    f"{ours.worst:+.2f}",
                    *_bytes(ours),
                ]
            )
    caption = "Seven countries, and graphs whose neighbours differ"
    return _numbers(caption, ELSEWHERE_HEADS, lines, names=2)


def _against_pace(ours: pd.Series) -> list[str]:
    spread = "one seed" if pd.isna(ours.low) else f"{ours.low:+.2f} to {ours.high:+.2f}"
    return [f"{ours.accuracy:.2f}", f"{ours.over_pace:+.2f}", spread]


def _bytes(found: pd.Series) -> list[str]:
    """Against PACE's."""
    return [f"{100 * found.upload:.1f} %", f"{100 * found.returned:.1f} %"]


def _lines(caption: str, lines: pd.DataFrame, head: str = "") -> Table:
    rows = [
        [
            str(label),
            f"{found.over_pace:+.2f}",
            f"{found.over_local:+.2f}",
            f"{found.lowest:+.2f}",
            f"{found.below_local:+.2f}",
            f"{found.harmed:.0f} of {found.receivers:.0f} ({found.by_more:.0f})",
            f"{found.worst:+.2f}",
            *_bytes(found),
        ]
        for label, found in lines.iterrows()
    ]
    return _numbers(caption, (head, *LINE_HEADS[1:]), rows)


def _numbers(
    caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], names: int = 1
) -> Table:
    """A table that a page sorts by the number a cell begins with."""
    values = [[Value(text, _sort(text)) for text in row] for row in rows]
    return Table.of(caption, heads, values, names=names, words=0)


def _sort(text: str) -> float | str:
    try:
        return float(text.split()[0])
    except (ValueError, IndexError):
        return text


def tidy(study: Beyond) -> pd.DataFrame:
    """One row for each setting and method."""
    found = pd.concat([study.settings(row) for row in BEYOND if row is not LOCAL])
    columns = ["accuracy", "over_pace", "low", "high", "over_local", "harmed", "worst"]
    found = found.assign(dataset=found.dataset.map(title))
    return found[[*SETTING, "method", *columns, "upload", "returned"]]
