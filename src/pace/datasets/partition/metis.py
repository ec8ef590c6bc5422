"""METIS: parts of equal size with few edges between them (the extra `research`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from pace.errors import SettingError

Array = np.ndarray[Any, np.dtype[np.int64]]


def metis(edges: Tensor, nodes: int, clients: int) -> list[Array]:
    """Each client's nodes in ascending order. METIS uses its own fixed seed.

    `edges` are both directions, sorted, so that every node's neighbours come in ascending order.
    """
    try:
        import pymetis
    except ImportError:
        raise SettingError(
            "the partition metis needs pymetis: pip install 'pace-fgl[research]'"
        ) from None
    source, target = edges.numpy()
    starts = np.searchsorted(source, np.arange(nodes + 1))
    _, part = pymetis.part_graph(clients, pymetis.CSRAdjacency(starts, target))
    part = np.asarray(part)
    return [np.flatnonzero(part == client) for client in range(clients)]
