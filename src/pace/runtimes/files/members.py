"""Which nodes a model was trained on, validated by and never saw: by salted hash of node ids.

A table may be exported again in another order and with more rows; what a node was used for belongs
to its id. The salt hides ids from readers of the file, but who has the folder can test guesses one by
one: it is as private as the model.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pace.errors import FileError
from pace.graph import Graph
from pace.runtimes.files.tensors import encode_tensors, read_tensors

FORMAT = "pace-members-1"
TENSOR = "members"
SALT, HASH = 16, 16  # bytes
ROLES = ("unlabelled", "train", "val", "test")  # by number
NEW = "new"


@dataclass(frozen=True, eq=False)
class Members:
    """The nodes of the graph that a model was made on, each with its role."""

    salt: bytes
    table: Tensor  # (nodes, HASH + 1) uint8: the hash of the id, then the role's number

    @classmethod
    def of(cls, graph: Graph, nodes: Sequence[str]) -> Members:
        salt = secrets.token_bytes(SALT)
        roles = graph.train.int() + 2 * graph.val.int() + 3 * graph.test.int()
        rows = b"".join(
            _hash(salt, name) + bytes([role])
            for name, role in zip(nodes, roles.tolist(), strict=True)
        )
        table = torch.frombuffer(bytearray(rows), dtype=torch.uint8).reshape(-1, HASH + 1)
        return cls(salt, table)

    @classmethod
    def checked(cls, salt: object, table: Tensor | None, path: Path) -> Members:
        """The members that a file holds, or a FileError."""
        try:
            bytes_ = bytes.fromhex(str(salt))
        except ValueError:
            bytes_ = b""
        if (
            len(bytes_) != SALT
            or table is None
            or table.dtype != torch.uint8
            or table.ndim != 2
            or table.shape[1] != HASH + 1
            or (len(table) and int(table[:, -1].max()) >= len(ROLES))
        ):
            raise FileError(f"{path} does not say whom the model was trained on: restore it")
        return cls(bytes_, table)

    def roles(self, nodes: Sequence[str]) -> list[str]:
        """What each node was used for; `new` where the model has never seen it."""
        return [self._by_hash.get(_hash(self.salt, name), NEW) for name in nodes]

    @cached_property
    def _by_hash(self) -> Mapping[bytes, str]:
        rows = np.ascontiguousarray(self.table.numpy())
        return {row[:HASH].tobytes(): ROLES[row[HASH]] for row in rows}


def encode_members(members: Members, job: str) -> bytes:
    """The file of a model folder."""
    about = {"format": FORMAT, "job": job, "salt": members.salt.hex()}
    return encode_tensors({TENSOR: members.table}, about)


def read_members(path: Path, job: str) -> Members:
    about, values = read_tensors(path, FORMAT)
    if about.get("job") != job:
        raise FileError(f"{path} does not belong to this model: restore it")
    return Members.checked(about.get("salt"), values.get(TENSOR), path)


def _hash(salt: bytes, name: str) -> bytes:
    return hashlib.blake2b(name.encode(), key=salt, digest_size=HASH).digest()
