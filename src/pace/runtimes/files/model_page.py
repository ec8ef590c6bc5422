"""A site's own result for people: the model card (README.md) and the page (index.html).

There are counts on the page, and with few nodes a count is about few people: it stays at the site.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from pace.gates.gate import promises
from pace.io.terminal import many
from pace.io.text import Medium, shown
from pace.jobs.disclosure import SMALL
from pace.jobs.job import Job
from pace.jobs.received import notable_sentences
from pace.jobs.roll import roll_sentences
from pace.models import in_words
from pace.protocol.steps import external_names
from pace.reports import (
    Beside,
    Block,
    Change,
    Changes,
    Code,
    Column,
    Confusion,
    Document,
    Facts,
    Finding,
    Findings,
    Fold,
    Mark,
    Reliability,
    Section,
    Table,
    Text,
    Value,
    render_page,
)
from pace.runtimes.files.outcome import Counts, MaskScores, Outcome, Result
from pace.task import Bin, calibration_error, f1

HEADS = ("Reading", "Accuracy", "Weighted F1", "Macro F1", "NLL")
TABLES = """\
pace client predict THIS_FOLDER --nodes new.csv --edges new_links.csv --out predictions.csv
"""
NAMES = {
    "local": "Local (this site alone)",
    "external": "External (what came back)",
    "adopted": "Adopted (what is used)",
}
COMPARED = {"local": "Local", "adopted": "Adopted"}
NODES = {
    "test": "neither training nor the choice of weights has seen them",
    "validation": "the weights were chosen on them",
}
COUNTED = {"test": "Test nodes", "val": "Validation nodes (there are no test nodes)"}
ROLL = 200  # participants that are listed one by one
MATRIX = 60  # classes whose confusion matrix is shown
NONE = Value("–", mark="absent")


def model_card(job: Job, outcome: Outcome) -> str:
    """README.md: what the model is, how good it is where it was made, and what it is not."""
    widths = " → ".join(map(str, job.model.widths))
    names = ", ".join(shown(name, Medium.MARKDOWN) for name in job.classes)
    classes = f" ({names})" if names else ""
    return f"""\
# Model of {shown(outcome.name, Medium.MARKDOWN)}, job {shown(job.name, Medium.MARKDOWN)}

**{outcome.decision}** (α = {outcome.alpha:.4f}).

A {job.model.title} ({widths}{in_words(job.model)}) that sorts nodes into
{job.model.classes} classes{classes}. Local was trained on this site's graph only. External is what the
server's return gives, made of uploads as the roll below says. PACE adds the logits,
{formula(outcome.weights, external_names(job.federation))}; the weights were chosen on this site's
validation nodes.

## On this site's nodes

{_card_scores("Validation (α was chosen on these)", outcome.validation)}

{_card_scores("Test", outcome.test)}

## Who was in

{chr(10).join(roll_sentences(outcome.roll, job))}

## What came back

{chr(10).join(f"- {sentence}" for sentence in notable_sentences(outcome.received))}

## Where it comes from

- Job `{job.digest}`, method {job.method}, {job.federation.recipe.epochs} epochs, seed {job.seed}
- Upload `{outcome.upload}`, return SHA-256 `{outcome.returned[:16]}`, adopted {outcome.adopted}
- Software: {", ".join(f"{name} {number}" for name, number in outcome.versions.items())}

## Use

```
pace client predict THIS_FOLDER any.graph --out predictions.csv
{"" if job.codebook is None else TABLES}pace client evaluate THIS_FOLDER any.graph
```

Made for this site's own graph and graphs like it: the same features in the same order, nodes from
the same population. Scores elsewhere are unknown until measured. The weights were learnt from this
site's data and may tell something about it: share the folder as you would share that.
"""


def _card_scores(title: str, scores: MaskScores) -> str:
    table = score_table(f"{title}: {scores.nodes:,} nodes", scores)
    return "\n\n".join(filter(None, (table.title, table.markdown(), table.note)))


def formula(weights: Sequence[float], parts: Sequence[str]) -> str:
    """How the logits are added; of many parts, those that count."""
    if len(parts) == 1:
        return f"(1 - α) Local + α {parts[0]}"
    terms = zip(weights, ("Local", *parts), strict=True)
    return " + ".join(f"{weight:.4f} ({name})" for weight, name in terms if weight)


def score_table(title: str, scores: MaskScores) -> Table:
    """One row a reading: scores in percent, then the NLL; `-` where there are no nodes."""

    def percent(score: float | None) -> Value:
        return Value("-") if score is None else Value(f"{100 * score:.1f}%", score)

    rows = [
        (
            Value(NAMES[name], NAMES[name]),
            percent(reading.accuracy),
            percent(reading.weighted_f1),
            percent(reading.macro_f1_present),
            Value("-") if reading.nll is None else Value(f"{reading.nll:.4f}", reading.nll),
        )
        for name, reading in scores.readings.items()
    ]
    columns = tuple(Column(head, numeric=index > 0) for index, head in enumerate(HEADS))
    return Table(title, columns, tuple(rows), _absent_classes(scores))


def _absent_classes(scores: MaskScores) -> str:
    """What the macro F1 is over, where some of the job's classes do not occur."""
    present, classes = scores.classes_present, scores.classes
    if not scores.nodes or present == classes:
        return ""
    fixed = [
        f"{100 * (reading.macro_f1 or 0):.1f}% ({name})"
        for name, reading in scores.readings.items()
    ]
    return (
        f"Macro F1 is over the {present} classes that occur here. Over all {classes} of the job, with "
        f"absent ones counted as zero, it is {', '.join(fixed)}."
    )


def model_page(job: Job, outcome: Outcome, result: Result) -> str:
    """index.html: what was adopted and why, by class, and what left the site."""
    scored = {"test": outcome.test, "validation": outcome.validation}
    scored = {mask: scores for mask, scores in scored.items() if scores.nodes}
    mask = next((mask for mask in COUNTED if any(map(any, _confusion(result, mask)))), "")
    document = Document(
        f"PACE: the model of {shown(outcome.name)}",
        f"{outcome.decision}. Job {shown(job.name)}, adopted {outcome.adopted[:10]}.",
        tuple(_headline(outcome, scored, result, mask)),
        (
            Section("What was adopted, and why", tuple(_adopted(job, outcome, scored))),
            Section("Which nodes are counted", tuple(_nodes(scored, result))),
            *_by_class(job, result, mask),
            Section(
                "What came back",
                tuple(Text(shown(line)) for line in notable_sentences(outcome.received)),
            ),
            Section("Who was in", tuple(_roll(job, outcome))),
            Section("What left this site", tuple(_sent(result))),
            Section("Where it comes from", tuple(_provenance(job, outcome))),
        ),
        flows=True,
    )
    return render_page(document)


def _confusion(result: Result, mask: str) -> tuple[tuple[int, ...], ...]:
    return result.counts[mask]["local"].confusion


def _headline(
    outcome: Outcome, scored: Mapping[str, MaskScores], result: Result, counted: str
) -> Iterator[tuple[str, str]]:
    yield f"{outcome.alpha:.2f}", "α, the weight of what came back"
    if scored:
        mask, scores = next(iter(scored.items()))
        local, adopted = (
            100 * (reading.accuracy or 0) for reading in (scores.local, scores.adopted)
        )
        yield f"{local:.1f} %", f"accuracy of Local, {mask}"
        yield f"{adopted:.1f} %", f"accuracy of what is used, {mask}"
        yield f"{adopted - local:+.1f}", "points"
    if counted:
        error = calibration_error(result.counts[counted]["adopted"].bins)
        yield f"{100 * error:.1f}", "points of calibration error (ECE)"
    if roll := outcome.roll:
        parties = len(roll.merged) + len(roll.refused) + len(roll.missing)
        yield f"{len(roll.merged)} of {parties}", "sites were merged"


def _adopted(job: Job, outcome: Outcome, scored: Mapping[str, MaskScores]) -> Iterator[Block]:
    names = external_names(job.federation)
    yield Text(
        f"Local was trained on this site's graph only. External is what the server's return makes of "
        f"it. What is used adds their logits, {formula(outcome.weights, names)}; the weights "
        "were chosen on this site's validation nodes."
    )
    yield Findings((_promise(outcome.validation, promises(job.federation.method.gate)),))
    for mask, scores in scored.items():
        yield score_table(f"On {many(scores.nodes, f'{mask} node')}", scores)
    if len(outcome.weights) > 2:
        total = sum(outcome.weights)
        yield Table(
            "Weights of the mixture",
            (Column("Part", numeric=False), Column("Weight"), Column("Share")),
            tuple(
                (
                    Value(name, name),
                    Value(f"{weight:.4f}", weight),
                    Value(f"{100 * weight / total:.1f} %", weight, share=weight / total),
                )
                for name, weight in zip(("Local", *names), outcome.weights, strict=True)
            ),
        )


def _promise(scores: MaskScores, promised: bool) -> Finding:
    statement = "On this site's validation nodes, what is used has no higher NLL than Local."
    if scores.local.nll is None or scores.adopted.nll is None:
        return Finding(statement, "absent", "There are no validation nodes, so Local was kept.")
    values = ", ".join(f"{name} {reading.nll:.4f}" for name, reading in scores.readings.items())
    evidence = f"NLL on {many(scores.nodes, 'node')}: {values}."
    if not promised:
        evidence += " The method makes no such promise."
    kept = scores.adopted.nll <= scores.local.nll
    return Finding(statement, "holds" if kept else "fails", evidence)


def _nodes(scored: Mapping[str, MaskScores], result: Result) -> Iterator[Block]:
    pairs = []
    for mask, use in NODES.items():
        count = scored[mask].nodes if mask in scored else 0
        pairs.append((f"{mask.capitalize()}: {many(count, 'node')}", use if count else "none"))
    trained = many(result.trained_on, "node")
    pairs.append((f"Training: {trained}", "Local was trained on them; no score here counts them"))
    yield Facts(tuple(pairs))
    if result.drawn is not None:
        shares = ", ".join(f"{100 * share:.0f} %" for share in result.drawn)
        yield Text(
            "The table has no split of its own: which nodes are for training, validation and test "
            f"({shares}) was drawn by PACE from a fixed seed, by class."
        )
    yield Text(
        "A test score is an estimate for nodes like these; the validation score is a little too "
        "good for what is used, since its weights were chosen there."
    )


def _roll(job: Job, outcome: Outcome) -> Iterator[Block]:
    roll = outcome.roll
    for sentence in roll_sentences(roll, job):
        yield Text(shown(sentence))
    if roll is None:
        return
    parties = [(name, "merged", "") for name in roll.merged]
    parties += [(name, "refused", code) for name, code in roll.refused.items()]
    parties += [(name, "missing", "") for name in roll.missing]
    more = len(parties) - ROLL
    yield Table(
        "Participants, as the server says",
        tuple(Column(head, numeric=False) for head in ("Participant", "Upload", "Reason")),
        tuple(tuple(Value(text, text) for text in map(shown, row)) for row in parties[:ROLL]),
        f"{more:,} more are in model.json." if more > 0 else "",
    )


def _sent(result: Result) -> Iterator[Block]:
    sent = result.sent
    share = (
        f" ({100 * sent.bytes / sent.dense:.0f} % of the model sent whole)" if sent.dense else ""
    )
    yield Facts(
        (
            ("Sent, once", f"{sent.bytes:,} bytes{share}"),
            ("Came back", f"{sent.returned:,} bytes"),
        )
    )
    yield Table(
        "What the upload holds",
        (Column("Name", numeric=False), Column("What it is", numeric=False), Column("Bytes")),
        tuple(
            (
                Value(tensor.name, tensor.name),
                Value(tensor.words, tensor.words),
                Value(f"{tensor.bytes:,}", tensor.bytes),
            )
            for tensor in sent.tensors
        ),
    )
    for sentence in sent.sentences:
        yield Text(shown(sentence))


def _provenance(job: Job, outcome: Outcome) -> Iterator[Block]:
    yield Code("pace client predict THIS_FOLDER any.graph --out predictions.csv")
    widths = " → ".join(map(str, job.model.widths))
    yield Facts(
        (
            ("Job", job.digest),
            ("Method", job.method),
            ("Model", f"{job.model.title}, {widths}{in_words(job.model)}"),
            ("Training", f"{job.federation.recipe.epochs} epochs, seed {job.seed}"),
            ("Upload, return", f"{outcome.upload}, SHA-256 {outcome.returned}"),
            *((name, str(number)) for name, number in outcome.versions.items()),
        )
    )
    yield Text(
        "Counts on this page are of this site's nodes, and a small one is about few of them: keep "
        "the page where the data are."
    )


def _by_class(job: Job, result: Result, mask: str) -> list[Section]:
    """The sections that count labelled nodes by class and by how sure the model is."""
    if not mask:
        text = (
            "There are no labelled validation or test nodes at this site, so nothing was counted."
        )
        return [Section("By class", (Text(text),))]
    counts = {name: result.counts[mask][name] for name in COMPARED}
    names = tuple(map(shown, job.classes)) or tuple(
        f"class {label}" for label in range(job.model.classes)
    )
    nodes = COUNTED[mask]
    return [
        Section("By class", tuple(_classes(names, counts, nodes))),
        Section("Calibration", tuple(_calibration(counts, nodes))),
        Section("Confusion matrix", tuple(_confusions(names, counts, nodes))),
    ]


def _classes(names: Sequence[str], counts: Mapping[str, Counts], which: str) -> Iterator[Block]:
    matrices = [torch.tensor(counts[name].confusion) for name in COMPARED]
    nodes = matrices[0].sum(1).tolist()
    called = [matrix.sum(0).tolist() for matrix in matrices]
    present = [label for label in range(len(names)) if nodes[label]]
    scores = {
        "Recall": [_ratio(matrix.diagonal(), matrix.sum(1)) for matrix in matrices],
        "Precision": [_ratio(matrix.diagonal(), matrix.sum(0)) for matrix in matrices],
        "F1": [f1(matrix).tolist() for matrix in matrices],
    }
    yield Changes(
        f"Recall of each class, in percent. {which}",
        ("Class", COMPARED["local"], COMPARED["adopted"]),
        tuple(
            Change(
                f"{names[label]} ({nodes[label]:,})",
                *(recall[label] for recall in scores["Recall"]),
            )
            for label in present
        ),
        note="In brackets: how many nodes truly are of the class.",
    )
    rows = []
    for label, name in enumerate(names):
        defined = {
            "Recall": [nodes[label]] * 2,
            "Precision": [count[label] for count in called],
            "F1": [nodes[label] + count[label] for count in called],
        }
        values = [
            _percent(reading[label]) if count else NONE
            for score, readings in scores.items()
            for reading, count in zip(readings, defined[score], strict=True)
        ]
        rows.append((Value(name, name), Value(f"{nodes[label]:,}", nodes[label]), *values))
    columns = [Column("Class", numeric=False), Column("Nodes")]
    columns += [Column(name, score) for score in scores for name in COMPARED.values()]
    note = (
        "Recall: of the nodes of a class, those called so. Precision: of the nodes called so, those of "
        "the class. – where there are none."
    )
    if few := [names[label] for label in present if nodes[label] < SMALL]:
        note += f" Fewer than {SMALL} nodes, so their percentages say little: {', '.join(few)}."
    yield Table(f"By class, in percent. {which}", tuple(columns), tuple(rows), note)


def _ratio(hits: Tensor, of: Tensor) -> list[float]:
    values: list[float] = (hits / of.clamp_min(1)).tolist()
    return values


def _percent(score: float) -> Value:
    return Value(f"{100 * score:.1f}", score)


def _calibration(counts: Mapping[str, Counts], which: str) -> Iterator[Block]:
    yield Text(
        f"{which}. A bar shows how often the model is right among nodes it is about so sure of, "
        "the line across it how sure it is of them on average, and the number below how many "
        "they are. Line and bar end at the same height, on the broken line, if the "
        "probabilities are what they say. ECE is the mean distance of the two."
    )
    yield Beside(
        tuple(
            Reliability(
                f"{COMPARED[name]}: ECE {100 * calibration_error(reading.bins):.1f} points",
                tuple(Mark(part.confidence, _accuracy(part), part.nodes) for part in reading.bins),
            )
            for name, reading in counts.items()
        )
    )
    columns = [Column("How sure", numeric=False)]
    for name in COMPARED.values():
        columns += [Column(head, name) for head in ("Nodes", "Mean, in %", "Right, in %")]
    rows = []
    bins = list(zip(*(reading.bins for reading in counts.values()), strict=True))
    for index, parts in enumerate(bins):
        label = f"{100 * index // len(bins)} to {100 * (index + 1) // len(bins)} %"
        rows.append((Value(label, index), *(value for part in parts for value in _bin(part))))
    table = Table(f"{which}, by how sure the model is", tuple(columns), tuple(rows))
    yield Fold("The numbers", (table,))


def _accuracy(part: Bin) -> float:
    return part.hits / part.nodes if part.nodes else 0.0


def _bin(part: Bin) -> tuple[Value, Value, Value]:
    if not part.nodes:
        return Value("0", 0), NONE, NONE
    return (
        Value(f"{part.nodes:,}", part.nodes),
        _percent(part.confidence),
        _percent(_accuracy(part)),
    )


def _confusions(
    names: tuple[str, ...], counts: Mapping[str, Counts], which: str
) -> Iterator[Block]:
    if len(names) > MATRIX:
        yield Text(f"With {len(names)} classes a matrix is too large to read: result.json has it.")
        return
    yield Text(
        f"{which}. A row is a true class, a column what its nodes are called; outlined is right."
    )
    yield Beside(
        tuple(Confusion(title, names, counts[name].confusion) for name, title in COMPARED.items())
    )
