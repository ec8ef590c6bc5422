"""A site's own result for people, as one document: the page index.html, the model card README.md.

There are counts on the page, and with few nodes a count is about few people: it stays at the site.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import torch

from pace import reports
from pace.gates import promises
from pace.io import many
from pace.jobs import SMALL, Job, explain, message_sizes, roll_sentences
from pace.protocol import layouts
from pace.reports import Block, Cell, Column, Facts, Section, Table, Text, Value
from pace.runtimes.files.egress import item_table
from pace.runtimes.files.outcome import MaskScores, Outcome, ReadingScores, findings
from pace.task import calibration_error

NAMES = {
    "baseline": "Logistic regression",
    "local": "Local (this site alone)",
    "external": "External (what came back)",
    "adopted": "Adopted (what is used)",
}
COMPARED = ("Local", "Adopted")
COUNTED = {"test": "Test nodes", "validation": "Validation nodes (there are no test nodes)"}
USES = {
    "test": "neither training nor the choice of weights has seen them",
    "validation": "the weights were chosen on them",
}
REFITTED = "Those in use are fitted to both halves, training and validation nodes."
READ = (
    "A node is a row of your table. Test nodes are those that neither training nor any choice has "
    "seen; the interval says what other draws of as many nodes would have shown."
)
USUAL = (
    "Nothing about it was unusual, and nothing was left out of it; what is of another kind than Local "
    "is not compared with it."
)
COUNTS = (  # sections that count nodes by class or list the upload
    *("Which nodes are counted", "By class", "Calibration", "Confusion matrix"),
    "What left this site",
)
MATRIX = 60  # classes whose confusion matrix is shown
NONE = Value("–", mark="absent")


def model_document(job: Job, outcome: Outcome) -> reports.Document:
    """What was adopted and why, by class, and what left the site."""
    masks = {"test": outcome.test, "validation": outcome.validation}
    scored = {mask: scores for mask, scores in masks.items() if scores.nodes}
    sections: dict[str, Iterable[Block]] = {
        "The verdict": (reports.Findings(tuple(findings(outcome))), Text(READ)),
        "What was adopted, and why": _adopted(job, outcome, scored),
        "Which nodes are counted": _nodes(scored, outcome),
        **_by_class(job, scored),
        "What came back": map(Text, outcome.noticed or [USUAL]),
        "Who was in": _roll(job, outcome),
        "What left this site": _sent(job, outcome),
        "Where it comes from": _origin(job, outcome),
    }
    return reports.Document(
        f"PACE: the model of {outcome.name}",
        f"{outcome.decision}. Job {job.name}, adopted {outcome.adopted[:10]}.",
        tuple(_headline(outcome, scored)),
        tuple(Section(title, tuple(blocks)) for title, blocks in sections.items()),
        flows=True,
    )


def model_card(document: reports.Document) -> str:
    """README.md: the document without what counts nodes by class or lists the upload."""
    sections = tuple(section for section in document.sections if section.title not in COUNTS)
    return replace(document, sections=sections).markdown()


def score_table(title: str, scores: MaskScores) -> Table:
    """One row a reading: scores in percent, then the NLL."""
    rows: list[list[Cell]] = []
    for name, reading in scores.readings.items():
        shares = (reading.accuracy, reading.weighted_f1, reading.macro_f1_present)
        losses = (
            NONE if nll is None else Value(f"{nll:.4f}", nll)
            for nll in (reading.nll, reading.calibrated_nll)
        )
        rows.append([NAMES[name], *(_percent(share, "%") for share in shares), *losses])
    heads = ["Reading", "Accuracy", "W-F1", "Macro F1", "NLL", "Calibrated"]
    note = ""
    if scores.nodes and scores.classes_present < scores.classes:
        note = f"Macro F1 is over the {scores.classes_present} classes that occur here."
    return Table.of(title, heads, rows, note=note, words=0)


def _percent(score: float | None, unit: str = "") -> Value:
    if score is None or math.isnan(score):
        return NONE
    return Value(f"{100 * score:.1f}{unit}", score)


def _headline(outcome: Outcome, scored: Mapping[str, MaskScores]) -> Iterator[tuple[str, str]]:
    for mask, scores in list(scored.items())[:1]:
        readings = {"adopted": "with what is used", "local": "with Local, this site alone"}
        readings["baseline"] = "with a logistic regression, without links"
        for name, words in readings.items():
            if (reading := scores.readings.get(name)) is not None:
                yield f"{100 * (reading.accuracy or 0):.1f} %", f"of {mask} nodes are right {words}"
    yield f"{100 * outcome.alpha:.0f} %", "of what is used is what came back (α, the rest is Local)"
    if roll := outcome.roll:
        parties = len(roll.merged) + len(roll.refused) + len(roll.missing)
        yield f"{len(roll.merged)} of {parties}", "sites were merged"


def _adopted(job: Job, outcome: Outcome, scored: Mapping[str, MaskScores]) -> Iterator[Block]:
    names = ("Local", *layouts.external_names(job.federation))
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
            evidence = f"NLL of models fitted on either half, on the other: {values}. {REFITTED}"
        if not promises(job.federation.method.gate):
            evidence += " The method makes no such promise."
        verdict = "holds" if losses["adopted"] <= losses["local"] else "fails"
    yield reports.Findings((reports.Finding(statement, verdict, evidence),))
    for mask, scores in scored.items():
        yield score_table(f"On {many(scores.nodes, f'{mask} node')}", scores)
    yield Text(
        "Accuracy: the share of nodes that are called right. F1: the same by class, with false alarms "
        "counted (W-F1 weighs classes by their nodes). NLL (negative log-likelihood): how surprised "
        "the model is by the true class; 0 is "
        "never, a coin's is 0.69. Calibrated: the NLL of the probabilities in the predictions, after "
        f"logits are divided by {outcome.temperature:.2f} (chosen on the validation nodes). α: the "
        "weight of what came back. ECE: by how much it is surer than it is right, on average."
    )


def _nodes(scored: Mapping[str, MaskScores], outcome: Outcome) -> Iterator[Block]:
    pairs = []
    for mask, use in USES.items():
        count = scored[mask].nodes if mask in scored else 0
        more = ", and models were fitted to them" if outcome.rehearsed and mask != "test" else ""
        words = f"{use}{more}" if count else "none"
        pairs.append((f"{mask.capitalize()}: {many(count, 'node')}", words))
    trained = f"Training: {many(outcome.trained_on, 'node')}"
    yield Facts((*pairs, (trained, "Local was trained on them; no score here counts them")))
    if outcome.drawn is not None:
        shares = ", ".join(f"{100 * share:.0f} %" for share in outcome.drawn)
        yield Text(
            "The table has no split of its own: which nodes are for training, validation and test "
            f"({shares}) was drawn by PACE from a fixed seed, by class."
        )
    yield Text(
        "A test score is an estimate for nodes like these; the validation score is a little too "
        "good for what is used, since its weights were chosen there."
    )


def _roll(job: Job, outcome: Outcome) -> Iterator[Block]:
    yield from map(Text, roll_sentences(outcome.roll, job))
    roll = outcome.roll
    if roll and roll.brought:
        rows = [(name, f"{gain:+.4f}") for name, gain in roll.brought.items()]
        note = "How much the squared loss of a label of yours would rise without the site's upload."
        yield Table.of("What the others bring you", ["Site", "Gain"], rows, note=note, words=0)


def _sent(job: Job, outcome: Outcome) -> Iterator[Block]:
    sent, sizes = outcome.sent, message_sizes(job)
    whole, returned = sent.frame + sent.signature, sizes.return_frame + sizes.signature
    share = f" ({100 * whole / sent.dense:.0f} % of the model sent whole)" if sent.dense else ""
    yield Facts((("Sent, once", f"{whole:,} bytes{share}"), ("Came back", f"{returned:,} bytes")))
    yield item_table(sent)
    yield from map(Text, sent.sentences)


def _origin(job: Job, outcome: Outcome) -> Iterator[Block]:
    uses = ["predict THIS_FOLDER any.graph --out predictions.csv", "evaluate THIS_FOLDER any.graph"]
    if job.codebook is not None:
        tables = "--nodes new.csv --edges new_links.csv"
        uses.append(f"predict THIS_FOLDER {tables} --out predictions.csv")
    yield reports.Code("\n".join(f"pace client {use}" for use in uses))
    facts = explain.job_facts(job)
    origin = {
        "Job": job.digest,
        **{name.capitalize(): facts[name] for name in ("method", "model", "start", "training")},
        "Classes": ", ".join(job.classes) or str(job.model.classes),
        "Upload, return": f"{outcome.upload}, SHA-256 {outcome.returned}",
    }
    yield Facts((*origin.items(), *outcome.versions.items()))
    yield Text(
        "Made for this site's own graph and graphs like it: the same features in the same order, nodes "
        "from the same population. Scores elsewhere are unknown until measured. The weights were "
        "learnt from this site's data, and a small count is about few of its nodes: keep the folder "
        "where the data are, or share it as you would share them."
    )


def _by_class(job: Job, scored: Mapping[str, MaskScores]) -> dict[str, Iterator[Block]]:
    """The sections that count labelled nodes by class and by how sure the model is."""
    if not scored:
        text = "There are no labelled validation or test nodes at this site: nothing was counted."
        return {"By class": iter([Text(text)])}
    mask, scores = next(iter(scored.items()))
    names = job.classes or tuple(f"class {label}" for label in range(job.model.classes))
    readings = (scores.local, scores.adopted)
    return {
        "By class": _classes(names, readings, COUNTED[mask]),
        "Calibration": _calibration(readings, COUNTED[mask]),
        "Confusion matrix": _confusions(names, readings, COUNTED[mask]),
    }


def _classes(
    names: Sequence[str], readings: Sequence[ReadingScores], nodes: str
) -> Iterator[Block]:
    matrices = torch.tensor([reading.confusion for reading in readings]).double()
    hits, true, called = matrices.diagonal(dim1=1, dim2=2), matrices.sum(2), matrices.sum(1)
    # Local and Adopted of each, by class; not a number where a class has no such node
    scores = torch.cat([hits / true, hits / called, 2 * hits / (true + called)]).T.tolist()
    classes = list(zip(names, true[0].long().tolist(), scores, strict=True))
    note = (
        "Recall: of the nodes of a class, those called so. Precision: of the nodes called so, those of "
        "the class. – where there are none."
    )
    if few := [name for name, count, _ in classes if 0 < count < SMALL]:
        note += f" Fewer than {SMALL} nodes, so their percentages say little: {', '.join(few)}."
    heads = [Column(name, group) for group in ("Recall", "Precision", "F1") for name in COMPARED]
    rows = [[name, count, *map(_percent, by_class)] for name, count, by_class in classes]
    title = f"By class, in percent. {nodes}"
    yield Table.of(title, ["Class", "Nodes", *heads], rows, note=note, words=0)


def _calibration(readings: Sequence[ReadingScores], nodes: str) -> Iterator[Block]:
    yield Text(
        f"{nodes}. A bar shows how often the model is right among nodes it is about so sure of, "
        "the line across it how sure it is of them on average, and the number below how many "
        "they are. Line and bar end at the same height, on the broken line, if the "
        "probabilities are what they say. ECE is the mean distance of the two."
    )
    charts = []
    for name, reading in zip(COMPARED, readings, strict=True):
        title = f"{name}: ECE {100 * calibration_error(reading.bins):.1f} points"
        charts.append(reports.Reliability(title, tuple(reading.bins)))
    yield reports.Beside(tuple(charts))


def _confusions(
    names: tuple[str, ...], readings: Sequence[ReadingScores], nodes: str
) -> Iterator[Block]:
    if len(names) > MATRIX:
        yield Text(f"With {len(names)} classes a matrix is too large to read: model.json has it.")
        return
    yield Text(
        f"{nodes}. A row is a true class, a column what its nodes are called; outlined is right."
    )
    pairs = zip(COMPARED, readings, strict=True)
    yield reports.Beside(tuple(reports.Confusion(title, names, r.confusion) for title, r in pairs))
