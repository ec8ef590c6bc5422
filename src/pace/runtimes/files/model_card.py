"""The model card: what a model is, how good it is where it was made, and what it is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pace.io.text import Medium, shown
from pace.jobs import received
from pace.jobs.job import Job
from pace.jobs.roll import sentences
from pace.models import in_words

HEADS = ("Reading", "Accuracy", "Weighted F1", "Macro F1", "NLL")
TABLES = """\
pace client predict THIS_FOLDER --nodes new.csv --edges new_links.csv --out predictions.csv
"""
NAMES = {
    "local": "Local (this site alone)",
    "external": "External (what came back)",
    "adopted": "Adopted (what is used)",
}


def card(job: Job, about: dict[str, Any]) -> str:
    """Markdown."""
    widths = " → ".join(map(str, job.model.widths))
    names = ", ".join(shown(name, Medium.MARKDOWN) for name in job.classes)
    classes = f" ({names})" if names else ""
    return f"""\
# Model of {shown(about["name"], Medium.MARKDOWN)}, job {shown(job.name, Medium.MARKDOWN)}

**{about["decision"]}** (α = {about["alpha"]:.4f}).

A {job.model.title} ({widths}{in_words(job.model)}) that sorts nodes into
{job.model.classes} classes{classes}. Local was trained on this site's graph only. External is what the
server's return gives, made of uploads as the roll below says. PACE adds the logits,
{formula(about["weights"], job.federation.method.parts)}; the weights were chosen on this site's
validation nodes.

## On this site's nodes

{table("Validation (α was chosen on these)", about["validation"])}

{table("Test", about["test"])}

## Who was in

{chr(10).join(sentences(about.get("roll")))}

## What came back

{noticed(about["received"])}

## Where it comes from

- Job `{job.digest}`, method {job.method}, {job.federation.recipe.epochs} epochs, seed {job.seed}
- Upload `{about["upload"]}`, return SHA-256 `{about["return"][:16]}`, adopted {about["adopted"]}
- Software: {", ".join(f"{name} {number}" for name, number in about["versions"].items())}

## Use

```
pace client predict THIS_FOLDER any.graph --out predictions.csv
{"" if job.codebook is None else TABLES}pace client evaluate THIS_FOLDER any.graph
```

Made for this site's own graph and graphs like it: the same features in the same order, nodes from
the same population. Scores elsewhere are unknown until measured. The weights were learnt from this
site's data and may tell something about it: share the folder as you would share that.
"""


def noticed(models: Sequence[Mapping[str, Any]]) -> str:
    """What the receiver noticed about each External."""
    said = [sentence for external in models for sentence in received.sentences(external)]
    return "\n".join(f"- {sentence}" for sentence in said) or "Nothing about it was unusual."


def formula(weights: Sequence[float], parts: Sequence[str]) -> str:
    """How the logits are added; of many parts, those that count."""
    if len(parts) == 1:
        return f"(1 - α) Local + α {parts[0]}"
    terms = zip(weights, ("Local", *parts), strict=True)
    return " + ".join(f"{weight:.4f} ({name})" for weight, name in terms if weight)


def table(title: str, found: dict[str, Any]) -> str:
    lines = [f"{title}: {found['nodes']:,} nodes", "", "| " + " | ".join(HEADS) + " |"]
    lines.append("|" + "---|" * len(HEADS))
    lines += ["| " + " | ".join(row) + " |" for row in rows(found)]
    if sentence := absent_classes(found):
        lines += ["", sentence]
    return "\n".join(lines)


def absent_classes(found: dict[str, Any]) -> str:
    """What the macro F1 is over, where some of the job's classes do not occur."""
    present, classes = found.get("classes_present", 0), found.get("classes", 0)
    if not found["nodes"] or present == classes:
        return ""
    fixed = [f"{100 * found[key]['macro_f1']:.1f}% ({key})" for key in NAMES]
    return (
        f"Macro F1 is over the {present} classes that occur here. Over all {classes} of the job, with "
        f"absent ones counted as zero, it is {', '.join(fixed)}."
    )


def rows(found: dict[str, Any]) -> list[list[str]]:
    """One line a reading: scores in percent, then the NLL."""
    made = []
    for key, name in NAMES.items():
        each = found[key]
        if each["nll"] is None:
            made.append([name, *["-"] * 4])
            continue
        macro = each.get("macro_f1_present", each["macro_f1"])
        scores = [f"{100 * one:.1f}%" for one in (each["accuracy"], each["weighted_f1"], macro)]
        made.append([name, *scores, f"{each['nll']:.4f}"])
    return made
