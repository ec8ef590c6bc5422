"""One graph into client graphs: who holds which nodes, in which order.

The names in `__all__` are for everybody. Other rooms use `divide` and `file`.
"""

from pace.datasets.partition.divide import Division, divide
from pace.registry import PARTITIONS

__all__ = ["PARTITIONS", "Division", "divide"]
