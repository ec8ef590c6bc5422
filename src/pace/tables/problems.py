"""What is wrong with a user's tables: every problem with its row, a repeated one once with its count."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pace.errors import ProblemsError, SettingError
from pace.io import many

MOST_COLUMNS = 100_000  # of a table or a codebook, and categories of one
SHOWN = 50  # lines
APART = 3  # problems of one kind are listed row by row up to this many; more become one line

Problem = tuple[int, int, str, str]  # row, or 0 for a whole file; order of discovery; text; cell


@dataclass
class Problems:
    """Problems as they are found, and notes: all are counted, the first few of each kind kept."""

    count: int = 0
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)  # by file and kind
    first: dict[tuple[str, str], list[Problem]] = field(default_factory=dict)
    broken: dict[str, bytearray] = field(default_factory=dict)  # rows that need no second problem
    notes: list[str] = field(default_factory=list)  # what was done on the way
    warnings: list[str] = field(default_factory=list)  # what will mislead, if it is left so

    def add(self, file: str, row: int | None, text: str, *, kind: str = "", cell: str = "") -> None:
        """A problem of a row, or of the whole file; many of one `kind` become one line with examples."""
        broken = self.broken.get(file, b"")
        if row is not None and row < len(broken) and broken[row]:
            return
        key = (file, kind or text)
        self.count += 1
        self.counts[key] += 1
        if self.counts[key] <= APART:
            self.first.setdefault(key, []).append((row or 0, self.count, text, cell))

    def add_broken(self, file: str, row: int, text: str) -> None:
        """A row of which nothing else needs to be said."""
        self.add(file, row, text)
        broken = self.broken.setdefault(file, bytearray())
        broken.extend(bytes(max(0, row + 1 - len(broken))))
        broken[row] = True

    def lines(self) -> list[str]:
        """File by file, row by row; repeated problems at the end of their file."""
        lines = []
        for name in dict.fromkeys(file for file, _ in self.first):
            apart, repeated = list[Problem](), list[str]()
            for (file, kind), first in self.first.items():
                count = self.counts[file, kind]
                if file == name and count <= APART:
                    apart += first
                elif file == name:
                    rows = [f"row {row}" + f" ({cell!r})" * bool(cell) for row, _, _, cell in first]
                    repeated.append(f"{file}: {kind}, in {count:,} rows: {', '.join(rows)}, …")
            for row, _, text, _ in sorted(apart):
                lines.append(f"{name} row {row}: {text}" if row else f"{name}: {text}")
            lines += repeated
        return lines

    def stop(self) -> None:
        if self.count:
            lines = self.lines()
            more = [f"and {len(lines) - SHOWN} more lines"] if len(lines) > SHOWN else []
            problems = many(self.count, "problem")
            raise ProblemsError(f"{problems}, nothing was written:", [*lines[:SHOWN], *more])


def listed(names: Sequence[object], most: int = 6) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def check_choice(option: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise SettingError(f"{option} is {value!r}, expected {' or '.join(choices)}")
