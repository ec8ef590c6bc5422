"""GPU kernels in Triton for what torch lacks: products that end in a step, dropout from its own stream.

Rows of every client lie one after the other, and in a row the seeds: (clients × rows, seeds × width).
Sums are taken in one order, so a cohort ends at the same bytes every time. A kernel is compiled once
for all cohorts: sizes that change from one to the next are named in `do_not_specialize`.
"""

from pace.training.gpu.kernels.dropout import activate, draw
from pace.training.gpu.kernels.layers import below, error, linear, outer, sums
from pace.training.gpu.kernels.sparse import rows
from pace.training.gpu.kernels.steps import flat_step, idle, rows_step
from pace.training.gpu.kernels.tensor_cores import product, split

__all__ = [
    "activate",
    "below",
    "draw",
    "error",
    "flat_step",
    "idle",
    "linear",
    "outer",
    "product",
    "rows",
    "rows_step",
    "split",
    "sums",
]
