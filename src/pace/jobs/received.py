"""What a return would change in a receiver's model, for its report: how much, and where most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pace.params import Params, norm, subtract
from pace.protocol.method import External

FAR = 3.0  # times the receiver's own update, as in the server's report
LONG = 10.0  # times the median column; honest corrections stay below 6
NAMED = 12  # columns listed


@dataclass(frozen=True)
class Received:
    """One External against Local; columns are those of the first layer, longest change first."""

    size: float | None
    """‖External - Local‖ against the receiver's own update; None where there is no such number."""
    long_columns: tuple[str, ...]
    """Features whose column changes more than ten times as much as the median one."""
    shortened: int
    """Columns that the receiver shortened for lack of evidence (`pace-limited`)."""
    left_out: float
    """The part of ‖External - Local‖² that it left out by this."""
    flags: tuple[str, ...]
    """What is worth a look, in words."""


def received(external: External, local: Params, start: Params, features: Sequence[str]) -> Received:
    """An External as it was returned, and as it is used where the receiver left out a part of it."""
    used = external.params
    returned = used if external.returned is None else external.returned
    correction = subtract(returned, local)
    if not all(torch.isfinite(value).all() for value in correction.values()):
        return Received(None, (), 0, 0.0, ("what came back is not finite",))
    whole, own = norm(correction), norm(subtract(local, start))
    size = whole / own if own > 0 else None
    first = next(name for name, value in local.items() if value.ndim == 2)
    lengths = correction[first].double().norm(dim=0)
    long = _long(lengths)
    removed = subtract(returned, used)
    shortened = int((removed[first] != 0).any(0).sum())
    names = tuple(features[place] if features else f"number {place}" for place in long[:NAMED])
    flags = []
    if size is not None and size > FAR:
        flags.append(f"what came back changes the model {size:.3g} times as much as training did")
    if long:
        flags.append(f"{len(long):,} features change more than {LONG:g} times the median one")
    left_out = (norm(removed) / whole) ** 2 if whole > 0 else 0.0
    return Received(size, names, shortened, left_out, tuple(flags))


def received_sentences(received: Received) -> list[str]:
    """What there is to say about it, for people."""
    sentences = [f"Worth a look: {flag}." for flag in received.flags]
    if received.long_columns:
        sentences.append(f"Changed most: {', '.join(received.long_columns)}.")
    if received.shortened:
        sentences.append(
            f"Left out for lack of evidence on the validation nodes: {100 * received.left_out:.1f}% "
            f"of the correction, in {received.shortened:,} features."
        )
    return sentences


def notable_sentences(models: Sequence[Received]) -> list[str]:
    """What there is to say about all that came back, if only that nothing is."""
    if not models:
        return ["What came back is of another kind than Local, so the two are not compared."]
    sentences = [sentence for external in models for sentence in received_sentences(external)]
    return sentences or ["Nothing about it was unusual, and nothing was left out of it."]


def _long(lengths: Tensor) -> list[int]:
    moved = lengths[lengths > 0]
    if not len(moved):
        return []
    order = lengths.argsort(descending=True)
    return [int(place) for place in order[lengths[order] > LONG * moved.median()]]
