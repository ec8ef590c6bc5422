"""A site's own result as a page: what it adopted and why, by class, and what left the site.

There are counts on it, and with few nodes a count is about few people: it stays at the site.
"""

from __future__ import annotations

from collections.abc import Iterator

from pace.io.terminal import many
from pace.io.text import shown
from pace.jobs import received
from pace.jobs.job import Job
from pace.jobs.roll import sentences
from pace.metrics import calibration_error
from pace.models import in_words
from pace.reports import (
    Block,
    Code,
    Column,
    Document,
    Facts,
    Finding,
    Findings,
    Section,
    Table,
    Text,
    Value,
    render_page,
)
from pace.runtimes.files import model_page_classes as by_class
from pace.runtimes.files.model_card import HEADS, absent_classes, formula, rows
from pace.runtimes.files.outcome import MaskScores, Outcome
from pace.runtimes.files.result import Result

ROLL = 200  # participants that are listed one by one
NODES = {
    "test": "neither training nor the choice of weights has seen them",
    "validation": "the weights were chosen on them",
}
OLDER = (
    "This folder was made before models kept counts by class. Adopt again into another folder, from "
    "the same kept model and return, to have them here."
)


def render(job: Job, about: Outcome, result: Result | None) -> str:
    """The page of a model folder."""
    return render_page(document(job, about, result))


def document(job: Job, about: Outcome, result: Result | None) -> Document:
    counted = None if result is None else by_class.chosen(result)
    return Document(
        f"PACE: the model of {shown(about.name)}",
        f"{about.decision}. Job {shown(job.name)}, adopted {about.adopted[:10]}.",
        tuple(_headline(about, result)),
        (
            Section("What was adopted, and why", tuple(_adopted(job, about))),
            Section("Which nodes are counted", tuple(_nodes(about, result))),
            *(
                [Section("By class", (Text(OLDER),))]
                if result is None
                else by_class.sections(job, result, counted)
            ),
            Section("What came back", tuple(_received(about))),
            Section("Who was in", tuple(_roll(about))),
            Section("What left this site", tuple(_sent(result))),
            Section("Where it comes from", tuple(_provenance(job, about))),
        ),
        flows=True,
    )


def _headline(about: Outcome, result: Result | None) -> Iterator[tuple[str, str]]:
    yield f"{about.alpha:.2f}", "α, the weight of what came back"
    mask, scores = _best(about)
    if scores:
        local, adopted = (
            100 * (reading.accuracy or 0) for reading in (scores.local, scores.adopted)
        )
        yield f"{local:.1f} %", f"accuracy of Local, {mask}"
        yield f"{adopted:.1f} %", f"accuracy of what is used, {mask}"
        yield f"{adopted - local:+.1f}", "points"
    if result is not None and (mask := by_class.chosen(result)):
        error = calibration_error(result.counts[mask]["adopted"].bins)
        yield f"{100 * error:.1f}", "points of calibration error (ECE)"
    if roll := about.roll:
        everybody = len(roll.merged) + len(roll.refused) + len(roll.missing)
        yield f"{len(roll.merged)} of {everybody}", "sites were merged"


def _best(about: Outcome) -> tuple[str, MaskScores | None]:
    """Scores of the test nodes, or of validation nodes where there are none."""
    return next(iter(_scored(about).items()), ("", None))


def _scored(about: Outcome) -> dict[str, MaskScores]:
    """Scores by mask, where there are nodes to score."""
    masks = {"test": about.test, "validation": about.validation}
    return {mask: scores for mask, scores in masks.items() if scores and scores.nodes}


def _adopted(job: Job, about: Outcome) -> Iterator[Block]:
    method = job.federation.method
    yield Text(
        f"Local was trained on this site's graph only. External is what the server's return makes of "
        f"it. What is used adds their logits, {formula(about.weights, method.parts)}; the weights "
        "were chosen on this site's validation nodes."
    )
    yield Findings((_promise(about, method.promises),))
    for mask, scores in _scored(about).items():
        yield _scores(f"On {many(scores.nodes, f'{mask} node')}", scores)
    if len(about.weights) > 2:
        total = sum(about.weights)
        parts = zip(("Local", *method.parts), about.weights, strict=True)
        yield Table(
            "Weights of the mixture",
            (Column("Part", numeric=False), Column("Weight"), Column("Share")),
            tuple(
                (Value(name, name), Value(f"{weight:.4f}", weight), _share(weight / total))
                for name, weight in parts
            ),
        )


def _share(share: float) -> Value:
    return Value(f"{100 * share:.1f} %", share, share=share)


def _promise(about: Outcome, promises: bool) -> Finding:
    statement = "On this site's validation nodes, what is used has no higher NLL than Local."
    scores = about.validation
    if scores is None or scores.local.nll is None or scores.adopted.nll is None:
        return Finding(statement, "absent", "There are no validation nodes, so Local was kept.")
    told = ", ".join(f"{name} {reading.nll:.4f}" for name, reading in scores.readings.items())
    evidence = f"NLL on {many(scores.nodes, 'node')}: {told}."
    if not promises:
        evidence += " The method makes no such promise."
    kept = scores.adopted.nll <= scores.local.nll
    return Finding(statement, "holds" if kept else "fails", evidence)


def _scores(title: str, scores: MaskScores) -> Table:
    return Table(
        title,
        tuple(Column(head, numeric=place > 0) for place, head in enumerate(HEADS)),
        tuple(
            (Value(name, name), *(Value(text, _number(text)) for text in numbers))
            for name, *numbers in rows(scores)
        ),
        absent_classes(scores),
    )


def _number(text: str) -> float | None:
    return None if text == "-" else float(text.rstrip("%"))


def _nodes(about: Outcome, result: Result | None) -> Iterator[Block]:
    pairs, scored = [], _scored(about)
    for mask, use in NODES.items():
        scores = scored.get(mask)
        count = scores.nodes if scores else 0
        pairs.append((f"{mask.capitalize()}: {many(count, 'node')}", use if count else "none"))
    if result is not None:
        trained = many(result.trained_on, "node")
        pairs.append(
            (f"Training: {trained}", "Local was trained on them; no score here counts them")
        )
    yield Facts(tuple(pairs))
    if result is not None and result.drawn is not None:
        shares = ", ".join(f"{100 * share:.0f} %" for share in result.drawn)
        yield Text(
            "The table has no split of its own: which nodes are for training, validation and test "
            f"({shares}) was drawn by PACE from a fixed seed, by class."
        )
    yield Text(
        "A test score is an estimate for nodes like these; the validation score is a little too "
        "good for what is used, since its weights were chosen there."
    )


def _received(about: Outcome) -> Iterator[Block]:
    for sentence in received.noticed(about.received or ()):
        yield Text(shown(sentence))


def _roll(about: Outcome) -> Iterator[Block]:
    roll = about.roll
    for sentence in sentences(roll):
        yield Text(shown(sentence))
    if roll is None:
        return
    everybody = [(name, "merged", "") for name in roll.merged]
    everybody += [(name, "refused", code) for name, code in roll.refused.items()]
    everybody += [(name, "missing", "") for name in roll.missing]
    more = len(everybody) - ROLL
    heads = ("Participant", "Upload", "Reason")
    yield Table(
        "Participants, as the server says",
        tuple(Column(head, numeric=False) for head in heads),
        tuple(tuple(Value(text, text) for text in map(shown, row)) for row in everybody[:ROLL]),
        f"{more:,} more are in model.json." if more > 0 else "",
    )


def _sent(result: Result | None) -> Iterator[Block]:
    if result is None:
        yield Text("The receipt that `pace client fit` wrote beside the upload has it.")
        return
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
            (Value(name, name), Value(words, words), Value(f"{size:,}", size))
            for name, words, size in sent.tensors
        ),
    )
    for sentence in sent.sentences:
        yield Text(shown(sentence))


def _provenance(job: Job, about: Outcome) -> Iterator[Block]:
    yield Code("pace client predict THIS_FOLDER any.graph --out predictions.csv")
    widths = " → ".join(map(str, job.model.widths))
    yield Facts(
        (
            ("Job", job.digest),
            ("Method", job.method),
            ("Model", f"{job.model.title}, {widths}{in_words(job.model)}"),
            ("Training", f"{job.federation.recipe.epochs} epochs, seed {job.seed}"),
            ("Upload, return", f"{about.upload}, SHA-256 {about.returned}"),
            *((name, str(number)) for name, number in about.versions.items()),
        )
    )
    yield Text(
        "Counts on this page are of this site's nodes, and a small one is about few of them: keep "
        "the page where the data are."
    )
