"""A site's own result for people, as one document: the page index.html, the model card README.md.

There are counts on the page, and with few nodes a count is about few people: it stays at the site.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import torch

from pace import reports
from pace.gates import promises
from pace.io import many
from pace.jobs import SMALL, Job, explain, roll_sentences
from pace.protocol import layouts
from pace.reports import Block, Cell, Column, Facts, Section, Table, Text, Value
from pace.runtimes.files.outcome import MaskScores, Outcome, ReadingScores, findings
from pace.task import calibration_error

NAMES = {
    "baseline": "Logistic regression",
    "local": "Local (this site alone)",
    "external": "External (what came back)",
    "adopted": "Adopted (what is used)",
}
COUNTED = {"test": "Test nodes", "validation": "Validation nodes (there are no test nodes)"}
READ = "Test nodes are rows that neither training nor any choice has seen."
USUAL = (
    "Nothing about it was unusual, and nothing was left out of it; what is of another kind than Local "
    "is not compared with it."
)
COUNTS = ("By class", "Calibration", "Confusion matrix")  # not in README.md
BARS = (
    "A bar shows how often the model is right among nodes it is about so sure of, the line across it "
    "how sure it is of them on average, the number below how many they are. ECE: their mean distance."
)
MOST_CLASSES = 60  # whose confusion matrix is shown
MATRIX = "A row is a true class, a column what its nodes are called; outlined is right."
NONE = Value("–", mark="absent")


def model_document(job: Job, outcome: Outcome) -> reports.Document:
    """What was adopted and why, by class, and what left the site."""
    masks = {"test": outcome.test, "validation": outcome.validation}
    scored = {mask: scores for mask, scores in masks.items() if scores.nodes}
    sections: dict[str, Iterable[Block]] = {
        "The verdict": (reports.Findings(tuple(findings(outcome))), Text(READ)),
        "What was adopted, and why": _adopted(job, outcome, scored),
        **_by_class(job, scored),
        "What came back": map(Text, outcome.noticed or [USUAL]),
        "Who was in": _roll(job, outcome),
        "Where it comes from": _origin(job, outcome),
    }
    return reports.Document(
        f"PACE: the model of {outcome.name}",
        f"{outcome.decision}. Job {job.name}, adopted {outcome.adopted[:10]}.",
        tuple(_headline(outcome, scored)),
        tuple(Section(title, tuple(blocks)) for title, blocks in sections.items()),
    )


def model_card(document: reports.Document) -> str:
    """README.md: the document without what counts nodes by class."""
    sections = tuple(section for section in document.sections if section.title not in COUNTS)
    return replace(document, sections=sections).markdown()


def score_table(title: str, scores: MaskScores) -> Table:
    """One row a reading: scores in percent, then the NLL."""
    rows: list[list[Cell]] = []
    for name, reading in scores.readings.items():
        shares = (reading.accuracy, reading.weighted_f1, reading.macro_f1_present)
        losses = (reading.nll, reading.calibrated_nll)
        percents = (_percent(share, "%") for share in shares)
        nlls = (NONE if nll is None else Value(f"{nll:.4f}", nll) for nll in losses)
        rows.append([NAMES[name], *percents, *nlls])
    heads = ["Reading", "Accuracy", "W-F1", "Macro F1", "NLL", "Calibrated"]
    present = sum(map(any, scores.local.confusion))
    partial = scores.nodes and present < scores.classes
    note = f"Macro F1 is over the {present} classes that occur here." if partial else ""
    return Table.of(title, heads, rows, note=note, words=0)


def _percent(score: float | None, unit: str = "") -> Value:
    if score is None or math.isnan(score):
        return NONE
    return Value(f"{100 * score:.1f}{unit}", score)


def _headline(outcome: Outcome, scored: Mapping[str, MaskScores]) -> Iterator[tuple[str, str]]:
    for mask, scores in list(scored.items())[:1]:
        for name, reading in reversed(scores.readings.items()):
            if name != "external":
                yield f"{100 * (reading.accuracy or 0):.1f} %", f"of {mask} nodes: {NAMES[name]}"
    yield f"{100 * outcome.alpha:.0f} %", "of what is used is what came back (α, the rest is Local)"
    if outcome.roll:
        yield str(len(outcome.roll.merged)), "sites were merged"


def _adopted(job: Job, outcome: Outcome, scored: Mapping[str, MaskScores]) -> Iterator[Block]:
    names = ("Local", *(external.name for external in layouts.blank_externals(job.federation)))
    parts = list(zip(names, outcome.weights, strict=True))
    formula = f"(1 - α) Local + α {names[1]}"
    if len(parts) > 2:
        formula = " + ".join(f"{weight:.4f} ({name})" for name, weight in parts if weight)
    yield Text(
        f"Local was trained on this site's graph only. External is what the server's return makes of "
        f"it. What is used adds their logits, {formula}; the weights were chosen on this site's "
        "validation nodes."
    )
    nodes = "labelled nodes that neither was fitted to" if outcome.rehearsed else "validation nodes"
    statement = f"On this site's {nodes}, what is used has no higher NLL than Local."
    verdict, evidence = "absent", "There are no validation nodes, so Local was kept."
    readings = outcome.validation.readings
    losses = {name: reading.nll for name, reading in readings.items() if reading.nll is not None}
    if losses := outcome.rehearsed or losses:
        values = ", ".join(f"{name} {nll:.4f}" for name, nll in losses.items())
        evidence = f"NLL on {many(outcome.validation.nodes, 'node')}: {values}."
        if outcome.rehearsed:
            evidence = f"NLL of models fitted on either half, on the other: {values}."
        if not promises(job.federation.method.gate):
            evidence += " The method makes no such promise."
        verdict = "holds" if losses["adopted"] <= losses["local"] else "fails"
    yield reports.Findings((reports.Finding(statement, verdict, evidence),))
    for mask, scores in scored.items():
        yield score_table(f"On {many(scores.nodes, f'{mask} node')}", scores)
    yield Text(
        "F1: accuracy by class, with false alarms counted (W-F1 weighs classes by their nodes). NLL "
        "(negative log-likelihood): how surprised the model is by the true class; 0 is never, a coin's "
        "is 0.69. Calibrated: of the probabilities in the predictions, after logits are divided by "
        f"{outcome.temperature:.2f} (chosen on the validation nodes)."
    )


def _roll(job: Job, outcome: Outcome) -> Iterator[Block]:
    yield from map(Text, roll_sentences(outcome.roll, job))
    roll = outcome.roll
    if roll and roll.brought:
        rows = [(name, f"{gain:+.4f}") for name, gain in roll.brought.items()]
        note = "How much the squared loss of a label of yours would rise without the site's upload."
        yield Table.of("What the others bring you", ["Site", "Gain"], rows, note=note, words=0)


def _origin(job: Job, outcome: Outcome) -> Iterator[Block]:
    tables = "any.graph" if job.codebook is None else "--nodes new.csv --edges new_links.csv"
    yield reports.Code(f"pace client predict THIS_FOLDER {tables} --out predictions.csv")
    drawn = ", ".join(f"{100 * share:.0f} %" for share in outcome.drawn or ())
    origin = {
        **explain.job_facts(job),
        "split": f"drawn by PACE, by class: {drawn}" if drawn else "the graph's own",
        "upload, return": f"{outcome.upload}, SHA-256 {outcome.returned}",
    }
    yield Facts((*origin.items(), *outcome.versions.items()))
    yield Text(
        f"{outcome.name}.egress.html says what left the site. Scores on other populations are "
        "unknown until measured. The weights were learnt from this site's data, and a small count is "
        "about few of its nodes: keep the folder where the data are."
    )


def _by_class(job: Job, scored: Mapping[str, MaskScores]) -> dict[str, tuple[Block, ...]]:
    """The sections that count labelled nodes by class and by how sure the model is."""
    if not scored:
        text = "There are no labelled validation or test nodes at this site: nothing was counted."
        return {"By class": (Text(text),)}
    mask, scores = next(iter(scored.items()))
    names = job.classes or tuple(f"class {label}" for label in range(job.model.classes))
    readings = {"Local": scores.local, "Adopted": scores.adopted}
    calibration, confusion = [], []
    for name, reading in readings.items():
        title = f"{name}: ECE {100 * calibration_error(reading.bins):.1f} points"
        calibration.append(reports.Reliability(title, tuple(reading.bins)))
        confusion.append(reports.Confusion(name, names, reading.confusion))
    nodes = COUNTED[mask]
    charts = (Text(f"{nodes}. {BARS}"), reports.Beside(tuple(calibration)))
    matrices: tuple[Block, ...] = (Text(f"{nodes}. {MATRIX}"), reports.Beside(tuple(confusion)))
    if len(names) > MOST_CLASSES:
        matrices = (Text("There are too many classes to draw it: model.json has the counts."),)
    table = _class_table(names, readings, nodes)
    return {"By class": (table,), "Calibration": charts, "Confusion matrix": matrices}


def _class_table(names: Sequence[str], readings: Mapping[str, ReadingScores], nodes: str) -> Table:
    matrices = torch.tensor([reading.confusion for reading in readings.values()]).double()
    hits, true, called = matrices.diagonal(dim1=1, dim2=2), matrices.sum(2), matrices.sum(1)
    # Local and Adopted of each, by class; not a number where a class has no such node
    scores = torch.cat([hits / true, hits / called, 2 * hits / (true + called)]).T.tolist()
    classes = list(zip(names, true[0].long().tolist(), scores, strict=True))
    note = "Recall: of the nodes of a class, those called so. Precision: of the nodes called so, "
    note += "those of the class. – where there are none."
    if few := [name for name, count, _ in classes if 0 < count < SMALL]:
        note += f" Fewer than {SMALL} nodes, so their percentages say little: {', '.join(few)}."
    heads = [Column(name, group) for group in ("Recall", "Precision", "F1") for name in readings]
    rows = [[name, count, *map(_percent, by_class)] for name, count, by_class in classes]
    title = f"By class, in percent. {nodes}"
    return Table.of(title, ["Class", "Nodes", *heads], rows, note=note, words=0)
