"""One graph into client graphs: a partition by name, then the masks, from one stream; and as files.

A division is written as the `pace-partition-1` JSON of the reference partitions, or a graph a client.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unicodedata import category, normalize

import numpy as np
import torch
from scipy import sparse

from pace.datasets.dataset import Dataset, Names
from pace.datasets.file import SUFFIX, write_graph
from pace.errors import GraphError, SettingError, needs_extra
from pace.graph import MASKS, Graph, induced
from pace.io import atomic, untrusted
from pace.registry import PARTITIONS, installed

CLIENTS = 10
DATA_SEED = 2024
RESOLUTION = 1.0  # of Louvain's modularity
DELTA = 20  # the slack below the target at which communities are cut, and above it when packing
PATIENCE = 1000  # advances of the cursor before a group is placed regardless
ALPHA = 0.5  # of the Dirichlet distribution
OR_DIRICHLET = ", or choose the partition dirichlet"
ATTEMPTS, SMALLEST = 101, 5  # draws, until the smallest client has so many nodes

FORMAT = "pace-partition-1"
PARAMS: dict[str, dict[str, float]] = {
    "louvain": {"resolution": RESOLUTION, "delta": DELTA},
    "dirichlet": {"alpha": ALPHA},
}
LIBRARIES = ("scikit-network", "pymetis", "torch-geometric", "torch", "numpy")

Array = np.ndarray[Any, np.dtype[np.int64]]
Nodes = Sequence[int] | Array  # of one client, in the order that numbers them locally
Random = np.random.RandomState  # legacy, since the reference masks come from its stream


class Division(list[Graph]):
    """The client graphs of a dataset, and how they were made of it."""

    def __init__(
        self,
        graphs: Iterable[Graph],
        *,
        nodes: Sequence[Nodes],
        dataset: Dataset,
        partition: str,
        data_seed: int | None,
    ) -> None:
        super().__init__(graphs)
        self.nodes = nodes
        """Each client's nodes by their numbers in the dataset, in the order that numbers them here."""
        self.dataset, self.classes = dataset.name, dataset.classes
        self.partition = partition
        """Its name, or the file it was read from."""
        self.data_seed = data_seed
        """Of partition and masks; None where a file holds both."""

    def __repr__(self) -> str:
        return f"Division({self.dataset!r}, {self.partition!r}, {len(self)} clients)"


def divide(
    dataset: Dataset,
    partition: str | None = None,
    clients: int = CLIENTS,
    data_seed: int = DATA_SEED,
) -> Division:
    """A dataset's client graphs. A graph that came with its own masks keeps them.

    Partition and masks draw from one stream, so they depend on the seed alone.

    Args:
        dataset: as `load` gives it.
        partition: `louvain`, `metis`, `dirichlet` or `column`; the dataset's usual one by default.
        clients: how many; under `column` the dataset's own column says it.
        data_seed: of the partition and the masks.

    Returns:
        A list of graphs that also says how it was made.

    Raises:
        SettingError: a name is unknown, or some client would have no nodes.

    Example:
        >>> import pace
        >>> dataset = pace.load("synthetic:nodes=90,features=12,communities=3,classes=3")
        >>> pace.divide(dataset, "dirichlet", clients=3)
        Division('synthetic:nodes=90,features=12,communities=3,classes=3', 'dirichlet', 3 clients)
    """
    if not isinstance(dataset, Dataset):
        raise TypeError(
            f"the dataset is a {type(dataset).__module__}.{type(dataset).__name__}, expected a "
            "pace.datasets.Dataset: make one with Dataset(name, Graph.from_pyg(data), classes)"
        )
    (partition,) = PARTITIONS.expand(partition or dataset.partition)
    if partition != "column" and not 1 <= clients <= dataset.graph.nodes:
        raise SettingError(
            f"clients is {clients}, expected 1 to {dataset.graph.nodes}, the number of nodes"
        )
    if not 0 <= data_seed < 2**32:
        raise SettingError(f"the data seed is {data_seed}, expected 0 to {2**32 - 1}")
    if not dataset.classes:
        raise GraphError(f"{dataset.name} has no labels: import it with --label COLUMN")
    random = Random(data_seed)
    deal = PARTITIONS.prepare(partition, dataset=dataset, clients=clients, random=random)
    nodes = list(deal())
    arrays = list(map(np.asarray, nodes))
    if empty := [client for client, members in enumerate(arrays) if not members.size]:
        raise SettingError(
            f"{partition} left clients {empty} without nodes: ask for fewer than {clients} clients"
        )
    if not np.array_equal(np.sort(np.hstack(arrays)), np.arange(dataset.graph.nodes)):
        raise SettingError(
            f"{partition} does not give every node to exactly one client: for each client it gives "
            f"the numbers of its nodes, together 0 to {dataset.graph.nodes - 1}"
        )
    graphs = client_graphs(dataset, nodes, random)
    return Division(graphs, nodes=nodes, dataset=dataset, partition=partition, data_seed=data_seed)


def client_graphs(dataset: Dataset, clients: Sequence[Nodes], random: Random) -> list[Graph]:
    """Each client's induced graph, with masks of its own or drawn in client order from one stream."""
    parts = induced(dataset.graph, clients)
    if dataset.has_split:
        return parts
    drawn = (split(part.y.numpy(), dataset.classes, random, dataset.ratios) for part in parts)
    return list(map(with_masks, parts, drawn))


def split(labels: Array, classes: int, random: Random, ratios: Sequence[float]) -> list[Array]:
    """Local indices of train, validation and test; nodes without a label are in no mask.

    For each class: shuffle its indices, then cut at floor(a n) and floor((a + b) n).
    """
    parts: list[list[Array]] = []
    for label in range(classes):
        members = np.flatnonzero(labels == label).tolist()
        random.shuffle(members)
        cuts = [math.floor(share * len(members)) for share in (ratios[0], ratios[0] + ratios[1])]
        parts.append(np.split(np.asarray(members, dtype=np.int64), cuts))
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


def with_drawn_masks(
    dataset: Dataset, classes: int, seed: int | Sequence[int] = DATA_SEED
) -> Graph:
    """A whole graph with masks of its dataset's shares, from the fixed seed: always the same."""
    graph = dataset.graph
    return with_masks(graph, split(graph.y.numpy(), classes, Random(seed), dataset.ratios))


def with_masks(graph: Graph, indices: Sequence[Nodes]) -> Graph:
    """The graph with these nodes in train, validation and test."""
    masks: dict[str, Any] = {name: torch.zeros(graph.nodes, dtype=torch.bool) for name in MASKS}
    for mask, index in zip(masks.values(), indices, strict=True):
        mask[torch.as_tensor(index, dtype=torch.int64)] = True
    return replace(graph, **masks)


def by_metis(dataset: Dataset, clients: int) -> Sequence[Nodes]:
    """Parts of equal size with few edges between them. METIS uses its own fixed seed."""
    with needs_extra("the partition metis needs pymetis", "research", OR_DIRICHLET):
        import pymetis
    source, target = dataset.graph.edges.numpy()  # sorted, so that neighbours come in order
    starts = np.searchsorted(source, np.arange(dataset.graph.nodes + 1))
    _, part = pymetis.part_graph(clients, pymetis.CSRAdjacency(starts, target))
    return [np.flatnonzero(np.asarray(part) == client) for client in range(clients)]


def by_dirichlet(
    dataset: Dataset, clients: int, random: Random, alpha: float = ALPHA
) -> Sequence[Nodes]:
    """Label skew: shares of each class from a Dirichlet distribution.

    Nodes come class after class, shuffled within a class; those without a label (-1) are dealt last,
    like one more class. A client that holds its even share of the nodes takes no further class. The
    stream is not reset between attempts, and masks go on where the last one stops. The smaller `alpha`,
    the fewer classes a client has.
    """
    if not 0 < alpha < math.inf:
        raise SettingError(f"alpha is {alpha}, expected a number above 0")
    labels = dataset.graph.y.numpy()
    for _ in range(ATTEMPTS):
        dealt: list[list[Array]] = [[] for _ in range(clients)]
        sizes = np.zeros(clients, dtype=np.int64)
        for label in [*range(dataset.classes), -1]:
            members = np.flatnonzero(labels == label)
            if label == -1 and not len(members):
                break
            random.shuffle(members)
            shares = random.dirichlet(np.repeat(alpha, clients)) * (sizes < len(labels) / clients)
            shares /= max(shares.sum(), np.finfo(float).tiny)  # all full: nothing left to deal
            cuts = (np.cumsum(shares) * len(members)).astype(np.int64)[:-1]
            for client, part in enumerate(np.split(members, cuts)):
                dealt[client].append(part)
                sizes[client] += len(part)
        if sizes.min() >= SMALLEST:
            return [np.concatenate(parts) for parts in dealt]
    raise SettingError(
        f"in {ATTEMPTS} Dirichlet draws some client always had fewer than {SMALLEST} nodes: "
        f"ask for fewer than {clients} clients"
    )


def by_column(dataset: Dataset) -> Sequence[Nodes]:
    """The user's own assignment, each client's nodes in the order of the table."""
    if dataset.owner is None:
        raise SettingError(f"{dataset.name} has no clients: import it with --client COLUMN")
    owner = dataset.owner.numpy()
    return [np.flatnonzero(owner == client) for client in range(int(owner.max()) + 1)]


def by_louvain(dataset: Dataset, clients: int) -> list[list[int]]:
    """Communities of the graph, joined until there are as many as clients.

    As OpenFGL packs them, into clients of nearly equal size. No random number is drawn.
    """
    with needs_extra("the partition louvain needs scikit-network", "research", OR_DIRICHLET):
        from sknetwork.clustering import Louvain
    edges, nodes = dataset.stored, dataset.graph.nodes
    groups: dict[int, list[int]] = {}  # communities by first appearance, each in ascending order
    side = int(edges.max()) + 1 if edges.numel() else 0
    source, target = edges.numpy()
    links = sparse.csr_matrix((np.ones(len(source)), (source, target)), shape=(side, side))
    louvain = Louvain(modularity="newman", resolution=RESOLUTION)
    labels = louvain.fit_predict(links).tolist() if side else []
    for node, label in enumerate(labels):
        groups.setdefault(label, []).append(node)
    # The matrix ends at the last node with an edge: those behind it are communities of their own.
    every = [*groups.values(), *([node] for node in range(side, nodes))]
    cuts = cut(every, max(1, nodes // clients - DELTA))
    cuts.sort(key=len, reverse=True)  # stable: equal sizes stay in order
    return pack(cuts, clients, target=nodes // clients, delta=DELTA)


def cut(groups: list[list[int]], cap: int) -> list[list[int]]:
    """Cut every group longer than `cap`; the rest goes to the end of the list, to be cut again."""
    groups = list(groups)
    for index, group in enumerate(groups):  # which grows meanwhile
        if len(group) > cap:
            groups.append(group[cap:])
            groups[index] = group[:cap]
    return groups


def pack(groups: list[list[int]], clients: int, *, target: int, delta: int) -> list[list[int]]:
    """Fill clients group by group. The cursor stays on a client until it is full or overflows.

    A group that fits nowhere goes where OpenFGL puts it. It means the emptiest client, but compares
    the client under the cursor, not the one it scans; kept literally, since partitions depend on it.
    """
    packed: list[list[int]] = [[] for _ in range(clients)]
    waiting = list(range(clients))
    cursor = 0
    for group in groups:
        while len(waiting) > 1 and len(packed[waiting[cursor]]) >= target:
            del waiting[cursor]
            cursor %= len(waiting)
        for _ in range(PATIENCE + 1):
            if len(packed[waiting[cursor]]) + len(group) < target + delta:
                break
            cursor = (cursor + 1) % len(waiting)
        else:
            least = math.inf
            for index in range(len(waiting)):
                if len(packed[waiting[cursor]]) < least:
                    least, cursor = len(packed[waiting[cursor]]), index
        packed[waiting[cursor]].extend(group)
    return packed


def write_partition(path: Path, dataset: Dataset, division: Division) -> None:
    """Put the division at `path`, completely or not at all."""
    versions = installed(["pace-fgl", *LIBRARIES])
    clients = []
    for nodes, graph in zip(map(torch.as_tensor, division.nodes), division, strict=True):
        masks = {mask: nodes[getattr(graph, mask)].tolist() for mask in MASKS}
        edges = graph.edges.shape[1]
        clients.append({"nodes": nodes.tolist(), **masks, "num_directed_edges": edges})
    content = {
        "format": FORMAT,
        "dataset": dataset.title or dataset.name,
        "partition": division.partition,
        "num_clients": len(division),
        "data_seed": division.data_seed,
        "params": PARAMS.get(division.partition, {}),
        "split": "own" if dataset.has_split else dataset.ratios,
        "source": f"pace {versions['pace-fgl']}",
        "versions": {key.replace("-", "_"): versions[key] for key in LIBRARIES if key in versions},
        "num_nodes": dataset.graph.nodes,
        "clients": clients,
    }
    atomic.write(path, json.dumps(content, separators=(",", ":")).encode())


def read_partition(path: str | Path, dataset: Dataset) -> Division:
    """The client graphs that a partition file makes of the dataset, if it fits it."""
    title, count = dataset.title or dataset.name, dataset.graph.nodes
    try:
        content = untrusted.json(untrusted.read(Path(path), 2**28))  # twenty million nodes fit
        stated = [content[key] for key in ("format", "dataset", "num_nodes")]
        clients = content["clients"]
        if stated != [FORMAT, title, count]:
            raise ValueError(f"it is one of {stated}: use the dataset it was made of")
        nodes = [client["nodes"] for client in clients]
        owned = [node for members in nodes for node in members]
        whole = all(type(node) is int for node in owned) and all(nodes)
        if not whole or sorted(owned) != list(range(count)):
            raise ValueError("it does not give every node to exactly one client, or a client none")
        graphs = []
        for graph, client in zip(induced(dataset.graph, nodes), clients, strict=True):
            index = {node: number for number, node in enumerate(client["nodes"])}
            masks = [[index[node] for node in client[mask]] for mask in MASKS]
            graphs.append(with_masks(graph, masks))
    except (OSError, ValueError, KeyError, TypeError) as error:
        expected = f"a partition of {title}'s {count} nodes ({error!r})"
        raise SettingError(f"{path} is not {expected}: make it with `pace partition`") from error
    return Division(graphs, nodes=nodes, dataset=dataset, partition=str(path), data_seed=None)


def write_graphs(folder: Path, dataset: Dataset, division: Division) -> list[Path]:
    """Write `NAME.graph` for each client, as if it had imported its own, with the dataset's names.

    What could leave the folder, or be no file's name, is replaced by underscores.
    """
    names = dataset.names.clients
    if len(names) != len(division):
        names = tuple(f"client-{client}" for client in range(len(division)))
    ids, paths = dataset.names.nodes, []
    rows = zip(names, _file_names(names), division.nodes, division, strict=True)
    for name, stem, nodes, graph in rows:
        own = tuple(ids[int(node)] for node in nodes) if ids else ()
        own_names = Names(dataset.names.classes, dataset.names.features, (), own)
        paths.append(folder / f"{stem}{SUFFIX}")
        write_graph(paths[-1], Dataset(name, graph, dataset.classes, names=own_names))
    return paths


def _file_names(names: Sequence[str]) -> list[str]:
    """Names of files that resemble these, of at most 255 bytes, and that every disk tells apart."""
    stems: dict[str, str] = {}  # as a disk may compare them -> as they are written
    for number, name in enumerate(names):
        usual = (c if c in " ._-" or category(c)[0] in "LMN" else "_" for c in name)
        stem = "".join(usual).encode()[:160].decode(errors="ignore").strip(" .") or "client"
        while (compared := normalize("NFKC", stem).casefold()) in stems:
            stem = f"{stem}-{number}"
        stems[compared] = stem
    return list(stems.values())


def describe_clients(dataset: Dataset, division: Division) -> list[dict[str, Any]]:
    """Each client in numbers. Edges are counted once, whatever their direction; lost ones lead away."""
    degree = torch.bincount(dataset.graph.edges[0], minlength=dataset.graph.nodes)
    names = dataset.names.clients
    if len(names) != len(division):
        names = tuple(map(str, range(len(division))))
    return [
        {
            "name": name,
            "nodes": graph.nodes,
            "edges": graph.edges.shape[1] // 2,
            "lost": int(degree[torch.as_tensor(nodes)].sum()) - graph.edges.shape[1],
            "labels": torch.bincount(graph.y[graph.y >= 0], minlength=dataset.classes).tolist(),
            "unlabelled": int((graph.y < 0).sum()),
            **{mask: int(getattr(graph, mask).sum()) for mask in MASKS},
        }
        for name, nodes, graph in zip(names, division.nodes, division, strict=True)
    ]
