"""Graphs by name: the embedded one, benchmarks, and a user's own.

The names in `__all__` are for everybody. Other rooms use `benchmarks`, `codebook`, `dataset`,
`dates`, `describe`, `encode`, `features`, `file`, `folders`, `importing`, `nodes`, `problems`,
`raw`, `suspicions`, `synthetic`, `table` and `tables`.
"""

from pace.data.dataset import Dataset, Names
from pace.data.registry import DATASETS, load

__all__ = ["DATASETS", "Dataset", "Names", "load"]
