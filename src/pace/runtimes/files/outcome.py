"""What a site decided about a return, and how good each model is on its own labels.

`Outcome` lies in the model folder as model.json, `Result` as result.json: counts and sums, never a
node. This is the only module of the runtime that reads labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pace.errors import GraphError, SettingError
from pace.graph import UNKNOWN, Graph
from pace.io import records
from pace.jobs.disclosure import Item, disclosure
from pace.jobs.job import Job
from pace.jobs.received import Received
from pace.jobs.roll import Roll
from pace.jobs.signatures import TRAILER
from pace.protocol.method import Message
from pace.protocol.steps import Adoption
from pace.runtimes.files.members import NEW, ROLES
from pace.runtimes.files.site import Site
from pace.task import (
    Bin,
    accuracy,
    counted,
    macro_f1,
    macro_f1_present,
    nll,
    reliability,
    weighted_f1,
)

READINGS = ("local", "external", "adopted")
MASKS = ("train", "val", "test", "new", "all")
MODEL, RESULT = "pace-model-1", "pace-result-1"


@dataclass(frozen=True)
class ReadingScores:
    """Scores of one reading; all None where there are no nodes."""

    accuracy: float | None = None
    weighted_f1: float | None = None
    macro_f1: float | None = None
    """Over all classes of the job, absent ones counted as zero."""
    macro_f1_present: float | None = None
    """Over the classes that occur."""
    nll: float | None = None
    """Negative log-likelihood, in nats a node."""


@dataclass(frozen=True, kw_only=True)
class MaskScores:
    """Scores of Local, External and what was adopted on the nodes of a mask."""

    mask: str
    nodes: int
    new: int | None = field(default=None, metadata=records.OPTIONAL)
    """How many of them the model has never seen with a label."""
    left_out: int | None = field(default=None, metadata=records.OPTIONAL)
    """Nodes of the graph's own mask that the model was trained on or validated by."""
    classes: int
    """Of the job."""
    classes_present: int
    local: ReadingScores
    external: ReadingScores
    adopted: ReadingScores

    @property
    def readings(self) -> dict[str, ReadingScores]:
        return {reading: getattr(self, reading) for reading in READINGS}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a site decided, and how good it is there."""

    job: str
    """Its digest."""
    name: str
    """The participant."""
    alpha: float
    """The Externals' share of the weights."""
    weights: tuple[float, ...]
    """Of Local, then of each External."""
    decision: str
    """What alpha means, in words."""
    upload: str
    """The checksum of the upload it answers."""
    returned: str = field(metadata=records.record_key("return"))
    """The return's SHA-256."""
    roll: Roll | None
    """Whose uploads were merged; None where no roll came."""
    received: tuple[Received, ...]
    """What the receiver noticed about each External of Local's kind."""
    validation: MaskScores
    test: MaskScores
    adopted: str
    """When, in UTC."""
    versions: dict[str, str]
    format: str = MODEL


@dataclass(frozen=True)
class Counts:
    """How one reading does on the nodes of a mask.

    Raises:
        ValueError: the matrix is not square, or calibration and confusion count different nodes.
    """

    confusion: tuple[tuple[int, ...], ...]
    """Row t, column p: nodes of class t that were called p."""
    bins: tuple[Bin, ...]
    """Its calibration."""

    def __post_init__(self) -> None:
        cells = [count for row in self.confusion for count in row]
        if any(len(row) != len(self.confusion) for row in self.confusion) or min(cells) < 0:
            raise ValueError("a confusion matrix is not square, or holds a number below 0")
        if sum(part.nodes for part in self.bins) != sum(cells):
            raise ValueError("calibration and confusion are of different nodes")


@dataclass(frozen=True)
class Sent:
    """The upload: its bytes, its tensors in plain words, and what they tell."""

    bytes: int
    dense: int
    """Bytes of the model sent whole."""
    returned: int
    """Bytes of what came back."""
    tensors: tuple[Item, ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """What a site finds out when it adopts."""

    counts: Mapping[str, Mapping[str, Counts]]
    """By mask, `val` and `test`, and by reading."""
    trained_on: int
    """Nodes with a label that Local was trained on; they are counted nowhere else."""
    drawn: tuple[float, ...] | None
    """The shares of train, val and test, where the site's table had no split."""
    sent: Sent
    format: str = RESULT

    def __post_init__(self) -> None:
        readings = {mask: set(counts) for mask, counts in self.counts.items()}
        if readings != {"val": set(READINGS), "test": set(READINGS)}:
            raise ValueError(f"its counts are of {readings}")


def mask_scores(
    adoption: Adoption, graph: Graph, nodes: Tensor, *, mask: str, classes: int
) -> MaskScores:
    """Accuracy, F1 and NLL of Local, External and what was adopted on these nodes."""
    labels = graph.y[nodes]
    local, external, adopted = (
        _reading_scores(logits[nodes], labels, classes) for logits in _readings(adoption).values()
    )
    return MaskScores(
        mask=mask,
        nodes=len(labels),
        classes=classes,
        classes_present=len(labels.unique()),
        local=local,
        external=external,
        adopted=adopted,
    )


def mask_counts(adoption: Adoption, graph: Graph, mask: str, classes: int) -> dict[str, Counts]:
    """By reading, the confusion matrix and the calibration on the nodes of a mask."""
    nodes = getattr(graph, mask)
    labels = graph.y[nodes]
    return {
        name: Counts(
            tuple(map(tuple, counted(logits[nodes], labels, classes).tolist())),
            reliability(logits[nodes], labels),
        )
        for name, logits in _readings(adoption).items()
    }


def sent_upload(job: Job, site: Site, message: Message, returned: int) -> Sent:
    """What the upload tells, as the site was told before it was sent."""
    told = disclosure(
        message,
        job.federation,
        signature=TRAILER if job.signed else 0,
        graph=site.graph,
        features=job.features,
        classes=job.classes,
    )
    return Sent(
        told.frame + told.signature,
        told.dense,
        returned,
        told.items,
        told.sentences,
    )


def remembered_nodes(site: Site, mask: str, roles: Sequence[str]) -> tuple[Tensor, int, int]:
    """The nodes of a mask by what each was used for when the model was made.

    Also how many of them are new to the model, and how many of the graph's own mask were left out.

    `test` is what was held out then, and labelled nodes that the model has never seen; of those, the
    graph's own test nodes, unless its masks were drawn.

    Raises:
        SettingError: there is no such mask.
        GraphError: no labelled node is in it.
    """
    if mask not in MASKS:
        raise SettingError(f"the mask is {mask!r}, expected one of {', '.join(MASKS)}")
    graph = site.graph
    known = graph.y != UNKNOWN
    role = {name: torch.tensor([name == each for each in roles]) for name in (*ROLES, NEW)}
    unseen = known & (role[NEW] | role[ROLES[0]])  # without a label, a node taught nothing
    if mask == "all":
        chosen = known
    elif mask == NEW:
        chosen = unseen
    elif mask == "test":
        chosen = known & role["test"] | (unseen & graph.test if site.drawn is None else unseen)
    else:
        chosen = known & role[mask]
    if not chosen.any():
        raise GraphError(
            f"the graph has no labelled nodes in mask {mask!r}: choose another with --on"
        )
    used = role["train"] | role["val"]
    own = graph.test if mask == "test" else torch.zeros_like(known)
    return chosen, int((chosen & unseen).sum()), int((own & used).sum())


def known_labels(graph: Graph, classes: Sequence[str]) -> list[str]:
    """The class of each node as its table says, empty where it says nothing."""
    return ["" if label == UNKNOWN else classes[label] for label in graph.y.tolist()]


def _readings(adoption: Adoption) -> dict[str, Tensor]:
    """Logits by reading."""
    return dict(zip(READINGS, (adoption.local, adoption.external, adoption.logits), strict=True))


def _reading_scores(logits: Tensor, labels: Tensor, classes: int) -> ReadingScores:
    if not len(labels):
        return ReadingScores()
    counts = counted(logits, labels, classes)
    return ReadingScores(
        accuracy(counts),
        weighted_f1(counts),
        macro_f1(counts),
        macro_f1_present(counts),
        nll(logits, labels),
    )
