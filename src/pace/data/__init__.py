"""Graphs by name: the embedded one, benchmarks, and a user's own."""

from pace.data.by_name import DATASETS, load
from pace.data.dataset import Dataset, Names

__all__ = ["DATASETS", "Dataset", "Names", "load"]
