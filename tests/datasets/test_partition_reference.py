"""The partitions and masks of the reference files, exactly.

`partitions/digests.json` was made of four partition files that OpenFGL itself produced (commit
5483768, numpy's global generator seeded with 2024): for each client the numbers of nodes and of
directed edges, and the SHA-256 of `[nodes, train, val, test]`, global node numbers in local order,
as JSON without spaces.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pace.datasets import Dataset, load
from pace.datasets.partition import Division, divide

REFERENCES = json.loads((Path(__file__).parent / "partitions" / "digests.json").read_text())

pytestmark = pytest.mark.skipif(
    "PACE_DATA" not in os.environ, reason="PACE_DATA does not name a folder with the benchmarks"
)


def digests(made: Division) -> list[dict[str, Any]]:
    found = []
    for nodes, graph in zip(made.nodes, made, strict=True):
        order = torch.as_tensor(nodes)
        lists = [order, *(order[mask] for mask in (graph.train, graph.val, graph.test))]
        text = json.dumps([each.tolist() for each in lists], separators=(",", ":"))
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        found.append({"nodes": len(order), "edges": graph.edges.shape[1], "sha256": sha256})
    return found


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Datasets by name, with a cache that is not the user's."""
    loaded: dict[str, Dataset] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield lambda name: loaded.setdefault(name, load(name))


@pytest.mark.parametrize(
    "reference", REFERENCES, ids=lambda r: f"{r['dataset']}-{r['partition']}-{r['num_clients']}"
)
def test_reference_partitions_are_reproduced_exactly(
    reference: dict[str, Any], benchmark: Any
) -> None:
    if reference["partition"] == "metis":
        pytest.importorskip("pymetis")
    made = divide(
        benchmark(reference["dataset"].lower()),
        reference["partition"],
        reference["num_clients"],
        reference["data_seed"],
    )
    assert digests(made) == reference["clients"]


@pytest.mark.parametrize(
    ("name", "clients", "cut"),
    [
        ("cora", 10, 587),
        ("cora", 20, 802),
        ("cora", 30, 979),
        ("citeseer", 10, 204),
        ("citeseer", 20, 338),
        ("citeseer", 30, 405),
    ],
)
def test_metis_cuts_as_many_edges_as_in_openfgl(
    name: str, clients: int, cut: int, benchmark: Any
) -> None:
    pytest.importorskip("pymetis")
    dataset = benchmark(name)
    kept = sum(graph.edges.shape[1] for graph in divide(dataset, "metis", clients))
    assert (dataset.graph.edges.shape[1] - kept) // 2 == cut


@pytest.mark.parametrize("clients", [10, 30])
def test_dirichlet_is_openfgls_loop_on_numpys_global_generator(
    clients: int, benchmark: Any
) -> None:
    dataset = benchmark("citeseer")
    state = np.random.get_state()
    try:
        np.random.seed(2024)
        expected = loop(dataset.graph.y.numpy(), dataset.classes, clients)
    finally:
        np.random.set_state(state)
    made = divide(dataset, "dirichlet", clients, 2024)
    found = [
        (list(nodes), *(mask.nonzero().flatten().tolist() for mask in (g.train, g.val, g.test)))
        for nodes, g in zip(made.nodes, made, strict=True)
    ]
    assert found == expected


def loop(y: Any, classes: int, clients: int) -> list[Any]:
    """The protocol written out with lists: first the nodes, then the masks, from one stream."""
    smallest, attempts = 0, 0
    while smallest < 5 and attempts < 101:
        attempts += 1
        held: list[list[int]] = [[] for _ in range(clients)]
        for label in range(classes):
            members = np.where(y == label)[0]
            np.random.shuffle(members)
            shares = np.random.dirichlet(np.repeat(0.5, clients))
            full = [len(nodes) >= len(y) / clients for nodes in held]
            shares = np.array([0.0 if f else s for s, f in zip(shares, full, strict=True)])
            cuts = np.floor(np.cumsum(shares / shares.sum()) * len(members)).astype(int)[:-1]
            parts = np.split(members, cuts)
            held = [nodes + part.tolist() for nodes, part in zip(held, parts, strict=True)]
        smallest = min(map(len, held))
    made = []
    for nodes in held:
        train, val, test = [], [], []
        for label in range(classes):
            places = [place for place, node in enumerate(nodes) if y[node] == label]
            np.random.shuffle(places)
            n = np.float32(len(places))
            first = int(np.float32(0.2) * n)
            second = int((np.float32(0.2) + np.float32(0.4)) * n)
            train += places[:first]
            val += places[first:second]
            test += places[second:]
        made.append((nodes, sorted(train), sorted(val), sorted(test)))
    return made
