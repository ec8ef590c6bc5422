"""Graphs by name: the embedded one, benchmarks, and a user's own."""

from pace.data.dataset import Dataset, Names
from pace.data.registry import DATASETS, load

__all__ = ["DATASETS", "Dataset", "Names", "load"]
