"""An embedded citation-like graph of any size, made from a seed in time linear in its edges.

Nodes live in communities that mix classes; an edge prefers its community and, by `homophily`, its
class; degrees are heavy-tailed. Features are bags of Zipf-distributed words, some of the whole
vocabulary, some of the class's topic. In a community's `dialect` the topics of the classes are
exchanged, so that what others learnt is wrong there.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from pace.errors import SettingError
from pace.graph import Graph

Array = np.ndarray[Any, Any]
Random = np.random.Generator


@dataclass(frozen=True)
class Synthetic:
    """The settings of a graph. Probabilities and shares are in [0, 1]."""

    nodes: int = 3000
    classes: int = 6
    features: int = 600
    communities: int = 30
    degree: float = 4.0  # mean number of neighbours
    mixing: float = 0.1  # share of edges that leave their community
    homophily: float = 0.7  # share of edges drawn within a class
    skew: float = 0.3  # of classes over communities: Dirichlet concentration, small is skewed
    words: int = 12  # mean words a node
    topical: float = 0.35  # share of words from the class's topic
    dialect: float = 0.0  # share of communities whose classes use each other's topics
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name in ("mixing", "homophily", "topical", "dialect"):
                sound, expected = 0 <= value <= 1, "a share in [0, 1]"
            elif name in ("degree", "skew", "seed"):
                sound, expected = 0 <= value < math.inf, "0 or more"
            else:
                sound, expected = value >= 1, "1 or more"
            if not sound:
                raise SettingError(f"{name} is {value}, expected {expected}")


def synthetic(settings: Synthetic) -> Graph:
    """The graph of these settings; its masks are empty."""
    random = np.random.Generator(np.random.PCG64(settings.seed))
    community = random.integers(settings.communities, size=settings.nodes)
    shares = random.dirichlet([settings.skew] * settings.classes, size=settings.communities)
    cumulative = shares.cumsum(1)[community]
    ranks = random.random((settings.nodes, 1)) * cumulative[:, -1:]
    label = (cumulative < ranks).sum(1).clip(max=settings.classes - 1)
    edges = _edges(settings, community, label, random)
    x = _words(settings, community, label, random)
    return Graph.build(torch.from_numpy(x), torch.from_numpy(edges), torch.from_numpy(label))


def _edges(settings: Synthetic, community: Array, label: Array, random: Random) -> Array:
    """A degree-corrected block model, edge by edge: a source, then a target from a pool of like nodes.

    The pools, from narrow to wide: same community and class, same community, same class, anyone.
    """
    count = round(settings.nodes * settings.degree / 2)
    weight = (1 - random.random(settings.nodes)) ** -0.5  # heavy-tailed, finite mean
    source = _by_weight(np.zeros(count, dtype=np.int64), np.zeros_like(label), weight, random)
    inside = random.random(count) >= settings.mixing
    alike = random.random(count) < settings.homophily
    target = np.empty(count, dtype=np.int64)
    for near in (False, True):
        for same in (False, True):
            chosen = (inside == near) & (alike == same)
            pool = near * community * settings.classes + same * label
            target[chosen] = _by_weight(pool[source[chosen]], pool, weight, random)
    return np.stack([source, target])


def _by_weight(wanted: Array, pool: Array, weight: Array, random: Random) -> Array:
    """A node of each wanted pool, with probability proportional to its weight."""
    order = np.argsort(pool, kind="stable")
    cumulative = np.concatenate([[0.0], np.cumsum(weight[order])])
    first = np.searchsorted(pool[order], wanted, side="left")
    last = np.searchsorted(pool[order], wanted, side="right")
    low, high = cumulative[first], cumulative[last]
    ranks = low + random.random(len(wanted)) * (high - low)
    index = np.searchsorted(cumulative, ranks, "right") - 1
    chosen: Array = order[index.clip(first, last - 1)]
    return chosen


def _words(settings: Synthetic, community: Array, label: Array, random: Random) -> Array:
    """Bags of words: each word from the common Zipf or from the topic of the node's class."""
    vocabulary = settings.features
    zipf = np.cumsum(1 / np.arange(1, vocabulary + 1))
    order = np.stack([random.permutation(vocabulary) for _ in range(settings.classes)])
    shift = random.integers(1, max(2, settings.classes), size=settings.communities)
    shift[random.random(settings.communities) >= settings.dialect] = 0
    topic = (label + shift[community]) % settings.classes
    words = 1 + random.poisson(settings.words - 1, settings.nodes)
    node = np.repeat(np.arange(settings.nodes), words)
    rank = np.searchsorted(zipf, random.random(len(node)) * zipf[-1]).clip(max=vocabulary - 1)
    topical = random.random(len(node)) < settings.topical
    word = np.where(topical, order[topic[node], rank], rank)
    x = np.zeros((settings.nodes, vocabulary), dtype=np.float32)
    x[node, word] = 1
    return x


# Communities that mislead each other: a harmful transfer, which CNLL turns down. In the plain graph
# they can learn from each other: PACE gains, plain averaging loses.
CLASH = partial(
    Synthetic, features=100, communities=10, degree=12.0, mixing=0.05, homophily=0.95,
    skew=10.0, topical=0.3, dialect=1.0,
)  # fmt: skip
