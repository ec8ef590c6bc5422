"""How much each upload weighs in what everybody is sent, for the server's report."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import torch
from torch import Tensor

from pace.merging.carrier import dense
from pace.merging.moments import EPS
from pace.methods import FedAvg, FedProx, Pace
from pace.methods.pace import read
from pace.params import Params, subtract
from pace.protocol.federation import Federation
from pace.protocol.method import Message, Uploads

FAR = 3.0  # times the median norm, or a third of it: worth a look
LARGE = 3.0  # times an equal share


@dataclass(frozen=True)
class Influence:
    """`share` sums to one over the clients; `norm` is against the median client's."""

    share: float | None  # None where a method has no one weight for a client
    norm: float | None
    flags: tuple[str, ...] = ()


def influence(uploads: Uploads, federation: Federation) -> list[Influence]:
    """Two passes over the uploads.

    PACE's consensus is a mean by column, weighted by C_j; a client's share is its weight in a
    column, averaged over all numbers of the model (1/K where there is no moment). FedAvg's share is
    the client's part of all nodes.
    """
    if federation.sealed:  # nobody's can be seen
        return [Influence(None, None)] * len(uploads)
    norms = [_norm(upload, federation) for upload in uploads] or [None] * len(uploads)  # all empty
    shares = _shares(uploads, federation)
    known = [norm for norm in norms if norm is not None]
    median = statistics.median(known) if known else 0.0
    found = []
    for share, norm in zip(shares, norms, strict=True):
        ratio = norm / median if norm is not None and median > 0 else None
        found.append(Influence(share, ratio, _flags(share, ratio, len(shares))))
    return found


def _flags(share: float | None, ratio: float | None, clients: int) -> tuple[str, ...]:
    flags = []
    if ratio is not None and not 1 / FAR <= ratio <= FAR:
        flags.append(f"update is {ratio:.3g} times the median")
    if share is not None and clients > LARGE and share * clients > LARGE:
        flags.append(f"weighs {share * clients:.1f} times an equal share")
    return tuple(flags)


def _norm(upload: Message, federation: Federation) -> float | None:
    """The Frobenius norm of the update an upload stands for."""
    start = federation.start
    if isinstance(federation.method, Pace):
        update: Params = dense(read(upload, start)[0])
    elif all(name in upload for name in start):
        update = subtract({name: upload[name] for name in start}, start)
    else:
        return None
    return float(
        torch.stack([value.double().square().sum() for value in update.values()]).sum().sqrt()
    )


def _shares(uploads: Uploads, federation: Federation) -> list[float] | list[None]:
    method = federation.method
    if isinstance(method, Pace):
        return _column_shares(uploads, federation.start)
    if type(method) in (FedAvg, FedProx):
        nodes = [float(upload["nodes"]) for upload in uploads]
        return [count / sum(nodes) for count in nodes]
    return [None] * len(uploads)


def _column_shares(uploads: Uploads, start: Params) -> list[float]:
    totals: dict[str, Tensor] = {}
    for upload in uploads:
        for name, moment in read(upload, start)[1].items():
            totals[name] = totals.get(name, torch.zeros(())) + moment.double() + EPS
    shares = []
    numbers = sum(value.numel() for value in start.values())
    for upload in uploads:
        moments = read(upload, start)[1]
        parts = [
            value.numel() * float(((moments[name].double() + EPS) / totals[name]).mean())
            if name in moments
            else value.numel() / len(uploads)
            for name, value in start.items()
        ]
        shares.append(sum(parts) / numbers)
    return shares
