"""Scores of a receiver's models on its own labels: the only place of this runtime that reads them."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from pace.errors import GraphError, SettingError
from pace.gates.cnll import nll
from pace.graph import Graph
from pace.metrics import SCORES, confusion
from pace.protocol.steps import Adoption

MASKS = ("train", "val", "test", "all")
READINGS = ("local", "external", "adopted")


def scores(adoption: Adoption, graph: Graph, mask: str, classes: int) -> dict[str, Any]:
    """Accuracy, both F1 and NLL of Local, External and what was adopted on the nodes of a mask."""
    if mask not in MASKS:
        raise SettingError(f"the mask is {mask!r}, expected one of {', '.join(MASKS)}")
    chosen = graph.y >= 0 if mask == "all" else getattr(graph, mask)
    logits = {"local": adoption.local, "external": adoption.external, "adopted": adoption.logits}
    labels = graph.y[chosen]
    return {
        "mask": mask,
        "nodes": len(labels),
        **{name: score(each[chosen], labels, classes) for name, each in logits.items()},
    }


def score(logits: Tensor, labels: Tensor, classes: int) -> dict[str, float | None]:
    """None where there are no nodes: nothing is known then, not even that it is bad."""
    if not len(labels):
        return dict.fromkeys((*SCORES, "nll"))
    counts = confusion(logits.argmax(1), labels, classes)
    return {**{name: of(counts) for name, of in SCORES.items()}, "nll": nll(logits, labels)}


def require_nodes(found: dict[str, Any]) -> None:
    if not found["nodes"]:
        raise GraphError(
            f"the graph has no labelled nodes in mask {found['mask']!r}: choose another with --on"
        )
