"""A small federation whose messages and files are the fuzzer's first inputs."""

from functools import cache

import torch
from fuzz.scratch import FOLDER

from pace.datasets import Dataset, Names, Synthetic, divide, synthetic
from pace.datasets.partition import Division
from pace.graph import Graph
from pace.jobs import SERVER, Job, signatures
from pace.models import GCN, SAGE
from pace.protocol import Kept, steps

SITES = ("north", "south", "west")  # of the sealed job


@cache
def dataset() -> Dataset:
    made = synthetic(Synthetic(nodes=24, classes=2, features=8, communities=2, words=3))
    names = Names(classes=("a", "b"), nodes=tuple(f"n{i}" for i in range(24)))
    return Dataset("tiny", made, 2, names=names)


@cache
def weighted_dataset() -> Dataset:
    """With weights and directions."""
    plain = dataset().graph
    edges = plain.edges[:, ::3]
    weights = torch.linspace(0.5, 2.0, edges.shape[1])
    graph = Graph.build(plain.x, edges, plain.y, weights=weights, directed=True)
    return Dataset("weighted", graph, 2, names=dataset().names)


@cache
def divided() -> Division:
    return divide(dataset(), "louvain", 2)


@cache
def graph() -> Graph:
    return divided()[0]


@cache
def job() -> Job:
    return Job("tiny", GCN((8, 8, 2)), epochs=1, participants=("north", "south"), nonce="0" * 32)


@cache
def signed_job() -> Job:
    public = {name: signatures.public_key(key(name)) for name in ("north", "south", SERVER)}
    names = ("north", "south")
    return Job("tiny", GCN((8, 8, 2)), epochs=1, participants=names, keys=public, nonce="0" * 32)


@cache
def key(name: str) -> signatures.Key:
    path = FOLDER / f"{name}.key"
    signatures.new_keys(path, FOLDER / f"{name}.pub")
    return signatures.load_key(path)


@cache
def fitted() -> tuple[Kept, bytes]:
    return steps.fit(graph(), job().federation)


@cache
def signed() -> bytes:
    frame = steps.fit(graph(), signed_job().federation)[1]
    return signatures.sign(
        frame, key("north"), kind=signatures.UPLOAD, job=signed_job().digest, name="north"
    )


@cache
def sealed_job() -> Job:
    public = {name: signatures.public_key(key(name)) for name in (*SITES, SERVER)}
    masks = {name: signatures.sealing_key(key(name)) for name in SITES}
    model = SAGE((8, 4, 2))
    return Job(
        "tiny", model, epochs=1, participants=SITES, minimum=3, keys=public, sealing=masks,
        nonce="0" * 32,
    )  # fmt: skip


@cache
def sealed_fits() -> list[tuple[Kept, bytes]]:
    made = sealed_job()
    return [
        steps.fit(graph_of(name), made.federation, seal=made.seal(name, key(name)))
        for name in SITES
    ]


def graph_of(name: str) -> Graph:
    return divided()[SITES.index(name) % 2]
