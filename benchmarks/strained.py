"""Both closed forms where sites lack something: few validation or training nodes, no edge, no meaning.

    python -m benchmarks.strained

prints a table: pooled test accuracy of Local, PACE and both forms, and how many of ten sites end below
Local, on one draw of the masks and one seed. A test of failures, not of merit.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product

import torch
from torch import Tensor

import pace
from benchmarks.clock import command
from pace.graph import Graph
from pace.reports import Table
from pace_study.study import CITATION
from pace_study.tables import title

METHODS = ("pace", "pace-ridge", "pace-ridge-sums")


def few(mask: Tensor, count: int) -> Tensor:
    """So many nodes of a mask, drawn."""
    nodes = mask.nonzero().flatten()
    order = torch.randperm(len(nodes), generator=torch.Generator().manual_seed(0))
    return torch.zeros_like(mask).index_fill(0, nodes[order[:count]], True)


def noise(graph: Graph) -> Tensor:
    return torch.randn(graph.x.shape, generator=torch.Generator().manual_seed(graph.nodes))


STRAINS: Mapping[str, Callable[[Graph], Graph]] = {
    "1 validation node": lambda graph: replace(graph, val=few(graph.val, 1)),
    "3 validation nodes": lambda graph: replace(graph, val=few(graph.val, 3)),
    "10 validation nodes": lambda graph: replace(graph, val=few(graph.val, 10)),
    "1 training node": lambda graph: replace(graph, train=few(graph.train, 1)),
    "5 training nodes": lambda graph: replace(graph, train=few(graph.train, 5)),
    "no edge": lambda graph: replace(graph, edges=torch.zeros((2, 0), dtype=torch.int64)),
    "dense features of both signs": lambda graph: replace(graph, x=graph.x + 0.1 * noise(graph)),
    "features are noise": lambda graph: replace(graph, x=noise(graph)),
}


def strained_row(strain: str, dataset: str) -> list[str]:
    """Pooled accuracy of Local and, with the sites it harms in brackets, of each method."""
    divided = pace.divide(pace.load(dataset), "louvain", clients=10, data_seed=3)
    result = pace.simulate(list(map(STRAINS[strain], divided)), METHODS, seeds=[1], device="cpu")
    pooled = result.frame("seed").set_index(["method", "reading"]).accuracy
    sites = result.frame("client").pivot(columns=["method", "reading"], index="client")["accuracy"]
    cells = [f"{100 * pooled['pace', 'local']:.1f}"]
    for name in METHODS:
        harmed = (sites[name].adopted < sites[name].local).sum()
        cells.append(f"{100 * pooled[name, 'adopted']:.1f} ({harmed})")
    return [strain, title(dataset), *cells]


def main() -> None:
    """Print the table."""
    rows = [strained_row(strain, dataset) for strain, dataset in product(STRAINS, CITATION)]
    heads = ["Every site has", "Graph", "Local", *METHODS]
    print(Table.of("", heads, rows, names=2, words=0).markdown())


if __name__ == "__main__":
    command(main)
