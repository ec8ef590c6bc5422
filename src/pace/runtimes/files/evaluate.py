"""Scores of a receiver's models on its own labels: the only place of this runtime that reads them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pace.errors import GraphError, SettingError
from pace.gates.cnll import nll
from pace.graph import UNKNOWN, Graph
from pace.metrics import (
    accuracy,
    confusion,
    macro_f1,
    macro_f1_present,
    reliability,
    weighted_f1,
)
from pace.protocol.steps import Adoption
from pace.runtimes.files.members import NEW, ROLES
from pace.runtimes.files.outcome import READINGS, MaskScores, ReadingScores
from pace.runtimes.files.result import Counts

MASKS = ("train", "val", "test", "new", "all")


def scores(
    adoption: Adoption,
    graph: Graph,
    mask: str,
    classes: int,
    roles: Sequence[str] | None = None,
    *,
    drawn: bool = False,
) -> MaskScores:
    """Accuracy, F1 and NLL of Local, External and what was adopted on the nodes of a mask.

    With `roles`, what each node was used for when the model was made decides, and not the graph's own
    masks: `test` is what was held out then, and labelled nodes that the model has never seen (of those,
    the graph's own test nodes, unless its masks were `drawn`).
    """
    if mask not in MASKS:
        raise SettingError(f"the mask is {mask!r}, expected one of {', '.join(MASKS)}")
    who: dict[str, int] = {}
    if roles is None:
        if mask == "new":
            raise SettingError("the model does not remember its nodes, so none can be called new")
        chosen = graph.y != UNKNOWN if mask == "all" else getattr(graph, mask)
    else:
        chosen, who = _by_roles(graph, mask, roles, drawn=drawn)
    logits = readings(adoption)
    labels = graph.y[chosen]
    return MaskScores(
        mask=mask,
        nodes=len(labels),
        new=who.get("new"),
        left_out=who.get("left_out"),
        classes=classes,
        classes_present=len(labels.unique()),
        **{name: score(values[chosen], labels, classes) for name, values in logits.items()},
    )


def readings(adoption: Adoption) -> dict[str, Tensor]:
    """Logits by reading."""
    return dict(zip(READINGS, (adoption.local, adoption.external, adoption.logits), strict=True))


def counts(adoption: Adoption, graph: Graph, mask: str, classes: int) -> dict[str, Counts]:
    """By reading, the confusion matrix and the calibration on the nodes of a mask; no node by itself."""
    chosen = getattr(graph, mask)
    labels = graph.y[chosen]
    return {
        name: Counts(
            confusion(logits[chosen].argmax(1), labels, classes),
            reliability(logits[chosen], labels),
        )
        for name, logits in readings(adoption).items()
    }


def _by_roles(
    graph: Graph, mask: str, roles: Sequence[str], *, drawn: bool
) -> tuple[Tensor, dict[str, int]]:
    """The nodes of a mask by what they were used for, and how many the graph's own masks got wrong."""
    known = graph.y != UNKNOWN
    role = {each: torch.tensor([name == each for name in roles]) for each in (*ROLES, NEW)}
    unseen = known & (role[NEW] | role[ROLES[0]])  # without a label, a node taught nothing
    if mask == "all":
        chosen = known
    elif mask == NEW:
        chosen = unseen
    elif mask == "test":
        chosen = known & role["test"] | (unseen if drawn else unseen & graph.test)
    else:
        chosen = known & role[mask]
    used = role["train"] | role["val"]
    own = graph.test if mask == "test" else torch.zeros_like(known)
    return chosen, {"new": int((chosen & unseen).sum()), "left_out": int((own & used).sum())}


def score(logits: Tensor, labels: Tensor, classes: int) -> ReadingScores:
    """None where there are no nodes: nothing is known then, not even that it is bad."""
    if not len(labels):
        return ReadingScores(None, None, None)
    counts = confusion(logits.argmax(1), labels, classes)
    return ReadingScores(
        accuracy(counts),
        weighted_f1(counts),
        macro_f1(counts),
        macro_f1_present(counts),
        nll(logits, labels),
    )


def known_labels(graph: Graph, classes: Sequence[str]) -> list[str]:
    """The class of each node as its table says, empty where it says nothing."""
    return ["" if label == UNKNOWN else classes[label] for label in graph.y.tolist()]


def require_nodes(scores: MaskScores) -> None:
    if not scores.nodes:
        raise GraphError(
            f"the graph has no labelled nodes in mask {scores.mask!r}: choose another with --on"
        )
