"""What everybody would write for `pace run`'s table: PyG's layers, dense SVDs, SciPy, scikit-learn.

Run by `python -m benchmarks --only command` as a program of its own; nothing of PACE is imported.

    python -P plain_script.py DATASET RAW_ROOT DEVICE
"""

import sys

import numpy as np
import torch
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.metrics import accuracy_score, f1_score
from sknetwork.clustering import Louvain
from torch.nn.functional import cross_entropy, dropout
from torch_geometric.datasets import Amazon, Coauthor, Planetoid
from torch_geometric.nn import GCNConv
from torch_geometric.utils import degree, subgraph, to_undirected

SEEDS = [104729, 130363, 155921, 181081, 206639]
CLIENTS, HIDDEN, EPOCHS, RANK = 10, 64, 100, 6
DATA = {
    **{name.lower(): (Planetoid, name) for name in ("Cora", "CiteSeer", "PubMed")},
    "cs": (Coauthor, "CS"),
    "computers": (Amazon, "Computers"),
}


class Net(torch.nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.first, self.second = GCNConv(features, HIDDEN), GCNConv(HIDDEN, classes)

    def forward(self, x, edges):
        hidden = dropout(self.first(x, edges).relu(), 0.5, self.training)
        return self.second(hidden, edges)


def load(name, root):
    kind, title = DATA[name]
    return kind(f"{root}/{kind.__name__}", title)[0]


def clients(data, device):
    """Louvain communities dealt to the smallest client; 20, 40 and 40 % of each class."""
    edges = to_undirected(data.edge_index)
    matrix = sparse.csr_matrix(
        (np.ones(edges.shape[1]), edges.numpy()), shape=(data.num_nodes, data.num_nodes)
    )
    labels = Louvain(modularity="newman").fit_predict(matrix)
    groups = sorted((np.flatnonzero(labels == each) for each in np.unique(labels)), key=len)
    held = [[] for _ in range(CLIENTS)]
    for group in reversed(groups):
        min(held, key=len).extend(group.tolist())
    random = np.random.RandomState(2024)
    found = []
    for nodes in held:
        nodes = torch.tensor(sorted(nodes))
        inner, _ = subgraph(nodes, edges, relabel_nodes=True, num_nodes=data.num_nodes)
        y = data.y[nodes]
        masks = torch.zeros(3, len(nodes), dtype=torch.bool)
        for label in y.unique():
            places = random.permutation(torch.nonzero(y == label).flatten().numpy())
            first, second = int(0.2 * len(places)), int(0.6 * len(places))
            for mask, part in zip(masks, np.split(places, [first, second]), strict=True):
                mask[part] = True
        parts = (data.x[nodes], inner, y, *masks)
        found.append([part.to(device) for part in parts])
    return found


def train(client, start, classes, seed):
    x, edges, y, mask, _, _ = client
    torch.manual_seed(seed)
    net = Net(x.shape[1], classes).to(x.device)
    net.load_state_dict(start)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(EPOCHS):
        optimiser.zero_grad()
        cross_entropy(net(x, edges)[mask], y[mask]).backward()
        optimiser.step()
    return net


def cut(matrix):
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    return left[:, :RANK] * values[:RANK] @ right[:RANK]


def moments(net, client):
    """Mean squares of what each weight multiplies: P X and P H."""
    x, edges, _, mask, _, _ = client
    loops = torch.arange(len(x), device=x.device).repeat(2, 1)
    whole = torch.cat([edges, loops], 1)
    scale = degree(whole[0], len(x)).rsqrt()
    spread = torch.sparse_coo_tensor(whole, scale[whole[0]] * scale[whole[1]], (len(x),) * 2)
    first = spread @ x
    hidden = spread @ net.first(x, edges).relu()
    squares = [rows[mask].square().mean(0) for rows in (first, hidden)]
    return [each / each.mean() for each in squares]


def carrier(net, start):
    state = net.state_dict()
    return {
        name: cut(state[name] - start[name]) if state[name].ndim == 2 else state[name] - start[name]
        for name in state
    }


def consensus(carriers, sketches):
    shared = {}
    for name in carriers[0]:
        weights = torch.ones(len(carriers), 1, device=carriers[0][name].device)
        if carriers[0][name].ndim == 2:
            place = 0 if name.startswith("first") else 1
            weights = torch.stack([sketch[place] for sketch in sketches]) + 1e-12
        shared[name] = mean([carrier[name] for carrier in carriers], weights)
    return shared


def mean(values, weights):
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / weights.sum(
        0
    )


def evaluate(net, state, client):
    net.load_state_dict(state)
    net.eval()
    return net(client[0], client[1])


def alpha(local, external, client):
    """The weight with the least negative log-likelihood on the validation nodes."""
    y, mask = client[2], client[4]
    if not mask.any():
        return 0.0
    pair = [logits[mask].cpu().double().numpy() for logits in (local, external)]
    truth = y[mask].cpu().numpy()

    def risk(weight):
        mixed = log_softmax((1 - weight) * pair[0] + weight * pair[1], axis=1)
        return -mixed[np.arange(len(truth)), truth].mean()

    found = minimize_scalar(risk, bounds=(0, 1), method="bounded", options={"xatol": 1e-6})
    return min((0.0, 1.0, found.x), key=risk)


def scored(logits, sites):
    """Accuracy, weighted F1 and macro F1 over the test nodes of all clients."""
    pairs = zip(logits, sites, strict=True)
    truth = torch.cat([client[2][client[5]] for client in sites]).cpu()
    called = torch.cat([each.argmax(1)[client[5]] for each, client in pairs]).cpu()
    f1 = [f1_score(truth, called, average=kind) for kind in ("weighted", "macro")]
    return accuracy_score(truth, called), *f1


def answers(sites, start, classes, seed):
    """Logits by method: for each site those of Local, of what came, and of what is adopted."""
    nets = [train(client, start, classes, seed) for client in sites]
    found = {"local": [], "fedavg": [], "pace": []}
    with torch.no_grad():
        local = [{key: value.clone() for key, value in net.state_dict().items()} for net in nets]
        carriers = [carrier(net, start) for net in nets]
        pairs = zip(nets, sites, strict=True)
        shared = consensus(carriers, [moments(net.eval(), client) for net, client in pairs])
        sizes = torch.tensor([float(len(client[0])) for client in sites])
        averaged = {key: mean([state[key] for state in local], sizes) for key in start}
        for net, client, state, own in zip(nets, sites, local, carriers, strict=True):
            gap = {key: shared[key] - own[key] for key in shared}
            corrected = {
                key: state[key] + (cut(value) if value.ndim == 2 else value)
                for key, value in gap.items()
            }
            before = evaluate(net, state, client)
            found["local"].append((before, before, before))
            for method, model in (("fedavg", averaged), ("pace", corrected)):
                after = evaluate(net, model, client)
                weight = alpha(before, after, client)
                found[method].append((before, after, (1 - weight) * before + weight * after))
    return found


def main():
    name, root, device = sys.argv[1:]
    torch.set_num_threads(1)
    data = load(name, root)
    classes, sites = int(data.y.max()) + 1, clients(data, device)
    scores = {}
    for seed in SEEDS:
        torch.manual_seed(seed)
        start = Net(data.num_features, classes).to(device).state_dict()
        for method, rows in answers(sites, start, classes, seed).items():
            for place, reading in enumerate(("local", "external", "adopted")):
                found = scored([row[place] for row in rows], sites)
                scores.setdefault((method, reading), []).append(found)
    for (method, reading), values in scores.items():
        means, spreads = 100 * np.mean(values, 0), 100 * np.std(values, 0, ddof=1)
        parts = (f"{mean:.2f} ± {spread:.2f}" for mean, spread in zip(means, spreads, strict=True))
        print(f"{method:8} {reading:10} {'  '.join(parts)}")


if __name__ == "__main__":
    main()
