"""A study as one page: what was run, what became of the paper's claims, every table and receiver."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from pace import reports as page
from pace.datasets import DATA_SEED
from pace.io import atomic
from pace.reports import Block, Document, Section, Table
from pace_study import beyond, field, tables
from pace_study.claims import FAILS, HOLDS, UNKNOWN, WITHIN, judge_claims
from pace_study.folder import Study
from pace_study.outcome import Outcome
from pace_study.scores import SETTING, of_rows
from pace_study.study import PACE, PARTS
from pace_study.tables import title

NO_DATA = "not run: data not available"
KINDS = {HOLDS: "holds", WITHIN: "within", FAILS: "fails", UNKNOWN: "absent"}
FIGURES = {  # name: caption, what can be seen
    "transfer": (
        "Who gains and who loses: PACE − Local with 95 % paired t intervals over seeds, beside them "
        "seeds won / tied / lost; and receivers helped (green), tied (grey), harmed (red).",
        "Intervals of PACE minus Local by dataset for accuracy and weighted F1, and bars of receivers "
        "helped, tied and harmed",
    ),
    "alpha": (
        "How much of External each receiver admits: a dot a seed, a dash their mean; receivers sorted.",
        "The weight alpha of every receiver on every seed, by dataset",
    ),
    "rank": (
        "Rank against accuracy, Local dashed, and against the bytes of both directions.",
        "Accuracy by rank on each dataset, and bytes in percent of a dense model by rank",
    ),
    "bytes": (
        "Accuracy against the bytes a client sends and receives, for every method.",
        "Accuracy against kilobytes exchanged, a point a method, by dataset",
    ),
    "guard": (
        "pace-duo by the level of its guard: what it gains over Local, and how many it harms.",
        "Mean gain in accuracy over Local against the share of receivers harmed, by level",
    ),
    "field": (
        "Mean ranks over the settings that every row has; rows under one bar do not differ.",
        "Mean rank of each method",
    ),
}
CLAIMS = (
    "Each quantitative sentence of the paper's Section 5 and appendix, judged on what was run here. "
    "After `draws`: the mean over redraws of the masks and, in brackets, where one more draw falls "
    "with 95 %. A sentence that fails here or on average is compatible with one draw where a draw may "
    "meet it."
)
BEYOND = (
    "pace-duo adds a second correction from the receiver's peers, a gate with a temperature, a guard, "
    "and numbers in int8; pace-ridge is a ridge regression over everybody's training nodes, weighed "
    "beside Local, and pace-ridge-sums needs sums over clients only. Bytes are against PACE's in "
    "float32."
)
FIELD = (
    "A method is admitted with at least three of the draws of a setting, by the protocol of this table: "
    "one seed, data seeds 10 to 19, no test label before the score. It enters the ranks when it has all "
    "settings that they are over; they compare the draws that all rows have. The command that adds one "
    "of your own:"
)
COMMAND = "pace run --methods package.module:Class --against field --dataset cora --out results"
RECEIVER: tables.Columns = (
    ("Receiver", "receiver", ""), ("Test nodes", "nodes", "d"), ("Local (%)", "local", ".2f"),
    ("PACE (%)", "pace", ".2f"), ("Gain", "gain", tables.POINTS), ("Mean α", "alpha", ".3f"),
)  # fmt: skip


def write_study_page(folder: Path, seeds: Sequence[int]) -> Path:
    """Write `index.html`: everything that a study's folder holds, over these seeds."""
    path = folder / "index.html"
    atomic.write(path, page.render_page(document(Study(folder), seeds)).encode())
    return path


def document(study: Study, seeds: Sequence[int]) -> Document:
    found = Outcome([*study.parts, PARTS["field"]], study.store, seeds)
    judged = [
        page.Finding(f"{claim.text} ({claim.place})", KINDS[claim.verdict], claim.evidence)
        for claim in judge_claims(found.scores, seeds)
    ]
    verdicts = [finding.verdict for finding in judged]
    known = len(judged) - verdicts.count("absent")
    within = f"{verdicts.count('within')} are compatible with one draw of the masks"
    numbers = sum(int(table.difference.notna().sum()) for table in found.numbers.values())
    return Document(
        "PACE: the study, reproduced",
        "One-shot personalized federated graph learning: one upload, one return, Local always kept. "
        "This page holds what was run here, the paper's claims with the evidence for or against "
        "them, every table beside the published numbers, and every receiver.",
        (
            (
                f"{verdicts.count('holds')} of {known}",
                f"judged sentences of the paper hold; {within}",
            ),
            (f"{len(study.cells):,}", "cells: a method on a dataset, partition and seed"),
            (str(numbers), "numbers beside published ones"),
        ),
        (
            Section("Claims", (page.Text(CLAIMS), page.Findings(tuple(judged)))),
            Section("What was run", tuple(_what_was_run(study, seeds))),
            Section("Figures", tuple(_figures(study.folder / "figures"))),
            Section("Tables", tuple(_tables(found))),
            Section("Receivers", (_receivers(found.scores, study.datasets),)),
            *_beyond(found.beyond),
            *_field(found),
        ),
    )


def _what_was_run(study: Study, seeds: Sequence[int]) -> Iterable[Block]:
    rows = study.store.rows.values()
    made_with = [json.loads(text) for text in dict.fromkeys(row["versions"] for row in rows)]
    libraries = dict.fromkeys(name for versions in made_with for name in versions)
    facts = {
        "Datasets": ", ".join(map(title, study.datasets)),
        **{title(name): NO_DATA for name in study.absent},
        "Methods": ", ".join(sorted({cell.method for cell in study.cells})),
        "Parts": ", ".join(part.name for part in study.parts),
        "Seeds": ", ".join(map(str, seeds)),
        "Device": _distinct(row["device"] for row in rows),
        **{
            name: _distinct(versions.get(name, "-") for versions in made_with) for name in libraries
        },
    }
    yield page.Facts(tuple(facts.items()))
    yield page.Code("\n".join(study.commands))


def _distinct(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(map(str, values)))


def _figures(figures: Path) -> Iterable[Block]:
    for name in FIGURES:
        if (path := figures / f"{name}.png").is_file():
            yield page.Figure(*FIGURES[name], path.read_bytes())


def _tables(found: Outcome) -> Iterable[Block]:
    yield tables.agreement(found.numbers)
    for part, numbers in found.numbers.items():
        own, pairs = (
            tables.part_tables(part, numbers, show)
            for show in (tables.show_ours, tables.show_beside)
        )
        named = (replace(table, title=f"{table.title}: measured here") for table in own)
        beside = tuple(replace(table, note=tables.BESIDE) for table in pairs)
        yield Section(part.title, (*named, page.Fold("Beside the paper's numbers", beside)))


def _receivers(scores: pd.DataFrame, datasets: Sequence[str]) -> page.Drilldown:
    """Local and PACE at its own rank on the study's masks, receiver by receiver, over seeds."""
    here = of_rows(scores[(scores.data_seed == DATA_SEED) & (scores.model == "gcn")], [PACE])
    settings, tables_of = dict(iter(here.groupby(SETTING))), dict[tuple[str, ...], Table]()
    for place in sorted(settings, key=lambda p: (datasets.index(p[0]), p[1] != "louvain", *p[1:])):
        trials = settings[place][["local", "gains", "alphas"]]
        local, gain, alpha = (np.stack(trials[name].to_list()).mean(0) for name in trials)
        frame = pd.DataFrame({"local": 100 * local, "pace": 100 * local + gain, "gain": gain})
        frame = frame.assign(alpha=alpha, nodes=settings[place].nodes.iloc[0])
        frame["receiver"] = [f"Receiver {number}" for number in frame.index]
        key = (title(place[0]), place[1], str(place[2]))
        caption = "{}, {}, C = {}: each receiver, mean over seeds".format(*key)
        tables_of[key] = tables.frame_table(caption, frame, RECEIVER, words=0)
    return page.Drilldown(("Dataset", "Partition", "Clients (C)"), tables_of)


def _beyond(study: beyond.Beyond) -> Iterable[Section]:
    """What is beyond the paper; nothing where it was not run."""
    aims = beyond.duo_aims(study) + beyond.ridge_aims(study)
    if aims:
        made = [*beyond.duo_tables(study)[1:], *beyond.ridge_tables(study)[1:]]
        shown = [table for table in made if table.rows]
        yield Section("Beyond the paper", (page.Text(BEYOND), page.Findings(tuple(aims)), *shown))


def _field(found: Outcome) -> Iterable[Section]:
    """Every method under one protocol, to choose by partition and graph."""
    if "field" not in found.draws:
        return
    settings, core = found.draws["field"]
    choices: dict[tuple[str, ...], Table] = {}
    for (dataset, partition, clients), rows in settings.groupby(SETTING, sort=False):
        table = tables.frame_table(rows.setting.iloc[0], rows, field.SETTING_LINE[1:], words=2)
        choices[partition, title(dataset), str(clients)] = table
    drilldown = page.Drilldown(("Partition", "Graph", "Clients"), choices)
    summary = field.summary_table(settings, core)
    shown = [summary] if summary.rows else []
    yield Section(
        "The field in one table", (page.Text(FIELD), page.Code(COMMAND), *shown, drilldown)
    )
