"""What leaves a site: every tensor of an upload in plain words with its bytes, and what it tells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pace import params
from pace.graph import Graph
from pace.protocol.explain import tensor_sentence
from pace.protocol.federation import Federation
from pace.protocol.method import Message, Method
from pace.protocol.sealing import ONE, ONE_SENTENCE
from pace.protocol.steps import explain_upload, upload_layout

SMALL = 5  # training nodes of a class: with fewer, what is said of the class is said of persons


@dataclass(frozen=True)
class Item:
    """One tensor."""

    name: str
    shape: tuple[int, ...]
    bytes: int
    words: str


@dataclass(frozen=True)
class Disclosure:
    """A whole upload."""

    items: tuple[Item, ...]
    frame: int
    """Bytes, framing included."""
    signature: int
    """Bytes of security overhead."""
    dense: int
    """Bytes of the model sent whole."""
    sentences: tuple[str, ...]
    """What the server can read out of it."""

    @property
    def share(self) -> float:
        return self.frame / self.dense


def disclosure(
    message: Message,
    federation: Federation,
    *,
    signature: int = 0,
    graph: Graph | None = None,
    features: Sequence[str] = (),
    classes: Sequence[str] = (),
) -> Disclosure:
    """What this very message tells.

    Args:
        message: the upload's tensors; of a sealed one only their names and shapes are known.
        federation: what everyone agreed on.
        signature: bytes of the signature that goes with it.
        graph: the site's own, of which it is said which classes are small.
        features: names of the columns; their numbers are given otherwise.
        classes: names of the classes.
    """
    layout = upload_layout(federation)
    told = explain_upload(message, federation, features)
    items = tuple(
        Item(name, shape, length, told.tensors[name])
        for (name, shape), length in zip(layout.items(), layout.lengths, strict=True)
    )
    first, *rest = told.sentences
    small = [] if federation.sealed or graph is None else list(_small(graph, classes))
    sentences = [first, *small, *rest] if items else [EMPTY]
    dense = params.size(federation.start)
    return Disclosure(items, layout.size, signature, dense, tuple(sentences))


EMPTY = "It is empty: nothing about your data leaves the site."


def _small(graph: Graph, classes: Sequence[str]) -> Iterator[str]:
    if labels := small_classes(graph):
        names = [classes[label] if classes else str(label) for label in labels]
        yield (
            f"Fewer than {SMALL} of your training nodes are of class {', '.join(names)}: what the "
            "upload tells about such a class, it tells about these few."
        )


def small_classes(graph: Graph) -> tuple[int, ...]:
    """Classes with at least one and fewer than five training nodes."""
    counts = torch.bincount(graph.training_labels)
    return tuple(((counts > 0) & (counts < SMALL)).nonzero().flatten().tolist())


def any_tensor_sentence(name: str, *, update: bool = False) -> str:
    """What a tensor is, of a message whose method is not known."""
    return tensor_sentence(name, _tensors(Method), update)


def _tensors(method: Any) -> dict[str, str]:
    """What a method and all that inherit from it say of their tensors."""
    tensors = {ONE: ONE_SENTENCE}
    for below in method.__subclasses__():
        tensors |= _tensors(below)
    return tensors | dict(method.tensors)
