"""Graphs by name and their division among clients: benchmarks, the embedded graph, a user's own.

The names in `__all__` are for everybody. Other rooms use `benchmarks`, `dataset`, `file`, `partition`,
`partition.divide`, `partition.file` and `synthetic`.
"""

from pace.datasets.dataset import Dataset, Names
from pace.datasets.file import load
from pace.registry import DATASETS

__all__ = ["DATASETS", "Dataset", "Names", "load"]
