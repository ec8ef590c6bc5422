"""Graphs by name and their division among clients: benchmarks, the embedded graph, a user's own."""

from pace.datasets import file, folder
from pace.datasets.benchmarks import BENCHMARKS, data_root, locate
from pace.datasets.dataset import SITE_RATIOS, Dataset, Names, describe_graph, few_labels
from pace.datasets.file import graph_sizes, load, read_graph
from pace.datasets.folder import is_folder, read_folder
from pace.datasets.partition import (
    DATA_SEED,
    describe_clients,
    divide,
    read_partition,
    with_drawn_masks,
    write_graphs,
    write_partition,
)
from pace.datasets.synthetic import Synthetic, synthetic
