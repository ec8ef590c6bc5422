"""One graph into client graphs: who holds which nodes, in which order."""

from pace.partition.divide import PARTITIONS, Division, divide, division

__all__ = ["PARTITIONS", "Division", "divide", "division"]
