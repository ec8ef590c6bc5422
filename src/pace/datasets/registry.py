"""Datasets by name: the embedded ones, the benchmarks, or a file of one's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pace.datasets import file
from pace.datasets.benchmarks import BENCHMARKS, benchmark
from pace.datasets.dataset import Dataset
from pace.datasets.synthetic import FACES, named, synthetic
from pace.errors import SettingError, did_you_mean

DATASETS = (*FACES, *BENCHMARKS)


def load(name: str, root: str | Path | None = None) -> Dataset:
    """A dataset by name, or from a .graph file.

    Args:
        name: `cora`, another of `DATASETS`, `synthetic:nodes=500,degree=6`, or the path of a file.
        root: the folder of the benchmarks; $PACE_DATA or the cache by default.

    Returns:
        The whole graph; `pace.divide` makes client graphs of it.

    Raises:
        SettingError: the name is unknown, or a benchmark is neither there nor to be downloaded.
        GraphError: the file is damaged.

    Example:
        >>> import pace
        >>> pace.load("synthetic:nodes=90,features=12,communities=3,classes=3").classes
        3
    """
    if name.partition(":")[0] in FACES:
        settings = named(name)
        return Dataset(name, synthetic(settings), settings.classes)
    if name.lower() in BENCHMARKS:
        return benchmark(name.lower(), root)
    path = Path(name)
    if path.suffix == file.SUFFIX or path.is_file():
        return replace(file.read(path), name=path.stem)
    hint = did_you_mean(name.lower(), DATASETS)
    raise SettingError(
        f"dataset {name!r} is unknown: {hint}known are {', '.join(DATASETS)}, "
        f"and files that end in {file.SUFFIX}"
    )
