"""Graphs by name: the embedded one, benchmarks, and a user's own."""

from pace.data.dataset import Dataset, load

__all__ = ["Dataset", "load"]
