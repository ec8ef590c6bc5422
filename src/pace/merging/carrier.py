"""Carriers: an update as rank-r factors (Section 4.1). A correction is a carrier too.

In a batch of messages every tensor has a first dimension, for the clients.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from pace.params import Params

RANK = 6  # Section 4: frozen for every dataset
BATCH = 64  # uploads that are read, and receivers that are answered, together
CACHE = 2**20  # bytes that a core has near at hand, more or less


@dataclass(frozen=True, eq=False)
class LowRank:
    """left @ right, with the singular values folded into `right`."""

    left: Tensor  # (out, r), orthonormal columns
    right: Tensor  # (r, in)

    def dense(self) -> Tensor:
        return self.left @ self.right

    def __getitem__(self, client: int | None) -> "LowRank":
        """The factors of one client, of a batch; with None, of one client as a batch."""
        return LowRank(self.left[client], self.right[client])

    def flipped(self) -> "LowRank":
        """The transpose; its left factor need not be orthonormal."""
        return LowRank(self.right.mT, self.left.mT)

    def orthonormal(self) -> "LowRank":
        """The same product with the scale moved to the right factor."""
        left, triangle = torch.linalg.qr(self.left.double())
        right = triangle @ self.right.double()
        return LowRank(left.to(self.left.dtype), right.to(self.left.dtype))


Carrier = Mapping[str, LowRank | Tensor]


def compress(update: Params, rank: int | None = RANK) -> dict[str, LowRank | Tensor]:
    """P_r: factors for matrices whose attainable rank exceeds r, everything else as it is.

    `rank=None` is the paper's dense control.
    """
    return {
        name: truncate(value, rank) if rank is not None and factorised(value, rank) else value
        for name, value in update.items()
    }


def factorised(value: Tensor, rank: int) -> bool:
    """Whether P_r sends factors in place of this parameter."""
    return value.ndim == 2 and min(value.shape) > rank


def truncate(matrix: Tensor, rank: int) -> LowRank:
    """The best rank-r approximation, by the eigenvectors of the short side's Gram matrix.

        A A^T = U Λ U^T,   P_r(A) = U_r (U_r^T A)

    U_r spans the leading left singular vectors, so the product is the truncated SVD's, at the cost
    of a small symmetric eigenproblem. Squaring the singular values halves the digits; float64 has
    them to spare.
    """
    if matrix.shape[0] > matrix.shape[1]:
        return truncate(matrix.t(), rank).flipped().orthonormal()
    exact = matrix.double()
    leading = torch.linalg.eigh(exact @ exact.t()).eigenvectors[:, -rank:].flip(1)
    return LowRank(leading.to(matrix.dtype), (leading.t() @ exact).to(matrix.dtype))


def norms(carriers: Carrier) -> Tensor:
    """The Frobenius norms of a batch of updates, in float64; no product of factors is made.

    ‖L R‖² = tr(LᵀL · R Rᵀ)
    """
    squares = []
    for value in carriers.values():
        if isinstance(value, LowRank):
            left, right = value.left.double(), value.right.double()
            squares.append(((left.mT @ left) * (right @ right.mT)).sum((1, 2)))
        else:
            squares.append(value.double().square().flatten(1).sum(1))
    return torch.stack(squares).sum(0).clamp_min(0).sqrt()


def dense(carrier: Carrier) -> dict[str, Tensor]:
    """The update that a carrier encodes."""
    return {
        name: value.dense() if isinstance(value, LowRank) else value
        for name, value in carrier.items()
    }


def pack(carrier: Carrier) -> dict[str, Tensor]:
    """A carrier as a message: factors under `name/L` and `name/R`, the rest under its name."""
    message: dict[str, Tensor] = {}
    for name, value in carrier.items():
        if isinstance(value, LowRank):
            message |= {f"{name}/L": value.left, f"{name}/R": value.right}
        else:
            message[name] = value
    return message


def unpack(message: Mapping[str, Tensor], names: Iterable[str]) -> dict[str, LowRank | Tensor]:
    """The carrier of the named parameters in a message."""
    return {
        name: message[name]
        if name in message
        else LowRank(message[f"{name}/L"], message[f"{name}/R"])
        for name in names
    }


def batches(messages: Iterable[Mapping[str, Tensor]]) -> Iterator[dict[str, Tensor]]:
    """The messages, `BATCH` at a time."""
    remaining = iter(messages)
    while several := list(islice(remaining, BATCH)):
        yield {name: torch.stack([message[name] for message in several]) for name in several[0]}


def unbatched(batch: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """The messages of a batch, one by one."""
    for values in zip(*(value.unbind() for value in batch.values()), strict=True):
        yield dict(zip(batch, values, strict=True))


def runs(batch: Tensor) -> Iterator[slice]:
    """Parts of a batch, equally long and so short that each, in float64, stays in the cache."""
    count = math.ceil(8 * batch.numel() / CACHE)
    step = max(1, math.ceil(len(batch) / max(1, count)))
    return (slice(begin, begin + step) for begin in range(0, len(batch), step))
