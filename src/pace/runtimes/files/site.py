"""A site's own graph, as the job reads it, and which of its nodes a model was made on.

A table may be exported again in another order and with more rows: what a node was used for belongs to
its id. Models remember salted hashes of ids; who has the file can test guesses one by one, so it is as
private as the model.
"""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from pace.datasets import DATA_SEED, Dataset, read_graph, with_drawn_masks
from pace.errors import FileError, GraphError
from pace.graph import Graph
from pace.io import records, untrusted
from pace.jobs import Job
from pace.models import MappedGraph
from pace.protocol import layouts
from pace.tables import ColumnMapping

HASH = 16  # bytes, of an id and of the salt
LARGEST_SECRET = 2**16  # bytes
ROLES = ("unlabelled", "train", "val", "test")  # by number
NEW = "new"


@dataclass(frozen=True, eq=False)
class Members:
    """The nodes of the graph that a model was made on, each with its role."""

    table: Tensor
    """(1 + nodes, HASH + 1) uint8: a row with the salt, then each id's hash and the role's number."""

    @classmethod
    def of(cls, graph: Graph, nodes: Sequence[str]) -> Self:
        salt, roles = secrets.token_bytes(HASH), (graph.split + 1).tolist()
        rows = bytearray(salt + bytes(1))
        if nodes:  # a table of rows says itself what each row was used for
            for name, role in zip(nodes, roles, strict=True):
                rows += _hash(salt, name) + bytes([role])
        return cls(torch.frombuffer(rows, dtype=torch.uint8).reshape(-1, HASH + 1))

    @classmethod
    def checked(cls, table: Tensor | None, path: Path) -> Self:
        """The members that a file holds, or a FileError."""
        sound = table is not None and table.dtype == torch.uint8 and table.shape[1:] == (HASH + 1,)
        if table is None or not (sound and len(table) and (table[:, -1] < len(ROLES)).all()):
            raise FileError(f"{path} does not say whom the model was trained on: restore it")
        return cls(table)

    def roles(self, nodes: Sequence[str]) -> list[str]:
        """What each node was used for; `new` where the model has never seen it."""
        salt, *rows = self.table.contiguous().numpy()
        by_hash = {row[:HASH].tobytes(): ROLES[row[HASH]] for row in rows}
        return [by_hash.get(_hash(salt[:HASH].tobytes(), name), NEW) for name in nodes]


@dataclass(frozen=True, eq=False)
class Site:
    """The graph with its masks, and what its nodes are called."""

    graph: Graph
    nodes: tuple[str, ...]
    drawn: tuple[float, ...] | None  # the ratios of masks that were drawn, the file having none
    rows: int | None = None  # nodes that were asked about; the others are their neighbours of old
    mapping: ColumnMapping | None = None  # how its tables were read

    def roles(self, members: Members) -> list[str]:
        """What each node was used for; tables of rows and mapped graphs say so themselves."""
        if len(members.table) > 1:
            return members.roles(self.nodes)
        return [ROLES[1 + number] for number in self.graph.split.tolist()]


def class_names(job: Job) -> tuple[str, ...]:
    """What the job calls its classes; their numbers, where it has no names for them."""
    return job.classes or tuple(map(str, range(job.model.classes)))


def load_site(path: Path, job: Job) -> Site:
    """The graph of a file, with the job's features and classes.

    A file without a split gets masks from a fixed seed, the same in every step, or from the site's
    secret, the bytes of a file NAME.split beside it: then no other party can know which nodes weigh.
    """
    return site_of_dataset(read_graph(path), job, path)


def site_of_dataset(dataset: Dataset, job: Job, path: Path, rows: int | None = None) -> Site:
    """The same of a dataset that is in memory; `path` is what messages call it."""
    _check_names("feature", dataset.names.features, job.features, path)
    _check_names("class", dataset.names.classes, job.classes, path)
    layouts.check(dataset.graph, job.federation)
    graph, drawn = dataset.graph, None
    names = dataset.names.nodes
    if not names and not isinstance(graph, MappedGraph):
        names = tuple(map(str, range(graph.nodes)))
    if not dataset.has_split:
        seed: int | list[int] = DATA_SEED
        if (secret := path.with_name(f"{path.name}.split")).exists():
            seed = list(hashlib.sha256(untrusted.read(secret, LARGEST_SECRET)).digest())
        graph, drawn = with_drawn_masks(dataset, job.model.classes, seed), dataset.ratios
    mapping = None
    if dataset.mapping:
        mapping = records.read_record(ColumnMapping, dataset.mapping, "the mapping", strict=True)
    return Site(graph, names, drawn, rows, mapping)


def _check_names(kind: str, names: Sequence[str], agreed: Sequence[str], path: Path) -> None:
    """Numbers mean the same at every site only if names are in the same order."""
    if not names or not agreed or tuple(names) == tuple(agreed):
        return
    pairs = enumerate(zip_longest(names, agreed))
    index, mine, theirs = next((index, *pair) for index, pair in pairs if pair[0] != pair[1])
    remedy = "import it again by the job's codebook, or in the order that `pace show` lists"
    raise GraphError(f"{kind} {index} of {path} is {mine!r}, the job's is {theirs!r}: {remedy}")


def _hash(salt: bytes, name: str) -> bytes:
    return hashlib.blake2b(name.encode(), key=salt, digest_size=HASH).digest()
