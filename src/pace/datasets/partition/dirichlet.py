"""Label skew: each class is dealt to the clients by shares from a Dirichlet distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from pace.errors import SettingError

ALPHA = 0.5
ATTEMPTS = 101
SMALLEST = 5  # nodes of the smallest client, else everything is drawn again

Array = np.ndarray[Any, np.dtype[np.int64]]


def dirichlet(
    labels: Tensor, classes: int, clients: int, random: np.random.RandomState
) -> list[Array]:
    """Each client's nodes: class after class, shuffled within a class.

    The stream is not reset between attempts, and masks go on where the last one stops.
    """
    for _ in range(ATTEMPTS):
        held = attempt(labels.numpy(), classes, clients, random)
        if min(map(len, held)) >= SMALLEST:
            return held
    raise SettingError(
        f"in {ATTEMPTS} Dirichlet draws some client always had fewer than {SMALLEST} nodes: "
        f"ask for fewer than {clients} clients"
    )


def attempt(
    labels: Array, classes: int, clients: int, random: np.random.RandomState
) -> list[Array]:
    """One draw. A client that holds its even share of the nodes takes no further class.

    Nodes without a label (-1) are dealt last, like one more class.
    """
    held: list[list[Array]] = [[] for _ in range(clients)]
    sizes = np.zeros(clients, dtype=np.int64)
    for label in [*range(classes), -1]:
        members = np.flatnonzero(labels == label)
        if label == -1 and not len(members):
            break
        random.shuffle(members)
        shares = random.dirichlet(np.repeat(ALPHA, clients))
        shares = shares * (sizes < len(labels) / clients)
        shares = shares / max(shares.sum(), np.finfo(float).tiny)  # all full: nothing left to deal
        cuts = (np.cumsum(shares) * len(members)).astype(np.int64)[:-1]
        for client, part in enumerate(np.split(members, cuts)):
            held[client].append(part)
            sizes[client] += len(part)
    return [np.concatenate(parts) for parts in held]
