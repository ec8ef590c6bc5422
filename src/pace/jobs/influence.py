"""How much each upload weighs in what everyone is sent, for the server's report."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from pace.protocol.federation import Federation
from pace.protocol.method import Uploads
from pace.protocol.steps import upload_weights

FAR = 3.0  # times the median norm, or a third of it: worth a look
LARGE = 3.0  # times an equal share


@dataclass(frozen=True)
class Influence:
    """`share` sums to one over the clients; `norm` is against the median client's."""

    share: float | None  # None where a method has no one weight for a client
    norm: float | None
    flags: tuple[str, ...] = ()


def influence(uploads: Uploads, federation: Federation) -> list[Influence]:
    """What the method says of each upload, with what is worth a look."""
    weights = upload_weights(uploads, federation)
    norms = [weight.norm for weight in weights if weight.norm is not None]
    median = statistics.median(norms) if norms else 0.0
    found = []
    for weight in weights:
        ratio = weight.norm / median if weight.norm is not None and median > 0 else None
        found.append(Influence(weight.share, ratio, _flags(weight.share, ratio, len(weights))))
    return found


def _flags(share: float | None, ratio: float | None, clients: int) -> tuple[str, ...]:
    flags = []
    if ratio is not None and not 1 / FAR <= ratio <= FAR:
        flags.append(f"update is {ratio:.3g} times the median")
    if share is not None and clients > LARGE and share * clients > LARGE:
        flags.append(f"weighs {share * clients:.1f} times an equal share")
    return tuple(flags)
