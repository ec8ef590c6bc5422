"""The uploads of a federation, for the server: decoded in batches, read as often as a method likes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from torch import Tensor

from pace.errors import LayoutError, OtherJobError, SizeError
from pace.merging.batches import BATCH, batches, unbatched
from pace.models import kind_by_names
from pace.protocol import wire

Message = Mapping[str, Tensor]  # all that any method sends, either way
TOGETHER = 2**25  # bytes of uploads that are decoded together, at most
HELD = 2**24  # bytes up to which all uploads stay decoded: some 400 of Cora's


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


@dataclass
class Received(Uploads):
    """Uploads that came as frames. Small ones are decoded once, large ones whenever they are read."""

    frames: Sequence[bytes]
    layout: wire.Layout
    digest: bytes
    _checksums: list[bytes] = field(default_factory=list)  # of the frames, once all were read
    _held: list[Message] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.frames)

    def batches(self) -> Iterator[Message]:
        if self._held:
            yield from self._held
            return
        whole = bool(
            self._checksums
        )  # all were found in order once: bytes do not change thereafter
        small = self.layout.memory * len(self) <= HELD
        checksums: list[bytes] = []
        held: list[Message] = []
        for frames in self._several():
            checksums += map(wire.checksum, frames)
            if small:
                held.append(self._decoded(frames, whole))
            yield held[-1] if small else self._decoded(frames, whole)
        self._checksums, self._held = checksums, held

    @property
    def checksums(self) -> list[bytes]:
        """The names of the frames, in order."""
        if not self._checksums:
            for _ in self.batches():
                pass
        return self._checksums

    def _several(self) -> Iterator[list[bytes]]:
        """As many frames as are decoded together, fewer where they are large."""
        frames = iter(self.frames)
        while several := list(islice(frames, max(1, min(BATCH, TOGETHER // self.layout.size)))):
            yield several

    def _decoded(self, frames: list[bytes], whole: bool) -> Message:
        begin = wire.opening(self.layout, self.digest)
        for frame in frames:
            plain = len(frame) == self.layout.size and frame.startswith(begin)
            if not (plain and (whole or wire.intact(frame))):
                opened(frame, self.digest, self.layout)  # says what is wrong with it
        return wire.numbers_of(frames, len(begin), self.layout, finite=whole) if self.layout else {}


def opened(frame: bytes, digest: bytes, layout: wire.Layout) -> wire.Frame:
    """A frame of this federation and layout."""
    try:
        decoded = wire.decode(frame, layout)
    except (LayoutError, SizeError) as error:
        theirs, ours = (kind_by_names(names) for names in (wire.names(frame), layout))
        if theirs in (None, ours):
            raise
        raise LayoutError(
            f"the message was made with the model {theirs}, this federation's model is {ours}: "
            "use the same job at every site"
        ) from error
    if decoded.digest != digest:
        raise OtherJobError(
            f"the message belongs to federation {decoded.digest.hex()}, this is {digest.hex()}: "
            "the two were set up differently"
        )
    return decoded
