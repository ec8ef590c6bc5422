"""Sections 4.1 to 4.3: carrier, moments, consensus, correction, and variants of them."""

from pace.merging.carrier import BATCH, RANK, batches, compress, norms, pack, unbatched, unpack
from pace.merging.consensus import CLIENTS, Batch, mean, summed
from pace.merging.contributions import Contributions, SiteSums, left_out_loss, weigh_sites
from pace.merging.correction import apply, column_factors, correction, corrections, seen
from pace.merging.moments import EPS, Geometry, check, check_complete, propagated, raw, uniform
from pace.merging.ridge import (
    Gram,
    compressed,
    expanded,
    limit_rows,
    nystrom,
    public_matrix,
    sketched,
    solve_rows,
    solve_sums,
)
