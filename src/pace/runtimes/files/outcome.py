"""What a site decided about a return, and how good each model is on its own labels.

`Outcome` lies in the model folder as model.json: counts and sums, never a node. This is the only
module of the runtime that reads labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from pace.errors import GraphError, SettingError
from pace.graph import UNKNOWN, Graph
from pace.io import records
from pace.jobs.disclosure import Disclosure, Received
from pace.jobs.roll import Roll
from pace.protocol.steps import Adoption
from pace.runtimes.files.site import NEW, ROLES, Site
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
MODEL = "pace-model-1"


@dataclass(frozen=True)
class ReadingScores:
    """Scores of one reading; None or empty where there are no nodes.

    Raises:
        ValueError: calibration and confusion count different nodes.
    """

    accuracy: float | None = None
    weighted_f1: float | None = None
    macro_f1: float | None = None
    """Over all classes of the job, absent ones counted as zero."""
    macro_f1_present: float | None = None
    """Over the classes that occur."""
    nll: float | None = None
    """Negative log-likelihood, in nats a node."""
    confusion: tuple[tuple[int, ...], ...] = ()
    """A row a true class: nodes by the class they were called."""
    bins: tuple[Bin, ...] = ()
    """Its calibration."""

    def __post_init__(self) -> None:
        cells = [count for row in self.confusion for count in row]
        if min(cells, default=0) < 0 or sum(part.nodes for part in self.bins) != sum(cells):
            raise ValueError("a count is below 0, or calibration and confusion differ in nodes")


@dataclass(frozen=True, kw_only=True)
class MaskScores:
    """Scores of Local, External and what was adopted on the nodes of a mask.

    Raises:
        ValueError: a confusion matrix is not one of so many classes.
    """

    mask: str
    nodes: int
    new: int | None = records.optional(None)
    """How many of them the model has never seen with a label."""
    left_out: int | None = records.optional(None)
    """Nodes of the graph's own mask that the model was trained on or validated by."""
    classes: int
    """Of the job."""
    classes_present: int
    local: ReadingScores
    external: ReadingScores
    adopted: ReadingScores

    def __post_init__(self) -> None:
        widths = [self.classes] * self.classes if self.nodes else []
        for reading in self.readings.values():
            if [len(row) for row in reading.confusion] != widths:
                raise ValueError(f"a confusion matrix is not of {self.classes} classes")

    @property
    def readings(self) -> dict[str, ReadingScores]:
        return {reading: getattr(self, reading) for reading in READINGS}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a site decided, and how good it is there.

    Raises:
        ValueError: the weights cannot be those of a mixture, or scores are of other classes.
    """

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
    trained_on: int
    """Nodes with a label that Local was trained on; they are counted nowhere else."""
    drawn: tuple[float, ...] | None
    """The shares of train, val and test, where the site's table had no split."""
    sent: Disclosure
    """What the upload tells, as the site was told before it was sent."""
    adopted: str
    """When, in UTC."""
    versions: dict[str, str]
    format: str = MODEL

    def __post_init__(self) -> None:
        weights = self.weights
        sound = all(0 <= weight < math.inf for weight in weights) and 0 < sum(weights) < math.inf
        if not 0 <= self.alpha <= 1 or not sound or len(weights) < 2:
            raise ValueError(
                f"alpha {self.alpha} and weights {weights}, expected weights of 0 or more"
            )
        if self.validation.classes != self.test.classes:
            raise ValueError("validation and test are of different classes")


def mask_scores(
    adoption: Adoption, graph: Graph, nodes: Tensor, *, mask: str, classes: int
) -> MaskScores:
    """Scores and counts of Local, External and what was adopted on these nodes."""
    labels = graph.y[nodes]
    logits = (adoption.local, adoption.external, adoption.logits)
    local, external, adopted = (_reading_scores(of[nodes], labels, classes) for of in logits)
    return MaskScores(
        mask=mask,
        nodes=len(labels),
        classes=classes,
        classes_present=len(labels.unique()),
        local=local,
        external=external,
        adopted=adopted,
    )


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
        tuple(map(tuple, counts.tolist())),
        reliability(logits, labels),
    )


def evaluate_mask(
    adoption: Adoption, site: Site, mask: str, roles: Sequence[str], classes: int
) -> MaskScores:
    """Scores on the nodes of a mask, by what each was used for when the model was made.

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
    kinds = (*ROLES, NEW)
    numbers = torch.tensor([kinds.index(role) for role in roles])
    role = {kind: numbers == number for number, kind in enumerate(kinds)}
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
    scores = mask_scores(adoption, graph, chosen, mask=mask, classes=classes)
    return replace(scores, new=int((chosen & unseen).sum()), left_out=int((own & used).sum()))


def known_labels(graph: Graph, classes: Sequence[str]) -> list[str]:
    """The class of each node as its table says, empty where it says nothing."""
    return ["" if label == UNKNOWN else classes[label] for label in graph.y.tolist()]
