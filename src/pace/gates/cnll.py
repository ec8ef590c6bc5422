"""Convex NLL calibration, CNLL (Section 4.4): one alpha on the logit segment."""

from collections.abc import Sequence

import torch
from torch import Tensor

BISECTIONS = 64  # Section 4.4

Receiver = tuple[Tensor, Tensor, Tensor]  # Local's and External's validation logits, and the labels


def calibrate(receivers: Sequence[Receiver]) -> list[float]:
    """Of each receiver the alpha in [0, 1] whose blend has the least validation NLL, in float64.

        R'(α) = mean_v ( E_{c ~ p_α}[d_vc] - d_{v,y_v} ),   d = z_E - z_L

    R is convex, so R'(0) ≥ 0 selects Local, R'(1) ≤ 0 External, and bisection finds the root of R'
    in between. No validation nodes, or logits that are not finite: Local. A flat R: Local, the
    smallest minimiser. Rounding can spoil all of this where logits are huge:
    `gate.no_worse_than_local` compares what is adopted with Local, whatever was chosen here.

    All at once, where their logits are: what each gets alone, bit for bit. A receiver's rows are padded
    to a power of two, which changes no sum; those of one size are a batch.
    """
    batches: dict[object, list[int]] = {}
    for index, (local, _, labels) in enumerate(receivers):
        if len(labels):
            key = (padded(len(labels)), local.shape[1], local.device)
            batches.setdefault(key, []).append(index)
    alphas = [0.0] * len(receivers)
    for indices in batches.values():
        slopes = Slopes([receivers[index] for index in indices])
        for index, alpha in zip(indices, roots(slopes).tolist(), strict=True):
            alphas[index] = alpha
    return alphas


def roots(slopes: "Slopes") -> Tensor:
    """Where each slope crosses zero, by `BISECTIONS` halvings, or the end of [0, 1] next to it."""
    low = torch.zeros(slopes.receivers, dtype=torch.float64)
    high = torch.ones_like(low)
    first, last = slopes(low), slopes(high)
    inside = (first < 0) & (last > 0)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if not (inside & (low < middle) & (middle < high)).any():
            break
        negative = slopes(middle) < 0
        low, high = torch.where(negative, middle, low), torch.where(negative, high, middle)
    return torch.where(inside, (low + high) / 2, (first < 0).double())


class Slopes:
    """R' of receivers with equally many padded rows, each at its own alpha."""

    def __init__(self, receivers: Sequence[Receiver]) -> None:
        counts = [len(labels) for _, _, labels in receivers]
        rows, (_, classes) = padded(max(counts)), receivers[0][0].shape
        # Rows come last, where a softmax over a few classes is fastest.
        logits = receivers[0][0].new_zeros(2, len(receivers), classes, rows, dtype=torch.float64)
        truth = torch.zeros(len(receivers), 1, rows, dtype=torch.int64, device=logits.device)
        for index, (local, external, labels) in enumerate(receivers):
            logits[0, index, :, : len(labels)] = local.t()
            logits[1, index, :, : len(labels)] = external.t()
            truth[index, 0, : len(labels)] = labels
        logits[:, ~torch.isfinite(logits).all(3).all(2).all(0)] = 0  # a flat R: Local
        self.receivers = len(receivers)
        self.local, self.external = logits
        self.displacement = self.external - self.local
        self.observed = self.displacement.gather(1, truth).squeeze(1)
        self.counts = torch.tensor(counts, dtype=torch.float64, device=logits.device)

    def __call__(self, alphas: Tensor) -> Tensor:
        alpha = alphas.to(self.counts.device)[:, None, None]
        chances = ((1 - alpha) * self.local + alpha * self.external).softmax(1)
        excess = (chances * self.displacement).sum(1) - self.observed
        while excess.shape[1] > 1:  # halves are added, so that zeros at the end change no bit
            first, second = excess.chunk(2, 1)
            excess = first + second
        slopes: Tensor = (excess[:, 0] / self.counts).cpu()
        return slopes


def padded(rows: int) -> int:
    """The next power of two."""
    return 1 << max(0, rows - 1).bit_length()


def slope(local: Tensor, external: Tensor, labels: Tensor, alpha: float) -> float:
    """R'(α): the displacement the blend expects less the displacement of the true labels."""
    return float(Slopes([(local, external, labels)])(torch.tensor([alpha], dtype=torch.float64)))
