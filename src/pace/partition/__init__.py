"""One graph into client graphs: who holds which nodes, in which order."""

from pace.partition.divide import PARTITIONS, divide

__all__ = ["PARTITIONS", "divide"]
