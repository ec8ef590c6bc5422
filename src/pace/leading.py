"""The leading eigenvectors of many small Gram matrices at once."""

import torch
from torch import Tensor

EXTRA = 10  # directions iterated beside the wanted ones, which converge the faster for them
ITERATIONS = 2  # each by the matrix to the fourth; on trained updates one gives nine digits
TOLERANCE = 1e-9  # of the residual, against the gap that separates the wanted from the rest

TINY = 1e-200


def leading(grams: Tensor, rank: int) -> Tensor:
    """The `rank` leading eigenvectors of each of (batch, n, n), largest first.

    By orthogonal iteration, a third of the time of all eigenvectors; its answer is checked, and
    where the spectrum has no gap to speak of, all eigenvectors are computed after all.
    """
    if grams.shape[-1] > 2 * (rank + EXTRA):
        found, settled = iterated(grams, rank)
        if settled:
            return found
    vectors: Tensor = torch.linalg.eigh(grams).eigenvectors
    return vectors[..., -rank:].flip(-1)


def iterated(grams: Tensor, rank: int) -> tuple[Tensor, bool]:
    """Eigenvectors by orthogonal iteration, and whether they are to be trusted."""
    traces = grams.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    scaled = grams / traces.clamp_min(TINY)  # so that powers neither overflow nor vanish
    squared = scaled @ scaled
    fourth = squared @ squared
    basis = torch.linalg.qr(squared[..., : rank + EXTRA]).Q
    for _ in range(ITERATIONS):
        basis = torch.linalg.qr(fourth @ basis).Q
    image = scaled @ basis
    values, inner = torch.linalg.eigh(basis.mT @ image)
    chosen = inner[..., -rank:]
    found = basis @ chosen
    residual = torch.linalg.matrix_norm(image @ chosen - found * values[..., None, -rank:])
    gap = values[..., -rank] - values[..., -rank - 1]
    return found.flip(-1), bool((residual <= TOLERANCE * gap).all())
