"""What everybody would write for `pace run`'s table: PyG's layers, dense SVDs, SciPy, scikit-learn.

Run by `python -m benchmarks --only command` as a program of its own; nothing of PACE is imported.

    python -P plain_script.py DATASET RAW_ROOT DEVICE
"""

import sys
from collections import defaultdict
from copy import deepcopy

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.metrics import accuracy_score, f1_score
from sknetwork.clustering import Louvain
from torch.nn.functional import cross_entropy
from torch_geometric.datasets import Amazon, Coauthor, Planetoid
from torch_geometric.nn import GCN
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import to_scipy_sparse_matrix, to_undirected

SEEDS = [104729, 130363, 155921, 181081, 206639]
CLIENTS, HIDDEN, EPOCHS, RANK = 10, 64, 100, 6
DATA = {
    **{name.lower(): (Planetoid, name) for name in ("Cora", "CiteSeer", "PubMed")},
    "cs": (Coauthor, "CS"),
    "computers": (Amazon, "Computers"),
}


def clients(data, device):
    """Louvain communities dealt to the smallest client; 20, 40 and 40 % of each class."""
    data.edge_index = to_undirected(data.edge_index)
    matrix = to_scipy_sparse_matrix(data.edge_index, num_nodes=data.num_nodes).tocsr()
    labels = Louvain(modularity="newman").fit_predict(matrix)
    groups = sorted((np.flatnonzero(labels == label) for label in np.unique(labels)), key=len)
    divided = [[] for _ in range(CLIENTS)]
    for group in reversed(groups):
        min(divided, key=len).extend(group.tolist())
    random = np.random.RandomState(2024)
    sites = []
    for nodes in divided:
        site = data.subgraph(torch.tensor(sorted(nodes)))
        masks = torch.zeros(3, site.num_nodes, dtype=torch.bool)
        for label in site.y.unique():
            order = random.permutation(torch.nonzero(site.y == label).flatten().numpy())
            parts = np.split(order, [int(0.2 * len(order)), int(0.6 * len(order))])
            for mask, part in zip(masks, parts, strict=True):
                mask[part] = True
        site.train_mask, site.val_mask, site.test_mask = masks
        sites.append(site.to(device))
    return sites


def train(site, start, seed):
    torch.manual_seed(seed)
    net = deepcopy(start).train()
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(EPOCHS):
        optimiser.zero_grad()
        logits = net(site.x, site.edge_index)
        cross_entropy(logits[site.train_mask], site.y[site.train_mask]).backward()
        optimiser.step()
    return net.eval()


def cut(value):
    """A weight at rank 6; a bias as it is."""
    if value.ndim < 2:
        return value
    left, values, right = torch.linalg.svd(value, full_matrices=False)
    return left[:, :RANK] * values[:RANK] @ right[:RANK]


def moments(net, site):
    """Mean squares of what each weight multiplies: P X and P H."""
    x, edges, nodes = site.x, site.edge_index, site.num_nodes
    spread = torch.sparse_coo_tensor(*gcn_norm(edges, num_nodes=nodes), (nodes, nodes))
    hidden = net.convs[0](x, edges).relu()
    squares = [(spread @ rows)[site.train_mask].square().mean(0) for rows in (x, hidden)]
    scaled = [moment / moment.mean() + 1e-12 for moment in squares]
    return {f"convs.{layer}.lin.weight": moment for layer, moment in enumerate(scaled)}


def mean(states, weights):
    """Of each parameter; a client's weight is a number, or one for some parameter's columns."""
    averages = {}
    for name in states[0]:
        own = [part.get(name, 1.0) if isinstance(part, dict) else part for part in weights]
        parts = (state[name] * weight for state, weight in zip(states, own, strict=True))
        averages[name] = sum(parts) / sum(own)
    return averages


def alpha(local, external, site):
    """The weight with the least negative log-likelihood on the validation nodes."""
    if not site.val_mask.any():
        return 0.0
    pair = [logits[site.val_mask].cpu().double().numpy() for logits in (local, external)]
    truth = site.y[site.val_mask].cpu().numpy()

    def risk(weight):
        mixed = log_softmax((1 - weight) * pair[0] + weight * pair[1], axis=1)
        return -mixed[np.arange(len(truth)), truth].mean()

    least = minimize_scalar(risk, bounds=(0, 1), method="bounded", options={"xatol": 1e-6})
    return min((0.0, 1.0, least.x), key=risk)


def scored(logits, sites):
    """Accuracy, weighted F1 and macro F1 over the test nodes of all clients."""
    pairs = zip(logits, sites, strict=True)
    truth = torch.cat([site.y[site.test_mask] for site in sites]).cpu()
    called = torch.cat([rows.argmax(1)[site.test_mask] for rows, site in pairs]).cpu()
    f1 = [f1_score(truth, called, average=kind) for kind in ("weighted", "macro")]
    return accuracy_score(truth, called), *f1


def answers(sites, start, seed):
    """Logits by method: for each site those of Local, of what came, and of what is adopted."""
    nets = [train(site, start, seed) for site in sites]
    logits = {"local": [], "fedavg": [], "pace": []}
    with torch.no_grad():
        local = [net.state_dict() for net in nets]
        first = start.state_dict()
        carriers = [{key: cut(state[key] - first[key]) for key in state} for state in local]
        shared = mean(carriers, list(map(moments, nets, sites)))
        averaged = mean(local, [float(site.num_nodes) for site in sites])
        for net, site, state, own in zip(nets, sites, local, carriers, strict=True):
            corrected = {key: state[key] + cut(shared[key] - own[key]) for key in shared}
            before = net(site.x, site.edge_index)
            logits["local"].append((before, before, before))
            for method, model in (("fedavg", averaged), ("pace", corrected)):
                net.load_state_dict(model)
                after = net(site.x, site.edge_index)
                weight = alpha(before, after, site)
                logits[method].append((before, after, (1 - weight) * before + weight * after))
    return logits


def main():
    name, root, device = sys.argv[1:]
    torch.set_num_threads(1)
    kind, title = DATA[name]
    data = kind(f"{root}/{kind.__name__}", title)[0]
    classes, sites, scores = int(data.y.max()) + 1, clients(data, device), defaultdict(list)
    for seed in SEEDS:
        torch.manual_seed(seed)
        start = GCN(data.num_features, HIDDEN, 2, classes, dropout=0.5).to(device)
        for method, rows in answers(sites, start, seed).items():
            for index, reading in enumerate(("local", "external", "adopted")):
                scores[method, reading].append(scored([row[index] for row in rows], sites))
    for (method, reading), values in scores.items():
        means, spreads = 100 * np.mean(values, 0), 100 * np.std(values, 0, ddof=1)
        parts = (f"{mean:.2f} ± {spread:.2f}" for mean, spread in zip(means, spreads, strict=True))
        print(f"{method:8} {reading:10} {'  '.join(parts)}")


if __name__ == "__main__":
    main()
