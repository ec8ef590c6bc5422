"""Graphs by name and their division among clients: benchmarks, the embedded graph, a user's own.

The names in `__all__` are for everybody. Other rooms use `benchmarks`, `dataset`, `describe`, `file`,
`folders`, `partition`, `partition.describe`, `partition.dirichlet`, `partition.divide`,
`partition.file`, `partition.louvain`, `partition.picture`, `partition.sites`, `partition.split`, `raw`
and `synthetic`.
"""

from pace.datasets.dataset import Dataset, Names
from pace.datasets.registry import load
from pace.registry import DATASETS

__all__ = ["DATASETS", "Dataset", "Names", "load"]
