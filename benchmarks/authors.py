"""What authors' own programs give on the same clients, beside what the study makes of their methods.

    git clone https://github.com/xkLi-Allen/OpenFGL
    git clone https://github.com/Youth-49/O-pFGL
    python -m benchmarks.authors OpenFGL fedgta --draws 10
    python -m benchmarks.authors O-pFGL o-pfgl --draws 10

prints test accuracies of a method's models as they come, no gate beside them. `fedavg`, `fedgta` and
`fedpub` are OpenFGL's clients and servers, a hundred rounds of three epochs at a rate of 0.01, read at
the round that validation nodes like best; O-pFGL is its authors' whole program with their settings for
Cora. Libraries that they ask for, and of which they use a line or none, are stood in for.
"""

import random
import sys
from collections.abc import Iterator, Sequence
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.nn import GCNConv

import pace
from benchmarks.clock import Point, command
from pace.graph import Graph
from pace.protocol import SEED
from pace_study.controls import study_method
from pace_study.rounds import ROUNDS

ROUNDS_PLAYED = 100
OPFGL = """--dataset Cora --num_clients 10 --partition Louvain+ --hid_dim 64 --hops 1 --ipc 1
  --personalized --condensing_loop 3000 --local_strategy nd_lp_reg_ft --patience 10 --lr_ft 5e-5
  --reg_a 0.2 --reg_max 0.15 --lp_iter 2 --lp_alpha 0.9 --topk 1 --thres 1.0 --d_thres 20"""


def measure(
    checkout: Path, method: str, dataset: str = "cora", draws: str = "10"
) -> Iterator[Point]:
    """Their accuracy and ours on each draw of the masks, ten clients under Louvain."""
    stand_in()
    sys.path.insert(0, str(checkout))
    name = method if method == "o-pfgl" else f"{method}-rounds"
    assert name in ROUNDS or method == "o-pfgl", f"{method} is not fedavg, fedgta, fedpub or o-pfgl"
    for draw in map(int, draws.split(",")):
        graphs = pace.divide(pace.load(dataset), "louvain", clients=10, data_seed=draw)
        result = pace.simulate(graphs, {method: study_method(name, graphs=graphs)}, seeds=[SEED])
        ours = result.frame("seed").set_index("reading").accuracy["external"]
        theirs = opfgl(checkout, graphs) if method == "o-pfgl" else openfgl(method, graphs)
        yield {"method": method, "dataset": dataset, "draw": draw, "theirs": theirs, "ours": ours}


def openfgl(method: str, graphs: Sequence[Graph]) -> float:
    """Pooled test accuracy of the clients' models after the best round."""
    settings = import_module("openfgl.config").args
    vars(settings).update(model=["gcn"], metrics=["accuracy"], dataset=["Cora"])
    base: Any = import_module("openfgl.flcore.base")
    tasks: Any = import_module("openfgl.task.node_cls")

    class Task(tasks.NodeClsTask):  # type: ignore[misc]
        def load_train_val_test_split(self) -> None:
            parts = {name: self.data[name] for name in ("train_mask", "val_mask", "test_mask")}
            self.__dict__.update(parts)
            self.splitted_data = self.processed_data = {"data": self.data, **parts}

    base.load_task = Task
    seeded(SEED)
    messages: dict[str, Any] = {"sampled_clients": list(range(len(graphs)))}
    data = [graph.to_pyg() for graph in graphs]
    for own in data:
        own.num_global_classes = graphs.classes  # type: ignore[attr-defined]
    kinds = (import_module(f"openfgl.flcore.{method}.{side}") for side in ("client", "server"))
    client, server = (
        next(kind for name, kind in vars(module).items() if name.lower() == method + side)
        for module, side in zip(kinds, ("client", "server"), strict=True)
    )
    clients = [client(settings, i, own, "", messages, "cpu") for i, own in enumerate(data)]
    middle, best = server(settings, data[0], "", messages, "cpu"), (-1.0, 0.0)
    for messages["round"] in range(ROUNDS_PLAYED):
        middle.send_message()
        for site in clients:
            site.execute()
            site.send_message()
        middle.execute()
        logits = [site.task.evaluate(mute=True)["logits"] for site in clients]
        best = max(best, (pooled(logits, graphs, "val"), pooled(logits, graphs, "test")))
    return best[1]


def opfgl(checkout: Path, graphs: Sequence[Graph]) -> float:
    """The program up to where it reads its data, then on ours."""
    text = (checkout / "main.py").read_text().split("if __name__ ==")[0]
    text = text.replace("from util.base_util import seed_everything, load_dataset", "")
    sys.argv = ["main.py", *OPFGL.split()]
    theirs = ModuleType("main")
    exec(compile(text, "main.py", "exec"), vars(theirs))
    features, classes = graphs[0].features, graphs.classes  # type: ignore[attr-defined]
    theirs.device = torch.device("cpu")  # type: ignore[attr-defined]
    seeded(0)
    shape = {"in_channels": features, "hidden_channels": 64, "out_channels": classes, "dropout": 0}
    model, spread = theirs.MyGCN(num_layers=2, **shape), theirs.GCN(num_layers=1, **shape)
    masks = [{"train_idx": g.train, "val_idx": g.val, "test_idx": g.test} for g in graphs]
    data = [
        SimpleNamespace(x=graph.x, y=graph.y, edge_index=graph.edges, num_nodes=graph.nodes, **own)
        for graph, own in zip(graphs, masks, strict=True)
    ]
    common = (deepcopy(spread), classes, theirs.device)
    clients = [
        theirs.Client(theirs.args, index, deepcopy(model), "GCN", own, *common)
        for index, own in enumerate(data)
    ]
    whole = SimpleNamespace(num_classes=classes, global_dataset=data[0])
    named = [theirs.args, deepcopy(model), whole, clients, ["GCN"] * len(data)]
    theirs.Server(*named, deepcopy(spread), theirs.device).gather_dist()
    with torch.no_grad():
        logits = [
            own.model.eval()(graph.x, graph.edges)
            for own, graph in zip(clients, graphs, strict=True)
        ]
    return pooled(logits, graphs, "test")


def pooled(logits: Sequence[Tensor], graphs: Sequence[Graph], mask: str) -> float:
    """The accuracy over all clients' nodes."""
    right = [
        (z.argmax(1) == graph.y)[getattr(graph, mask)]
        for z, graph in zip(logits, graphs, strict=True)
    ]
    return float(torch.cat(right).float().mean())


def seeded(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


def stand_in() -> None:
    """Modules in place of libraries that are compiled, or used for what is not run here."""

    def normalised(matrix: Tensor, sparse: bool) -> Tensor:
        whole = matrix.to_dense() + torch.eye(len(matrix))
        scale = whole.sum(1).rsqrt()
        scaled: Tensor = (scale[:, None] * whole * scale).to_sparse_coo()
        return scaled.coalesce()

    def matrix(row: Tensor, col: Tensor, value: Tensor, sparse_sizes: tuple[int, int]) -> Tensor:
        return torch.sparse_coo_tensor(torch.stack([row, col]), value, sparse_sizes).coalesce()

    def added(values: Tensor, index: Tensor, dim: int = 0, dim_size: int = 0) -> Tensor:
        return values.new_zeros(dim_size).index_add(dim, index, values)

    sparse = type("SparseTensor", (), {"__new__": lambda cls, **parts: matrix(**parts)})
    nothing: Any = None
    for name, content in {
        "munkres": {"Munkres": nothing},
        "louvain": {},
        "louvain.community": {"community_louvain": nothing},
        "deeprobust": {},
        "deeprobust.graph": {},
        "deeprobust.graph.utils": {
            "is_sparse_tensor": lambda matrix: matrix.layout == torch.sparse_coo,
            "normalize_adj_tensor": normalised,
        },
        "torch_scatter": {"scatter_add": added},
        "torch_sparse": dict.fromkeys(("fill_diag", "matmul", "mul", "sum"))
        | {"SparseTensor": sparse},
    }.items():
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update(content)
    propagate: Any = GCNConv.propagate

    def lenient(self: Any, edges: Any, x: Any, edge_weight: Any = None, size: Any = None) -> Any:
        """As older versions had it: without a weight there is none."""
        return propagate(self, edges, x=x, edge_weight=edge_weight, size=size)

    GCNConv.propagate = lenient


if __name__ == "__main__":
    command(measure)
