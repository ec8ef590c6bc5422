"""One graph into client graphs: who holds which nodes, in which order."""

from pace.datasets.partition.divide import Division, divide
from pace.registry import PARTITIONS
