"""A study as one page: what was run, what became of the paper's claims, every table and receiver."""

import json
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from pace import reports as page
from pace.datasets import DATA_SEED
from pace.io import atomic
from pace.reports import Block, Document, Section, Table
from pace_study import beyond, content, field, tables
from pace_study.claims import FAILS, HOLDS, UNKNOWN, WITHIN, judge_claims
from pace_study.folder import Study
from pace_study.outcome import Outcome
from pace_study.scores import SETTING, of_rows
from pace_study.study import PACE, PARTS
from pace_study.tables import title

NO_DATA = "not run: data not available"
KINDS = {HOLDS: "holds", WITHIN: "within", FAILS: "fails", UNKNOWN: "absent"}
WORDS = tomllib.loads(content("page.toml"))
RECEIVER = ("receiver", "nodes", "local", "pace", "gain", "mean_alpha")


def write_study_page(folder: Path, seeds: Sequence[int]) -> Path:
    """Write `index.html`: everything that a study's folder holds, over these seeds."""
    path = folder / "index.html"
    atomic.write(path, page.render_page(document(Study(folder), seeds)).encode())
    return path


def document(study: Study, seeds: Sequence[int]) -> Document:
    outcome = Outcome([*study.parts, PARTS["field"]], study.store, seeds)
    findings = [
        page.Finding(f"{claim.text} ({claim.place})", KINDS[claim.verdict], claim.evidence)
        for claim in judge_claims(outcome.scores, seeds)
    ]
    verdicts = [finding.verdict for finding in findings]
    holds, judgeable = verdicts.count("holds"), len(findings) - verdicts.count("absent")
    within = f"{verdicts.count('within')} are compatible with one draw of the masks"
    numbers = sum(int(table.difference.notna().sum()) for table in outcome.numbers.values())
    drawn = {
        study.folder / f"figures/{name}.png": words for name, words in WORDS["figures"].items()
    }
    pictures = ((path.read_bytes(), words) for path, words in drawn.items() if path.is_file())
    figures = tuple(page.Figure(png=png, **words) for png, words in pictures)
    return Document(
        WORDS["title"],
        WORDS["lead"],
        (
            (f"{holds} of {judgeable}", f"judged sentences of the paper hold; {within}"),
            (f"{len(study.cells):,}", "cells: a method on a dataset, partition and seed"),
            (str(numbers), "numbers beside published ones"),
        ),
        (
            Section("Claims", (page.Text(WORDS["claims"]), page.Findings(tuple(findings)))),
            Section("What was run", tuple(_what_was_run(study, seeds))),
            Section("Figures", figures),
            Section("Tables", tuple(_tables(outcome))),
            Section("Receivers", (_receivers(outcome.scores, study.datasets),)),
            *_beyond(outcome.beyond),
            *_field(outcome),
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


def _tables(outcome: Outcome) -> Iterable[Block]:
    yield tables.agreement(outcome.numbers)
    for part, numbers in outcome.numbers.items():
        ours, pairs = (
            tables.part_tables(part, numbers, show)
            for show in (tables.show_ours, tables.show_beside)
        )
        named = (replace(table, title=f"{table.title}: measured here") for table in ours)
        beside = tuple(replace(table, note=WORDS["beside"]) for table in pairs)
        yield Section(part.title, (*named, page.Fold("Beside the paper's numbers", beside)))


def _receivers(scores: pd.DataFrame, datasets: Sequence[str]) -> page.Drilldown:
    """Local and PACE at its own rank on the study's masks, receiver by receiver, over seeds."""
    rows = of_rows(scores[(scores.data_seed == DATA_SEED) & (scores.model == "gcn")], [PACE])
    rows = rows.assign(order=rows.dataset.map(datasets.index), other=rows.partition != "louvain")
    rows = rows.sort_values(["order", "other", "partition", "clients"], kind="stable")
    choices: dict[tuple[str, ...], Table] = {}
    for (dataset, partition, clients), trials in rows.groupby(SETTING, sort=False):
        arrays = (trials[name].to_list() for name in ("local", "gains", "alphas"))
        local, gain, alpha = (np.stack(values).mean(0) for values in arrays)
        frame = pd.DataFrame({"local": 100 * local, "pace": 100 * local + gain, "gain": gain})
        frame = frame.assign(mean_alpha=alpha, nodes=trials.nodes.iloc[0])
        frame["receiver"] = [f"Receiver {number}" for number in frame.index]
        key = (title(dataset), partition, str(clients))
        caption = "{}, {}, C = {}: each receiver, mean over seeds".format(*key)
        choices[key] = tables.frame_table(caption, frame, RECEIVER, words=0)
    return page.Drilldown(("Dataset", "Partition", "Clients (C)"), choices)


def _beyond(study: beyond.Beyond) -> Iterable[Section]:
    """What is beyond the paper; nothing where it was not run."""
    aims = beyond.judged_aims("duo", study) + beyond.judged_aims("ridge", study)
    if aims:
        rest = [*beyond.duo_tables(study)[1:], *beyond.ridge_tables(study)[1:]]
        findings = page.Findings(tuple(aims))
        yield Section(
            "Beyond the paper", (page.Text(WORDS["beyond"]), findings, *tables.filled(rest))
        )


def _field(outcome: Outcome) -> Iterable[Section]:
    """Every method under one protocol, to choose by partition and graph."""
    if "field" not in outcome.draws:
        return
    settings, core = outcome.draws["field"]
    choices: dict[tuple[str, ...], Table] = {}
    for (dataset, partition, clients), rows in settings.groupby(SETTING, sort=False):
        table = tables.frame_table(rows.setting.iloc[0], rows, field.SETTING_LINE[1:], words=2)
        choices[partition, title(dataset), str(clients)] = table
    drilldown = page.Drilldown(("Partition", "Graph", "Clients"), choices)
    shown = tables.filled([field.summary_table(settings, core)])
    words = page.Text(WORDS["field"]), page.Code(WORDS["command"])
    yield Section("The field in one table", (*words, *shown, drilldown))
