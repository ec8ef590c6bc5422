"""The model card: what a model is, how good it is where it was made, and what it is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pace.jobs.job import Job
from pace.jobs.roll import sentences
from pace.models import in_words

HEADS = ("Reading", "Accuracy", "Weighted F1", "Macro F1", "NLL")
NAMES = {
    "local": "Local (this site alone)",
    "external": "External (what came back)",
    "adopted": "Adopted (what is used)",
}


def card(job: Job, about: dict[str, Any]) -> str:
    """Markdown."""
    widths = " → ".join(map(str, job.model.widths))
    classes = f" ({', '.join(job.classes)})" if job.classes else ""
    return f"""\
# Model of {about["name"]}, job {job.name}

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

## Where it comes from

- Job `{job.digest}`, method {job.method}, {job.federation.recipe.epochs} epochs, seed {job.seed}
- Upload `{about["upload"]}`, return SHA-256 `{about["return"][:16]}`, adopted {about["adopted"]}
- Software: {", ".join(f"{name} {number}" for name, number in about["versions"].items())}

## Use

```
pace client predict THIS_FOLDER any.graph --out predictions.csv
pace client evaluate THIS_FOLDER any.graph
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


def table(title: str, found: dict[str, Any]) -> str:
    lines = [f"{title}: {found['nodes']:,} nodes", "", "| " + " | ".join(HEADS) + " |"]
    lines.append("|" + "---|" * len(HEADS))
    lines += ["| " + " | ".join(row) + " |" for row in rows(found)]
    return "\n".join(lines)


def rows(found: dict[str, Any]) -> list[list[str]]:
    """One line a reading: scores in percent, then the NLL."""
    made = []
    for key, name in NAMES.items():
        each = found[key]
        if each["nll"] is None:
            made.append([name, *["-"] * 4])
            continue
        scores = [f"{100 * each[score]:.1f}%" for score in ("accuracy", "weighted_f1", "macro_f1")]
        made.append([name, *scores, f"{each['nll']:.4f}"])
    return made
