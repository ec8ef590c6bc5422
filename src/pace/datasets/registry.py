"""Datasets by name: the embedded ones, the benchmarks, one's own code, or a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pace.datasets import file
from pace.datasets.dataset import Dataset
from pace.datasets.synthetic import Synthetic, synthetic
from pace.errors import SettingError
from pace.io.settings import split_settings
from pace.registry import DATASETS


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
    path = Path(name)
    listed = split_settings(name)[0].lower()
    if path.suffix == file.SUFFIX or (path.is_file() and listed not in DATASETS):
        return replace(file.read_graph(path), name=path.stem)
    dataset = DATASETS.prepare(name, name=listed, root=root)()
    if isinstance(dataset, Synthetic):
        dataset = Dataset(name, synthetic(dataset), dataset.classes)
    if not isinstance(dataset, Dataset):
        raise SettingError(
            f"{name} makes a {type(dataset).__name__}, expected a pace.datasets.Dataset"
        )
    return dataset
