"""A study as one page: what was run, what became of the paper's claims, every table and receiver."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from pace.datasets import DATA_SEED
from pace.io import atomic
from pace.merging import RANK
from pace.reports import (
    Block,
    Choice,
    Code,
    Column,
    Document,
    Drilldown,
    Facts,
    Figure,
    Finding,
    Findings,
    Fold,
    Section,
    Table,
    Text,
    Value,
    View,
    render_page,
)
from pace_study import beyond, tables
from pace_study.cell import Cell, confusions
from pace_study.claims import FAILS, HOLDS, UNKNOWN, WITHIN, judge_claims
from pace_study.folder import Study
from pace_study.records import Redrawn, beside, known_draws, title
from pace_study.scores import Array, accuracies
from pace_study.study import NAMES, PARTS, SIX, Part, in_order
from pace_study.tables import METRIC, gains, signed

EVERY = "all seeds"
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
}


def write_study_page(folder: Path) -> Path:
    """Write a study folder's `index.html`."""
    path = folder / "index.html"
    atomic.write(path, render_page(document(Study(folder))).encode())
    return path


def document(study: Study) -> Document:
    judged = tuple(
        Finding(f"{claim.statement} ({claim.place})", KINDS[claim.verdict], claim.evidence)
        for claim in judge_claims(study.scores, study.seeds)
    )
    redrawn = known_draws(study.scores, in_order(cell.seed for cell in study.cells))
    numbers = {part: study.numbers(part) for part in study.parts if part.table}
    compared = {part: beside(table, redrawn) for part, table in numbers.items() if len(table)}
    holding = sum(finding.verdict == "holds" for finding in judged)
    open_ = sum(finding.verdict == "within" for finding in judged)
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
                f"judged sentences of the paper hold; {open_} are compatible with one draw of the masks",
            ),
            (str(datasets), "dataset" if datasets == 1 else "datasets"),
            (str(len(study.seeds)), "seed" if len(study.seeds) == 1 else "seeds"),
            (f"{len(study.cells):,}", "cells: a method on a dataset, partition and seed"),
            (
                str(sum(int(table.difference.notna().sum()) for table in compared.values())),
                "numbers beside published ones",
            ),
        ),
        (
            _claims(study, judged),
            Section("What was run", tuple(_what_was_run(study))),
            *_figures(study.folder / "figures"),
            Section("Tables", tuple(_tables(study, compared, redrawn))),
            _receivers(study),
            *_beyond(study),
            Section("Command and versions", tuple(_provenance(study))),
        ),
    )


def _claims(study: Study, judged: tuple[Finding, ...]) -> Section:
    names = ", ".join(map(title, study.datasets))
    about = Text(
        f"Each quantitative sentence of the paper's Section 5 and appendix is judged on what was run "
        f"here: {names}; seeds {', '.join(map(str, study.seeds))}. After `draws`: the mean over redraws "
        "of the masks and, in brackets, where one more draw falls with 95 %. A sentence that fails "
        "here or on average is compatible with one draw where a draw may meet it."
    )
    return Section("Claims", (about, Findings(judged)))


def _figures(figures: Path) -> Iterable[Section]:
    found = {path.stem: path.read_bytes() for path in sorted(figures.glob("*.png"))}
    order = sorted(found, key=lambda name: [*FIGURES, name].index(name))
    blocks = [Figure(*FIGURES.get(name, (name, name)), found[name]) for name in order]
    if blocks:
        yield Section("Figures", tuple(blocks))


# --- what was run -------------------------------------------------------------------------------


def _what_was_run(study: Study) -> Iterable[Block]:
    methods = {cell.method for cell in study.cells}
    labels = [
        NAMES.get(name, {"local": "Local", "pace": "PACE"}.get(name, name)) for name in methods
    ]
    others = [name for name in SIX if name not in study.datasets and name not in study.absent]
    epochs = _distinct(how.epochs for how in study.made_with)
    pairs = [
        ("Datasets", ", ".join(map(title, study.datasets))),
        *((title(name), NO_DATA) for name in study.absent),
        *([("Not run", ", ".join(map(title, others)))] if others else []),
        ("Methods", ", ".join(sorted(labels, key=str.lower))),
        ("Seeds", ", ".join(map(str, study.seeds))),
        ("Device", _distinct(how.device for how in study.made_with)),
        ("Training steps", epochs.replace("None", "each method's own budget")),
    ]
    yield Facts(tuple(pairs))
    words = (Column("Part", numeric=False), Column("Datasets", numeric=False))
    yield Table(
        "Parts of the study",
        (*words, Column("Seeds"), Column("Cells here"), Column("Cells needed")),
        tuple(_part_row(study, part) for part in study.parts),
        "Cells needed: for these datasets and seeds, every method of the part. Parts share cells.",
    )


def _part_row(study: Study, part: Part) -> tuple[Value, ...]:
    here = {name: cells for name in part.datasets if (cells := study.of(part, name))}
    counts = {len(study.seeds_of(part, name)) for name in here}
    needed = sum(
        len(set(replace(part, datasets=(name,)).cells(list({cell.seed for cell in cells}))))
        for name, cells in here.items()
    )
    names = ", ".join(map(title, here))
    count = sum(map(len, here.values()))
    return (
        Value(part.title, part.title, below=f"pace reproduce {part.name}"),
        Value(names, names),
        Value(" to ".join(map(str, sorted({min(counts), max(counts)}))), max(counts)),
        Value(str(count), count),
        Value(str(needed), needed),
    )


def _provenance(study: Study) -> Iterable[Block]:
    if study.commands:
        yield Code("\n".join(study.commands))
    else:
        yield Text("The commands that made this folder are not recorded in it.")
    libraries = dict.fromkeys(name for how in study.made_with for name in how.versions)
    yield Facts(
        tuple(
            (name, _distinct(h.versions[name] for h in study.made_with if name in h.versions))
            for name in libraries
        )
    )


def _distinct(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(map(str, values)))


# --- tables -------------------------------------------------------------------------------------


def _tables(study: Study, compared: dict[Part, pd.DataFrame], redrawn: Redrawn) -> Iterable[Block]:
    yield tables.agreement(compared)
    for part, numbers in compared.items():
        labels, counts = set(numbers.method), set(numbers.clients)
        whole = replace(
            part,
            rows=tuple(row for row in part.rows if row.label in labels),
            clients=tuple(count for count in part.clients if count in counts),
        )
        note = _note(study, part, whole)
        own = tables.part_tables(whole, numbers, tables.show_ours, note)
        pairs = tables.part_tables(whole, numbers, tables.show_pair, tables.BESIDE)
        yield Section(
            part.title,
            (
                *(replace(table, title=f"{table.title}: measured here") for table in own),
                Fold(
                    "Beside the paper's numbers",
                    tuple(replace(t, title=f"{t.title}: beside the paper") for t in pairs),
                ),
            ),
        )
    if redrawn:
        yield Section("Redrawing the masks", (tables.mask_table(redrawn),))


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


def _beyond(study: Study) -> Iterable[Section]:
    """What is beyond the paper; nothing where it was not run."""
    found = beyond.Beyond(study.scores, study.seeds)
    for head, text, aims, made in (
        (
            "Beyond the paper",
            "pace-duo is not in the paper: a second correction from the receiver's peers, a gate with "
            "a temperature, a guard, and numbers in int8. Harmed receivers are counted on every seed; "
            "the worst receiver is a mean over seeds; bytes are against PACE's in float32.",
            beyond.duo_aims(found),
            beyond.duo_tables,
        ),
        (
            "A closed form beside Local",
            "pace-ridge and pace-ridge-sums are not in the paper: a ridge regression over everybody's "
            "training nodes, solved by the server, weighed beside Local on the receiver's validation "
            "nodes. The second needs sums over clients only.",
            beyond.ridge_aims(found),
            beyond.ridge_tables,
        ),
    ):
        if aims:
            words = {True: "holds", False: "fails"}
            findings = [Finding(a.statement, words[bool(a.holds)], a.evidence) for a in aims]
            shown = [table for table in made(found)[1:] if table.rows]
            yield Section(head, (Text(text), Findings(tuple(findings)), *shown))


# --- receivers ----------------------------------------------------------------------------------


def _receivers(study: Study) -> Section:
    about = Text(
        "Local and PACE are two readings of one trained client: α = 0, and the α it chose on its own "
        "validation nodes. Choose a setting, then a receiver, to see which test nodes move."
    )
    return Section("Receivers", (_gains(study), about, _drilldown(study)))


def _gains(study: Study) -> Table:
    """PACE against Local over seeds, and over receivers: the numbers behind the figure."""
    rows: list[list[str | Value]] = []
    for name in study.datasets:
        part = replace(PARTS["diagnostics"], datasets=(name,))
        seeds = study.seeds_of(part, name)
        for found in gains(part, study.scores, seeds).itertuples() if seeds else ():
            reach = f"{signed(found.low)} to {signed(found.high)}" if len(seeds) > 1 else "one seed"
            mean = float(found.points.mean())
            won, helped = (
                Value("{} / {} / {}".format(*counts), counts[0])
                for counts in (found.won, found.helped)
            )
            receivers = (helped, Value(signed(found.worst), found.worst))
            own = receivers if found.metric == "accuracy" else (Value(""), Value(""))
            points = (Value(signed(mean), mean), Value(reach, found.low), won)
            rows.append([found.dataset, METRIC[found.metric], *points, *own])
    heads = ("Dataset", "Metric", "PACE − Local", "95 % paired t")
    groups = (("won / tied / lost", "Seeds"), ("helped / tied / harmed", "Receivers"))
    return Table.of(
        "PACE against Local at C = 10, in points",
        (*heads, *(Column(*pair) for pair in (*groups, ("worst", "Receivers")))),
        rows,
        note="A receiver counts once for each seed; a difference of 0.01 point or less is a tie. "
        "The worst receiver is the lowest mean over seeds.",
        names=2,
        words=0,
    )


def _drilldown(study: Study) -> Drilldown:
    """Every setting in which PACE ran at its own rank, on the study's masks."""
    settings: dict[tuple[str, str, int], dict[int, Cell]] = {}
    for cell in study.cells:
        if (cell.method, cell.rank, cell.data_seed, cell.model) == ("pace", RANK, DATA_SEED, "gcn"):
            place = cell.dataset, cell.partition, cell.clients
            settings.setdefault(place, {})[cell.seed] = cell
    order = sorted(
        settings, key=lambda p: (study.datasets.index(p[0]), p[1] != "louvain", p[1], p[2])
    )
    choices = []
    for place in order:
        by_seed = settings[place]
        choices.append(_choice(study, [by_seed[seed] for seed in in_order(by_seed)]))
    return Drilldown(("Dataset", "Partition", "Clients (C)"), tuple(choices))


def _choice(study: Study, cells: Sequence[Cell]) -> Choice:
    first = cells[0]
    rows = [study.store.rows[cell] for cell in cells]
    clients = len(rows[0]["alphas"])
    alphas = np.array([row["alphas"] for row in rows])  # seed, receiver
    local, ours = (
        np.stack([confusions(row[reading], clients) for row in rows])
        for reading in ("local", "adopted")
    )  # seed, receiver, class, class
    seeds = [str(cell.seed) for cell in cells]
    heads = ("Test nodes", "Local (%)", "PACE (%)", "Gain", "Mean α")
    columns = (
        Column("Receiver", numeric=False),
        *map(Column, heads),
        *(Column(seed, "α by seed") for seed in seeds),
    )
    keys = (title(first.dataset), first.partition, str(first.clients))
    lines, views = [], []
    for receiver in range(clients):
        before, after, own = local[:, receiver], ours[:, receiver], alphas[:, receiver]
        lines.append(_receiver_row(f"Receiver {receiver}", before, after, own))
        shown = [_view(seed, before[[at]], after[[at]], own[[at]]) for at, seed in enumerate(seeds)]
        views.append((_view(EVERY, before, after, own), *shown) if len(seeds) > 1 else tuple(shown))
    caption = f"{keys[0]}, {keys[1]}, C = {keys[2]}: each receiver, mean over seeds"
    return Choice(keys, Table(caption, columns, tuple(lines)), tuple(views))


def _receiver_row(name: str, local: Array, ours: Array, alphas: Array) -> tuple[Value, ...]:
    nodes = int(local[0].sum())
    before, after = (100 * float(accuracies(counts).mean()) for counts in (local, ours))
    return (
        Value(name, name),
        Value(str(nodes), nodes),
        Value(f"{before:.2f}", before),
        Value(f"{after:.2f}", after),
        Value(signed(after - before), after - before),
        *(Value(f"{a:.3f}", a, share=a) for a in (float(alphas.mean()), *alphas.tolist())),
    )


def _view(name: str, local: Array, ours: Array, alphas: Array) -> View:
    """A receiver's confusion matrices, of some seeds together."""
    pooled = [counts.sum(0) for counts in (local, ours)]
    before, after = (100 * float(accuracies(counts)) for counts in pooled)
    several = f" in {len(alphas)} seeds" if len(alphas) > 1 else ""
    text = (
        f"{'Mean α' if several else 'α'} {alphas.mean():.3f}. Local {before:.2f} %, PACE {after:.2f} "
        f"%: {signed(after - before)} points on {int(pooled[0].sum())} test nodes{several}."
    )
    texts = [";".join(" ".join(map(str, row)) for row in counts.tolist()) for counts in pooled]
    return View(name, text, {"Local": texts[0], "PACE": texts[1]})
