"""GPU kernels in Triton for what torch lacks: products that end in a step, dropout from its own stream.

Rows of every client lie one after the other, and in a row the seeds: (clients × rows, seeds × width).
Sums are taken in one order, so a cohort ends at the same bytes every time. A kernel is compiled once
for all cohorts: sizes that change from one to the next are named in `do_not_specialize`.
"""

from pace_gpu.kernels.layers import DeviceGradient, activate, draw
from pace_gpu.kernels.products import product, rows, split
from pace_gpu.kernels.steps import DeviceOptimiser, FusedFirstLayer
