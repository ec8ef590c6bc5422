"""The uploads of a federation, for the server: decoded in batches, read as often as a method likes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from torch import Tensor

from pace.errors import OtherJobError
from pace.merging import BATCH, batches, unbatched
from pace.protocol import wire

Message = Mapping[str, Tensor]  # all that any method sends, either way
TOGETHER = 2**25  # bytes of uploads that are decoded together, at most
HELD = 2**26  # bytes up to which decoded uploads stay in memory: some 1,600 of Cora's


class Uploads(Protocol):
    """The uploads of a federation in the order of clients, never held all at once if they are large."""

    def __len__(self) -> int: ...

    def batches(self) -> Iterator[Message]:
        """At most `BATCH` at a time; every tensor has a first dimension for the clients."""
        ...

    def __iter__(self) -> Iterator[Message]:
        for batch in self.batches():
            yield from unbatched(batch)


class Messages(Uploads):
    """Uploads that are in memory."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self.messages = list(messages)

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def batches(self) -> Iterator[Message]:
        return batches(self.messages)


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


@dataclass
class Received(Uploads):
    """Uploads that came as frames; decoded ones are kept, unless they are sealed or very large."""

    frames: Sequence[bytes]
    layout: wire.Layout
    digest: bytes
    _checksums: list[bytes] = field(default_factory=list)  # of the frames, once all were read
    _kept: Sequence[Message] = ()  # decoded, in batches

    def __len__(self) -> int:
        return len(self.frames)

    def batches(self) -> Iterator[Message]:
        yield from self._kept or self._decoded()

    @property
    def checksums(self) -> list[bytes]:
        """The names of the frames, in order."""
        if not self._checksums:
            deque(self.batches(), 0)
        return self._checksums

    def _decoded(self) -> Iterator[Message]:
        """Every batch of frames, once each frame was checked."""
        numbers = sum(self.layout.volumes) * len(self)
        keep = 4 * numbers <= HELD and self.layout.numbers != wire.SEALED
        checksums: list[bytes] = []
        kept, frames = [], iter(self.frames)
        together = max(1, min(BATCH, TOGETHER // self.layout.size))
        while several := list(islice(frames, together)):
            checksums += map(wire.checksum, several)
            (batch,) = batches(opened(one, self.digest, self.layout).message for one in several)
            if keep:
                kept.append(batch)
            yield batch
        self._checksums, self._kept = checksums, kept


def opened(frame: bytes, digest: bytes, layout: wire.Layout) -> wire.Frame:
    """A frame of this federation and layout."""
    theirs = wire.digest_of(frame)
    if theirs is not None and theirs != digest and wire.intact(frame):
        raise OtherJobError(
            f"the message belongs to federation {theirs.hex()}, this is {digest.hex()}: the two were "
            "set up differently, in model, method or settings; use the same job at every site"
        )
    return wire.decode(frame, layout)
