"""The library in five lines: PyG graphs in, each client's predictions out."""

import torch
from torch_geometric.data import Data

from pace import GCN, Federation, Graph, Pace, adopt, fit, merge
from pace.datasets import divide, load


def federate(parts: list[Data], features: int, classes: int) -> None:
    graphs = [Graph.from_pyg(data) for data in parts]  # each stays at its site
    federation = Federation(GCN((features, 64, classes)), Pace(rank=6), seed=104729)
    fitted = [fit(graph, federation) for graph in graphs]  # train; keep Local, send the upload
    returns = merge([upload for _, upload in fitted], federation)  # the server, once
    for graph, (kept, upload), returned in zip(graphs, fitted, returns, strict=True):
        adoption = adopt(graph, kept, returned, federation)  # choose alpha on one's own validation
        right = (adoption.logits.argmax(1) == graph.y)[graph.test].float().mean()
        print(
            f"{graph.nodes} nodes, {len(upload):,} bytes up, {len(returned):,} down: "
            f"alpha {adoption.alpha:.2f}, test accuracy {right:.1%}"
        )


if __name__ == "__main__":
    torch.set_num_threads(1)  # small products: a second thread only gets in the way
    dataset = load("synthetic")
    parts = [graph.to_pyg() for graph in divide(dataset, "louvain", clients=5)]
    federate(parts, dataset.graph.features, dataset.classes)
