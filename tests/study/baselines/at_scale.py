"""The heavy steps of the baselines on a client of ogbn-arxiv's size: seconds, and peak memory.

    python tests/study/baselines/at_scale.py [nodes]

Each step runs in a process of its own, so that a peak is that step's. A matrix of nodes × nodes
numbers would alone take 1.2 GB at 17,000 nodes.
"""

import json
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable

import torch

from pace.datasets import DATA_SEED, Dataset
from pace.datasets.partition import Random, client_graphs
from pace.datasets.synthetic import Synthetic, synthetic
from pace.graph import Graph
from pace.methods import Local
from pace.models.networks import GCN
from pace.protocol.federation import Federation
from pace.protocol.method import Method
from pace.protocol.uploads import Messages
from pace.training.train import train
from pace_study.baselines.fedaux import FedAux
from pace_study.baselines.fedgta import FedGTA
from pace_study.baselines.fedpub import FedPub
from pace_study.baselines.fedrcl import FedRCL
from pace_study.baselines.fedtad import FedTAD

NODES, FEATURES, CLASSES, DEGREE = 17_000, 128, 40, 14
CLIENTS, EPOCHS = 10, 3


def client(nodes: int) -> Graph:
    """A graph with ogbn-arxiv's features, classes, degree and split."""
    settings = Synthetic(nodes=nodes, features=FEATURES, classes=CLASSES, degree=DEGREE)
    dataset = Dataset("arxiv", synthetic(settings), CLASSES, (0.6, 0.2, 0.2))
    return client_graphs(dataset, [range(nodes)], Random(DATA_SEED))[0]


def training(method: Method, graph: Graph) -> float:
    """Seconds of one epoch, the constants of the graph left out."""
    agreed = Federation(GCN((FEATURES, 64, CLASSES)), method, epochs=EPOCHS)
    agreed.network(agreed.start, graph)
    began = time.perf_counter()
    train(graph, agreed.network, agreed.start, recipe=agreed.recipe, seed=1)
    return (time.perf_counter() - began) / EPOCHS


def sharing(method: Method, graph: Graph) -> float:
    """Seconds of a client's upload."""
    agreed = Federation(GCN((FEATURES, 64, CLASSES)), method)
    agreed.network(agreed.start, graph)
    began = time.perf_counter()
    agreed.method.share(agreed.start, graph, agreed)
    return time.perf_counter() - began


def merging(method: Method, graph: Graph) -> float:
    """Seconds of the server, for all clients."""
    agreed = Federation(GCN((FEATURES, 64, CLASSES)), method)
    upload = agreed.method.share(agreed.start, graph, agreed)
    began = time.perf_counter()
    list(agreed.method.merge(Messages([upload] * CLIENTS), agreed))
    return time.perf_counter() - began


STEPS: dict[str, tuple[Callable[[Method, Graph], float], Method]] = {
    "local, an epoch": (training, Local()),
    "fedaux, an epoch": (training, FedAux()),
    "fedpub, an epoch": (training, FedPub()),
    "fedrcl, an epoch": (training, FedRCL()),
    "fedgta, an upload": (sharing, FedGTA()),
    "fedtad, an upload": (sharing, FedTAD()),
    "fedgta, the server": (merging, FedGTA()),
    "fedtad, the server": (merging, FedTAD()),
    "fedaux, the server": (merging, FedAux()),
}


def measure(name: str, nodes: int) -> dict[str, float]:
    torch.set_num_threads(1)
    step, method = STEPS[name]
    graph = client(nodes)
    seconds = step(method, graph)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": round(seconds, 2), "megabytes": round(peak)}


def main(nodes: int) -> None:
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for name in STEPS:
            found = pool.apply(measure, (name, nodes))
            print(json.dumps({"step": name, "nodes": nodes, **found}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else NODES)
