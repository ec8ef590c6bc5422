"""The model card: what a model is, how good it is where it was made, and what it is not."""

from __future__ import annotations

from collections.abc import Sequence

from pace.io.text import Medium, shown
from pace.jobs import received
from pace.jobs.job import Job
from pace.jobs.roll import sentences
from pace.models import in_words
from pace.runtimes.files.outcome import MaskScores, Outcome

HEADS = ("Reading", "Accuracy", "Weighted F1", "Macro F1", "NLL")
TABLES = """\
pace client predict THIS_FOLDER --nodes new.csv --edges new_links.csv --out predictions.csv
"""
NAMES = {
    "local": "Local (this site alone)",
    "external": "External (what came back)",
    "adopted": "Adopted (what is used)",
}


def card(job: Job, about: Outcome) -> str:
    """Markdown."""
    widths = " → ".join(map(str, job.model.widths))
    names = ", ".join(shown(name, Medium.MARKDOWN) for name in job.classes)
    classes = f" ({names})" if names else ""
    return f"""\
# Model of {shown(about.name, Medium.MARKDOWN)}, job {shown(job.name, Medium.MARKDOWN)}

**{about.decision}** (α = {about.alpha:.4f}).

A {job.model.title} ({widths}{in_words(job.model)}) that sorts nodes into
{job.model.classes} classes{classes}. Local was trained on this site's graph only. External is what the
server's return gives, made of uploads as the roll below says. PACE adds the logits,
{formula(about.weights, job.federation.method.parts)}; the weights were chosen on this site's
validation nodes.

## On this site's nodes

{table("Validation (α was chosen on these)", about.validation)}

{table("Test", about.test)}

## Who was in

{chr(10).join(sentences(about.roll))}

## What came back

{chr(10).join(f"- {sentence}" for sentence in received.noticed(about.received or ()))}

## Where it comes from

- Job `{job.digest}`, method {job.method}, {job.federation.recipe.epochs} epochs, seed {job.seed}
- Upload `{about.upload}`, return SHA-256 `{about.returned[:16]}`, adopted {about.adopted}
- Software: {", ".join(f"{name} {number}" for name, number in about.versions.items())}

## Use

```
pace client predict THIS_FOLDER any.graph --out predictions.csv
{"" if job.codebook is None else TABLES}pace client evaluate THIS_FOLDER any.graph
```

Made for this site's own graph and graphs like it: the same features in the same order, nodes from
the same population. Scores elsewhere are unknown until measured. The weights were learnt from this
site's data and may tell something about it: share the folder as you would share that.
"""


def formula(weights: Sequence[float], parts: Sequence[str]) -> str:
    """How the logits are added; of many parts, those that count."""
    if len(parts) == 1:
        return f"(1 - α) Local + α {parts[0]}"
    terms = zip(weights, ("Local", *parts), strict=True)
    return " + ".join(f"{weight:.4f} ({name})" for weight, name in terms if weight)


def table(title: str, scores: MaskScores | None) -> str:
    if scores is None:
        return f"{title}: not known"
    lines = [f"{title}: {scores.nodes:,} nodes", "", "| " + " | ".join(HEADS) + " |"]
    lines.append("|" + "---|" * len(HEADS))
    lines += ["| " + " | ".join(row) + " |" for row in rows(scores)]
    if sentence := absent_classes(scores):
        lines += ["", sentence]
    return "\n".join(lines)


def absent_classes(scores: MaskScores) -> str:
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


def rows(scores: MaskScores) -> list[list[str]]:
    """One line a reading: scores in percent, then the NLL; `-` where there are no nodes."""
    return [
        [
            NAMES[name],
            *(_percent(score) for score in (reading.accuracy, reading.weighted_f1, reading.macro)),
            "-" if reading.nll is None else f"{reading.nll:.4f}",
        ]
        for name, reading in scores.readings.items()
    ]


def _percent(score: float | None) -> str:
    return "-" if score is None else f"{100 * score:.1f}%"
