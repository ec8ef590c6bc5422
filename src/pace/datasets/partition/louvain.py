"""Louvain communities packed into clients of nearly equal size, as OpenFGL does it."""

from __future__ import annotations

import contextlib
import hashlib
import math
from importlib import metadata
from typing import Any

import numpy as np
from scipy import sparse
from torch import Tensor

from pace.datasets.benchmarks import cache_folder
from pace.errors import SettingError
from pace.io import atomic

Array = np.ndarray[Any, np.dtype[np.int64]]

RESOLUTION = 1.0
DELTA = 20  # the slack below the target at which communities are cut, and above it when packing
REMEMBERED = 1000  # nodes of a graph whose communities are worth a file in the cache
PATIENCE = 1000  # advances of the cursor before a group is placed regardless


def louvain(
    edges: Tensor, nodes: int, clients: int, *, resolution: float = RESOLUTION, delta: int = DELTA
) -> list[list[int]]:
    """Each client's nodes, in the order that numbers them locally. No random number is drawn."""
    groups: dict[int, list[int]] = {}  # communities by first appearance, each in ascending order
    side = int(edges.max()) + 1 if edges.numel() else 0
    labels = remembered(edges.numpy(), side, resolution).tolist() if side else []
    for node, label in enumerate(labels):
        groups.setdefault(label, []).append(node)
    # The matrix ends at the last node with an edge: those behind it are communities of their own.
    communities = [*groups.values(), *([node] for node in range(side, nodes))]
    cuts = cut(communities, max(1, nodes // clients - delta))
    cuts.sort(key=len, reverse=True)  # stable: equal sizes stay in order
    return pack(cuts, clients, target=nodes // clients, delta=delta)


def remembered(edges: Array, side: int, resolution: float) -> Array:
    """Each node's community, from the cache if these very edges were looked at before.

    Importing scikit-network takes half a second, a tenth of a warm `pace run --dataset cora`.
    """
    try:
        version = metadata.version("scikit-network")
    except metadata.PackageNotFoundError:
        raise SettingError(
            "the partition louvain needs scikit-network: pip install 'pace-fgl[research]', or choose "
            "the partition dirichlet"
        ) from None
    if side < REMEMBERED:
        return computed(edges, side, resolution)
    key = hashlib.sha256(f"{side} {resolution} {version} ".encode() + edges.tobytes()).hexdigest()
    kept = cache_folder() / "louvain" / f"{key}.labels"
    with contextlib.suppress(OSError, ValueError):
        content = kept.read_bytes()
        if len(content) == 8 * side:
            return np.frombuffer(content, dtype="<i8").astype(np.int64)
    labels = computed(edges, side, resolution)
    with contextlib.suppress(OSError, SettingError):  # without a cache the next start is slower
        atomic.write(kept, labels.astype("<i8").tobytes())
    return labels


def computed(edges: Array, side: int, resolution: float) -> Array:
    """scikit-network's Louvain."""
    from sknetwork.clustering import Louvain

    shape = (side, side)
    adjacency = sparse.csr_matrix((np.ones(edges.shape[1]), (edges[0], edges[1])), shape=shape)
    labels: Array = Louvain(modularity="newman", resolution=resolution).fit_predict(adjacency)
    return labels.astype(np.int64)


def cut(groups: list[list[int]], cap: int) -> list[list[int]]:
    """Cut every group longer than `cap`; the rest goes to the end of the list, to be cut again."""
    groups = list(groups)
    for index, group in enumerate(groups):  # which grows meanwhile
        if len(group) > cap:
            groups.append(group[cap:])
            groups[index] = group[:cap]
    return groups


def pack(groups: list[list[int]], clients: int, *, target: int, delta: int) -> list[list[int]]:
    """Fill clients group by group. The cursor stays on a client until it is full or overflows.

    A group that fits nowhere goes where OpenFGL puts it. It means the emptiest client, but compares
    the client under the cursor, not the one it scans; kept literally, since partitions depend on it.
    """
    held: list[list[int]] = [[] for _ in range(clients)]
    waiting = list(range(clients))
    cursor = 0
    for group in groups:
        while len(waiting) > 1 and len(held[waiting[cursor]]) >= target:
            del waiting[cursor]
            cursor %= len(waiting)
        for _ in range(PATIENCE + 1):
            if len(held[waiting[cursor]]) + len(group) < target + delta:
                break
            cursor = (cursor + 1) % len(waiting)
        else:
            least = math.inf
            for index in range(len(waiting)):
                if len(held[waiting[cursor]]) < least:
                    least, cursor = len(held[waiting[cursor]]), index
        held[waiting[cursor]].extend(group)
    return held
