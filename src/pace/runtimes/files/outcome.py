"""What a site decided about a return, and how good each model is there: the content of `model.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pace.io import records
from pace.jobs.received import Received
from pace.jobs.roll import RollFacts

READINGS = ("local", "external", "adopted")


@dataclass(frozen=True)
class ReadingScores:
    """Scores of one reading; all None where there are no nodes."""

    accuracy: float | None
    weighted_f1: float | None
    macro_f1: float | None
    """Over all classes of the job, absent ones counted as zero."""
    macro_f1_present: float | None = None
    """Over the classes that occur; None also in files that do not have it."""
    nll: float | None = None
    """Negative log-likelihood, in nats a node."""

    @property
    def macro(self) -> float | None:
        """What people are shown as macro F1."""
        return self.macro_f1 if self.macro_f1_present is None else self.macro_f1_present


@dataclass(frozen=True, kw_only=True)
class MaskScores:
    """Scores of Local, External and what was adopted on the nodes of a mask."""

    mask: str
    nodes: int
    new: int | None = field(default=None, metadata=records.OPTIONAL)
    """How many of them the model has never seen with a label."""
    left_out: int | None = field(default=None, metadata=records.OPTIONAL)
    """Nodes of the graph's own mask that the model was trained on or validated by."""
    classes: int = 0
    """Of the job."""
    classes_present: int = 0
    local: ReadingScores
    external: ReadingScores
    adopted: ReadingScores

    @property
    def readings(self) -> dict[str, ReadingScores]:
        return {reading: getattr(self, reading) for reading in READINGS}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a site decided, and how good it is there. Older folders lack what has a default."""

    name: str = ""
    """The participant."""
    alpha: float
    """The Externals' share of the weights."""
    weights: tuple[float, ...] = ()
    """Of Local, then of each External."""
    decision: str = ""
    """What alpha means, in words."""
    upload: str = ""
    """The checksum of the upload it answers."""
    returned: str = field(default="", metadata=records.record_key("return"))
    """The return's SHA-256."""
    roll: RollFacts | None = None
    """Whose uploads were merged; None where no roll came."""
    received: tuple[Received, ...] | None = None
    """What the receiver noticed about each External of Local's kind."""
    validation: MaskScores | None = None
    test: MaskScores | None = None
    adopted: str = ""
    """When, in UTC."""
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether it has all that is said again when it is asked for again."""
        return None not in (self.received, self.validation, self.test) and bool(self.decision)

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Outcome:
        """The outcome that JSON describes, in today's words.

        Raises:
            ValueError: it is something else; the sentence names the key.
        """
        found = dict(content)
        for mask in ("validation", "test"):
            if found.get(mask) is None:
                continue
            scores = dict(found[mask])
            if "pace" in scores:  # what was adopted was called so at first
                scores["adopted"] = scores.pop("pace")
            found[mask] = scores
        if not found.get("weights"):
            found["weights"] = (1 - found["alpha"], found["alpha"])
        return records.read_record(cls, found)
