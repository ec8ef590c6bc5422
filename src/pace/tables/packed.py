"""Columns of text in few bytes: as strings, each cell would take 50 bytes more than its letters."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import overload

NUL = "\0"


class Words(Sequence[str]):
    """A column of text as UTF-8 with NUL after each cell.

    Every `SPAN` cells or more their number and their bytes are noted. A cell is found among those
    that lie between two notes, which are kept decoded: reading in order decodes everything once.
    """

    SPAN = 512

    def __init__(self, cells: Iterable[str] = ()) -> None:
        self._bytes, self._count = bytearray(), 0
        self._cells, self._starts = array("q", [0]), array("q", [0])
        self._span, self._decoded = -1, list[str]()
        self.extend(cells)

    def extend(self, cells: Iterable[str]) -> None:
        """Add cells at the end."""
        cells, self._span = iter(cells), -1
        while added := list(islice(cells, self.SPAN)):
            self._bytes += "".join(f"{cell.replace(NUL, ' ')}{NUL}" for cell in added).encode()
            self._count += len(added)
            if self._count - self._cells[-1] >= self.SPAN:
                self._cells.append(self._count)
                self._starts.append(len(self._bytes))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        for span in range(len(self._starts)):
            yield from self._read(span)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(self._count))]
        index = range(self._count)[index]
        span = bisect_right(self._cells, index) - 1
        if span != self._span:
            self._span, self._decoded = span, self._read(span)
        return self._decoded[index - self._cells[span]]

    def _read(self, span: int) -> list[str]:
        end = self._starts[span + 1] if span + 1 < len(self._starts) else len(self._bytes)
        return self._bytes[self._starts[span] : end].decode().split(NUL)[:-1]


class Marks(Mapping[int, str]):
    """The few or many cells of a column that are no numbers, by index, in order."""

    def __init__(self, marks: Mapping[int, str] | None = None) -> None:
        self._places, self._words = array("i"), Words()
        self.update(marks or {})

    def update(self, marks: Mapping[int, str], after: int = 0) -> None:
        """Add the marks of rows that follow; their indices count from `after`."""
        self._places.extend(after + index for index in marks)
        self._words.extend(marks.values())

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __getitem__(self, index: int) -> str:
        place = bisect_left(self._places, index)
        if place == len(self._places) or self._places[place] != index:
            raise KeyError(index)
        return self._words[place]
