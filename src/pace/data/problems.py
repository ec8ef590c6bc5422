"""What is wrong with a user's tables: every problem, with its row."""

from __future__ import annotations

from dataclasses import dataclass, field

from pace.errors import GraphError
from pace.io.terminal import many

SHOWN = 50


@dataclass
class Problems:
    """Problems as they are found. All are counted, the first of them are told."""

    told: list[tuple[str, int, str]] = field(default_factory=list)  # file, row, problem
    count: int = 0
    broken: set[tuple[str, int]] = field(default_factory=set)  # rows about which enough was said

    def add(self, file: str, row: int | None, text: str, *, breaks: bool = False) -> None:
        """A problem of a row, or of the whole file. After one that `breaks`, its row is left alone."""
        if row is not None and (file, row) in self.broken:
            return
        if breaks and row is not None:
            self.broken.add((file, row))
        self.count += 1
        if len(self.told) < SHOWN:
            self.told.append((file, row or 0, text))

    def stop(self) -> None:
        """Refuse the tables if anything was found."""
        if not self.count:
            return
        files = list(dict.fromkeys(file for file, _, _ in self.told))
        lines = [
            f"{file} row {row}: {text}" if row else f"{file}: {text}"
            for file, row, text in sorted(self.told, key=lambda p: (files.index(p[0]), p[1]))
        ]
        rest = self.count - len(self.told)
        more = [f"and {rest} more"] if rest else []
        problems = many(self.count, "problem")
        raise GraphError("\n  ".join([f"{problems}, nothing was written:", *lines, *more]))
