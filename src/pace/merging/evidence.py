"""How far a correction may go where a receiver's own nodes say little. Not in the paper.

A backdoor ties a few rare features to a class: long columns of the correction that no validation
node sees, so that no gate can judge them.
"""

import torch
from torch import Tensor

LONGEST = 2.0  # times the median column
ENOUGH = 0.03  # share of the validation nodes that see a column: evidence enough for the longest


def seen(rows: Tensor) -> Tensor:
    """The share of nodes whose input in a column is not zero, from (nodes, …, columns)."""
    nonzero = (rows != 0).flatten(1, -2).any(1) if rows.ndim > 2 else rows != 0
    return nonzero.double().sum(0) / max(1, len(rows))


def column_factors(correction: Tensor, share_seen: Tensor) -> Tensor:
    """What each column is multiplied by, in [0, 1], so that none is longer than its evidence allows.

        ‖Γ_c‖ · factor_c ≤ 2 · median_k ‖Γ_k‖ · min(1, seen_c / 3 %)

    The median is over columns that are not zero: whoever wants to raise it has to lengthen half of them.
    """
    lengths = correction.double().norm(dim=0)
    if not (lengths > 0).any():
        return torch.ones_like(lengths)
    limit = LONGEST * lengths[lengths > 0].median() * (share_seen / ENOUGH).clamp_max(1)
    return torch.where(lengths > limit, limit / lengths, 1.0)
