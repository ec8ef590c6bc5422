"""A dataset: one whole graph, before it is divided among clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

from pace.data.synthetic import FACES, synthetic
from pace.errors import SettingError
from pace.graph import Graph


@dataclass(frozen=True, eq=False)
class Dataset:
    """A graph whose masks are still empty, how many classes it has and how they are to be split."""

    name: str
    graph: Graph
    classes: int
    ratios: tuple[float, float, float] = (0.2, 0.4, 0.4)


def load(name: str) -> Dataset:
    """The dataset of that name."""
    if name not in LOADERS:
        close = get_close_matches(name, LOADERS, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise SettingError(f"dataset {name!r} is unknown: {hint}known are {', '.join(LOADERS)}")
    return LOADERS[name](name)


def _synthetic(name: str) -> Dataset:
    settings = FACES[name]
    return Dataset(name, synthetic(settings), settings.classes)


LOADERS: dict[str, Callable[[str], Dataset]] = dict.fromkeys(FACES, _synthetic)
