"""Which rows of each layer the logits of some nodes depend on, and a sparse matrix between them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from pace.graph import Graph
from pace.models.operator import Operator, csr_array, csr_tensor

Places = Tensor | slice  # slice(None) where nothing is left out


@dataclass(frozen=True, eq=False)
class Reach:
    """Row sets R_0, …, R_n, from the widest to the centres; R_l+1 is part of R_l."""

    rows: tuple[Places, ...]
    """Nodes of each row set."""
    blocks: tuple[Operator, ...]
    """A from R_l to R_l+1: (rows of R_l+1, rows of R_l)."""
    own: tuple[Places, ...]
    """Where R_l+1 stands among R_l."""
    centers: tuple[Tensor, ...]
    """Where the centres stand among each R_l."""


def reach(
    matrix: Operator | None, graph: Graph, steps: int, centers: Tensor | None = None
) -> Reach:
    """Row sets that grow from the centres outwards, `steps` times: R_n = centres (a mask),

        R_l = R_l+1 and all columns that rows R_l+1 of A read.

    Without `centers`, every row set is the whole graph. Without steps there need be no A.
    """
    device = graph.x.device
    if centers is None:
        all_nodes, everyone = torch.arange(graph.nodes, device=device), slice(None)
        blocks = () if matrix is None else (matrix,) * steps
        return Reach(
            (everyone,) * (steps + 1), blocks, (everyone,) * steps, (all_nodes,) * (steps + 1)
        )
    goal = centers.cpu().nonzero().flatten()
    rows = [goal]
    blocks_between: list[Operator] = []
    entries = None if matrix is None else csr_array(matrix.matrix)
    for _ in range(steps):
        assert entries is not None
        block = entries[rows[0].numpy()]
        reached = torch.from_numpy(np.union1d(block.indices, rows[0].numpy())).long()
        blocks_between.insert(0, Operator(csr_tensor(block[:, reached.numpy()].tocsr())).to(device))
        rows.insert(0, reached)
    return Reach(
        tuple(row.to(device) for row in rows),
        tuple(blocks_between),
        tuple(torch.searchsorted(below, above).to(device) for below, above in pairwise(rows)),
        tuple(torch.searchsorted(row, goal).to(device) for row in rows),
    )


def chosen(hidden: Tensor, places: Places) -> Tensor:
    """The rows at `places`; `index_select`, whose gradient is the fast one."""
    return hidden if isinstance(places, slice) else hidden.index_select(0, places)
