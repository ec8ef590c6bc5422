"""The leading eigenvectors of many small Gram matrices at once."""

import torch
from torch import Tensor

POWERS = 4  # of the matrix in a round; more would drown weak directions in rounding
ROUNDS = 4  # after each of which the answer is checked; trained updates take one to four
TOLERANCE = 1e-9  # of the residual, against the gap that separates the wanted from the rest
ROUNDING = 1e-12  # of a sum of squares, generously


def leading(grams: Tensor, start: Tensor, rank: int) -> Tensor:
    """The `rank` leading eigenvectors of each of (many, n, n), largest first.

    By orthogonal iteration from `start` (many, n, more than rank), which is the faster the more of
    the answer it spans: a sixth of the time of all eigenvectors. Every answer is checked, and where
    the spectrum has no gap to speak of, or a large eigenvalue may be outside of what was looked
    through, all eigenvectors are computed after all. What one matrix gets does not depend on the
    others.
    """
    if 2 * start.shape[-1] > grams.shape[-1]:
        return _all(grams, rank)
    basis, found, settled = iterated(grams, start, rank)
    places = torch.arange(len(grams))
    for _ in range(ROUNDS - 1):
        if settled.all():
            return found
        open_ = ~settled
        places, grams, basis = places[open_], grams[open_], basis[open_]
        basis, found[places], settled = iterated(grams, basis, rank)
    if not settled.all():
        found[places[~settled]] = _all(grams[~settled], rank)
    return found


def iterated(grams: Tensor, basis: Tensor, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """A basis nearer to the answer, the best `rank` vectors in it, and which are to be trusted."""
    for _ in range(POWERS):
        basis = grams @ basis
    basis = torch.linalg.qr(basis).Q
    image = grams @ basis
    values, inner = torch.linalg.eigh(basis.mT @ image)
    chosen, largest = inner[..., -rank:].flip(-1), values[..., -rank:].flip(-1)
    found = basis @ chosen
    residual = torch.linalg.matrix_norm(image @ chosen - found * largest[..., None, :])
    gap = values[..., -rank] - values[..., -rank - 1]
    # |G - G B B^T|² = |G|² - |G B|² bounds the square of every eigenvalue outside of B.
    whole, seen = (torch.linalg.matrix_norm(each).square() for each in (grams, image))
    unseen = whole * (1 + ROUNDING) - seen
    sure = unseen <= values[..., -rank].clamp_min(0).square()
    return image, found, sure & (residual <= TOLERANCE * gap)


def _all(grams: Tensor, rank: int) -> Tensor:
    vectors: Tensor = torch.linalg.eigh(grams).eigenvectors
    return vectors[..., -rank:].flip(-1)
