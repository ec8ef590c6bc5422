"""What is wrong with a user's tables: every problem with its row, a repeated one once with its count."""

from __future__ import annotations

from dataclasses import dataclass, field

from pace.errors import ProblemsError
from pace.io.terminal import many

SHOWN = 50  # lines
APART = 3  # times that a problem is told row by row; beyond, it is one line
EXAMPLES = 3


@dataclass
class Group:
    """One kind of problem of one file: how often, and its first rows."""

    count: int = 0
    told: list[tuple[int, int, str]] = field(
        default_factory=list
    )  # row, when it was found, problem
    examples: list[str] = field(default_factory=list)


@dataclass
class Problems:
    """Problems as they are found. All are counted, the first of each kind are told."""

    groups: dict[tuple[str, str], Group] = field(default_factory=dict)  # file, kind
    broken: set[tuple[str, int]] = field(default_factory=set)  # rows about which enough was said
    count: int = 0

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
        group = self.groups.setdefault((file, kind or text), Group())
        group.count += 1
        self.count += 1
        if group.count <= APART:
            group.told.append((row or 0, self.count, text))
        if row is not None and len(group.examples) < EXAMPLES:
            group.examples.append(f"row {row} ({cell!r})" if cell else f"row {row}")

    def lines(self) -> list[str]:
        """What to tell: file by file, row by row; repeated problems at the end of their file."""
        apart: dict[str, list[tuple[int, int, str]]] = {}
        repeated: dict[str, list[str]] = {}
        for (file, kind), group in self.groups.items():
            apart.setdefault(file, [])
            if group.count <= APART:
                apart[file] += group.told
            else:
                rows = f"{group.count:,} rows: {', '.join(group.examples)}, …"
                repeated.setdefault(file, []).append(f"{file}: {kind}, in {rows}")
        lines = []
        for file, told in apart.items():
            for row, _, text in sorted(told):
                lines.append(f"{file} row {row}: {text}" if row else f"{file}: {text}")
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
