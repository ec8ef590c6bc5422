"""The uploads of a federation, for the server: decoded in batches, read as often as a method likes."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from os import SEEK_END
from tempfile import SpooledTemporaryFile, gettempdir
from typing import Protocol
from weakref import finalize

import torch
from torch import Tensor

from pace.errors import FileError
from pace.merging import BATCH, batches, unbatched
from pace.protocol import wire

Message = Mapping[str, Tensor]  # all that any method sends, either way
TOGETHER = 2**25  # bytes of uploads that are decoded together, at most
HELD = 2**24  # bytes up to which decoded uploads stay in memory: some 400 of Cora's


class Uploads(Protocol):
    """The uploads of a federation in the order of clients, never held all at once if they are large."""

    def __len__(self) -> int: ...

    def batches(self) -> Iterator[Message]:
        """At most `BATCH` at a time; every tensor has a first dimension for the clients."""

    def __iter__(self) -> Iterator[Message]:
        for batch in self.batches():
            yield from unbatched(batch)


class Messages(list[Message], Uploads):
    """Uploads that are in memory."""

    def batches(self) -> Iterator[Message]:
        return batches(self)


@dataclass(frozen=True)
class Without(Uploads):
    """Uploads without one of several groups of clients, each of which is every n-th."""

    uploads: Uploads
    group: int
    groups: int

    def __len__(self) -> int:
        return len(self.uploads) - len(range(self.group, len(self.uploads), self.groups))

    def batches(self) -> Iterator[Message]:
        numbered = enumerate(self.uploads)
        return batches(upload for index, upload in numbered if index % self.groups != self.group)


class RowStore:
    """Batches of decoded rows, read as often as wanted; those beyond `HELD` are in a temporary file."""

    def __init__(self) -> None:
        self.file = SpooledTemporaryFile(1)  # noqa: SIM115 - on the disk once it is written to
        finalize(self, self.file.close)
        self.batches: list[Tensor | torch.Size] = []  # rows, or the shape of those in the file
        self.free = HELD

    def append(self, rows: Tensor) -> None:
        if rows.nbytes <= self.free:
            self.free -= rows.nbytes
            self.batches.append(rows.clone())  # who reads `rows` may write into them
            return
        try:
            self.file.seek(0, SEEK_END)
            self.file.write(rows.numpy().data)
        except OSError as error:
            raise FileError(
                f"uploads do not fit into {gettempdir()} ({error.strerror}): set TMPDIR elsewhere"
            ) from error
        self.batches.append(rows.shape)

    def __iter__(self) -> Iterator[Tensor]:
        begin = 0
        for batch in self.batches:
            if isinstance(batch, Tensor):
                yield batch.clone()
                continue
            rows = torch.empty(batch)
            self.file.seek(begin)  # others may read in between
            self.file.readinto(rows.numpy().data)
            begin += rows.nbytes
            yield rows


@dataclass
class Received(Uploads):
    """Uploads that came as frames, each decoded once; many or large ones wait in a temporary file.

    Sealed ones are added up once and not kept.
    """

    frames: Sequence[bytes]
    layout: wire.Layout
    digest: bytes
    _checksums: list[bytes] = field(default_factory=list)  # of the frames, once all were read
    _kept: RowStore | None = None

    def __len__(self) -> int:
        return len(self.frames)

    def batches(self) -> Iterator[Message]:
        for rows in self._decoded() if self._kept is None else self._kept:
            yield wire.batch_of(rows, self.layout)

    @property
    def checksums(self) -> list[bytes]:
        """The names of the frames, in order."""
        if not self._checksums:
            deque(self.batches(), 0)
        return self._checksums

    def _decoded(self) -> Iterator[Tensor]:
        """The rows of every batch of frames, which are kept for the next time."""
        sealed, kept = self.layout.numbers == wire.SEALED, RowStore()
        checksums: list[bytes] = []
        frames = iter(self.frames)
        together = max(1, min(BATCH, TOGETHER // self.layout.size))
        while several := list(islice(frames, together)):
            for frame in several:
                _, offset = wire.check(frame, self.layout, self.digest)
                checksums.append(wire.checksum(frame))
            rows = wire.decode_rows(several, offset, self.layout)
            if not sealed:
                kept.append(rows)
            yield rows
        self._checksums, self._kept = checksums, None if sealed else kept
