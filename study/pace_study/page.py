"""A study as one page: what was run, what became of the paper's claims, every table and receiver."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pace.io import atomic
from pace.reports import (
    Block,
    Document,
    Figure,
    Finding,
    Findings,
    Fold,
    Section,
    Text,
    render_page,
)
from pace_study import folder, page_about, page_beyond, page_receivers, page_tables
from pace_study.checks import FAILS, HOLDS, UNKNOWN, WITHIN
from pace_study.claims import claims
from pace_study.compare import Twin, twins
from pace_study.draws import Redrawn, known_draws
from pace_study.folder import Study
from pace_study.page_about import NO_DATA
from pace_study.records import title
from pace_study.study import Part, in_order

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
}


def write(path: Path) -> Path:
    """Write a study folder's `index.html`."""
    made = path / "index.html"
    atomic.write(made, render_page(document(folder.read(path), path / "figures")).encode())
    return made


def document(study: Study, figures: Path) -> Document:
    judged = tuple(
        Finding(f"{claim.statement} ({claim.place})", KINDS[claim.verdict], claim.evidence)
        for claim in claims(study.store, study.seeds)
    )
    redrawn = known_draws(study.store, in_order(cell.seed for cell in study.cells))
    numbers = {part: study.records(part) for part in study.parts if part.table}
    compared = {part: twins(found, redrawn) for part, found in numbers.items() if found}
    holding = sum(finding.verdict in ("holds", "within") for finding in judged)
    looked = sum(finding.verdict != "absent" for finding in judged)
    datasets = len(study.datasets)
    return Document(
        "PACE: the study, reproduced",
        "One-shot personalized federated graph learning: one upload, one return, Local always kept. "
        "This page holds what was run here, the paper's claims with the evidence for or against "
        "them, every table beside the published numbers, and every receiver.",
        (
            (
                f"{holding} of {looked}",
                "judged sentences of the paper hold, here or on another draw of the masks",
            ),
            (str(datasets), "dataset" if datasets == 1 else "datasets"),
            (str(len(study.seeds)), "seed" if len(study.seeds) == 1 else "seeds"),
            (f"{len(study.cells):,}", "cells: a method on a dataset, partition and seed"),
            (
                str(sum(t.difference is not None for each in compared.values() for t in each)),
                "numbers beside published ones",
            ),
        ),
        (
            _claims(study, judged),
            Section("What was run", tuple(page_about.what_was_run(study))),
            *_figures(figures),
            Section("Tables", tuple(_tables(study, compared, redrawn))),
            _receivers(study),
            *page_beyond.sections(study),
            Section("Command and versions", tuple(page_about.provenance(study))),
        ),
    )


def _claims(study: Study, judged: tuple[Finding, ...]) -> Section:
    names = ", ".join(map(title, study.datasets))
    about = Text(
        f"Each quantitative sentence of the paper's Section 5 and appendix is judged on what was run "
        f"here: {names}; seeds {', '.join(map(str, study.seeds))}. After `draws`: the mean over redraws "
        "of the masks and, in brackets, where one more draw falls with 95 %. A sentence holds within "
        "the draw's spread if it fails here or on average, and a draw may meet it."
    )
    return Section("Claims", (about, Findings(judged)))


def _figures(figures: Path) -> Iterable[Section]:
    found = {path.stem: path.read_bytes() for path in sorted(figures.glob("*.png"))}
    known = [name for name in FIGURES if name in found]
    blocks = [Figure(*FIGURES[name], found[name]) for name in known]
    blocks += [Figure(name, name, png) for name, png in found.items() if name not in FIGURES]
    if blocks:
        yield Section("Figures", tuple(blocks))


def _tables(study: Study, compared: dict[Part, list[Twin]], redrawn: Redrawn) -> Iterable[Block]:
    yield page_tables.agreement({part.title: found for part, found in compared.items()})
    for part, found in compared.items():
        records = [twin.ours for twin in found]
        whole = page_tables.filled(part, records)
        own = page_tables.ours(whole, records, _note(study, part, whole))
        pairs = page_tables.beside(whole, records, found)
        yield Section(part.title, (*own, Fold("Beside the paper's numbers", tuple(pairs))))
    if redrawn:
        yield Section("Redrawing the masks", (page_tables.mask_table(redrawn),))


def _note(study: Study, part: Part, whole: Part) -> str:
    counts = {title(name): len(study.seeds_of(part, name)) for name in part.datasets}
    counts = {name: count for name, count in counts.items() if count}
    seeds = set(counts.values())
    each = ", ".join(f"{name} {count}" for name, count in counts.items())
    over = f"{seeds.pop()} seeds" if len(seeds) == 1 else f"seeds: {each}"
    missing = [row.label for row in part.rows if row not in whole.rows]
    words = [f"Mean ± sample standard deviation over {over}; best bold, second underlined."]
    words += [f"Not run: {', '.join(missing)}."] if missing else []
    words += [f"{title(name)}: {NO_DATA}." for name in study.absent if name in part.datasets]
    return " ".join(words)


def _receivers(study: Study) -> Section:
    about = Text(
        "Local and PACE are two readings of one trained client: α = 0, and the α it chose on its own "
        "validation nodes. Choose a setting, then a receiver, to see which test nodes move."
    )
    return Section(
        "Receivers", (page_receivers.gains(study), about, page_receivers.drilldown(study))
    )
