"""What is wrong with a user's tables: every problem with its row, a repeated one once with its count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pace.errors import ProblemsError
from pace.io.terminal import many

SHOWN = 50  # lines
APART = 3  # problems of one kind are listed row by row up to this many; more become one line


class Problem(NamedTuple):
    row: int  # 0 for a whole file
    number: int  # in the order of discovery
    text: str
    cell: str


@dataclass
class Problems:
    """Problems as they are found: all are counted, the first few of each kind are kept."""

    count: int = 0
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)  # by file and kind
    first: dict[tuple[str, str], list[Problem]] = field(default_factory=dict)
    broken: set[tuple[str, int]] = field(default_factory=set)  # rows that need no second problem

    def add(
        self,
        file: str,
        row: int | None,
        text: str,
        *,
        kind: str = "",
        cell: str = "",
        breaks: bool = False,
    ) -> None:
        """A problem of a row, or of the whole file. After one that `breaks`, its row is left alone.

        Problems of one `kind`, a sentence that needs no row, become one line when there are many,
        with the first few rows and what their `cell` holds.
        """
        if row is not None and (file, row) in self.broken:
            return
        if breaks and row is not None:
            self.broken.add((file, row))
        key = (file, kind or text)
        self.count += 1
        self.counts[key] += 1
        if self.counts[key] <= APART:
            self.first.setdefault(key, []).append(Problem(row or 0, self.count, text, cell))

    def lines(self) -> list[str]:
        """File by file, row by row; repeated problems at the end of their file."""
        apart: dict[str, list[Problem]] = {}
        repeated: dict[str, list[str]] = {}
        for (file, kind), problems in self.first.items():
            apart.setdefault(file, [])
            if (count := self.counts[file, kind]) <= APART:
                apart[file] += problems
                continue
            rows = [f"row {p.row} ({p.cell!r})" if p.cell else f"row {p.row}" for p in problems]
            line = f"{file}: {kind}, in {count:,} rows: {', '.join(rows)}, …"
            repeated.setdefault(file, []).append(line)
        lines = []
        for file, problems in apart.items():
            for problem in sorted(problems):
                row = f" row {problem.row}" if problem.row else ""
                lines.append(f"{file}{row}: {problem.text}")
            lines += repeated.get(file, [])
        return lines

    def stop(self) -> None:
        """Refuse the tables if anything was found."""
        if not self.count:
            return
        lines = self.lines()
        more = [f"and {len(lines) - SHOWN} more lines"] if len(lines) > SHOWN else []
        problems = many(self.count, "problem")
        raise ProblemsError(f"{problems}, nothing was written:", [*lines[:SHOWN], *more])


def listed(names: Sequence[str], most: int = 6) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
