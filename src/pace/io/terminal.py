"""What people see in a terminal: tables and facts within 80 columns, a bar while they wait.

Colours and rules are for terminals. In a pipe the same words come plain, 80 columns wide; `NO_COLOR`
takes colours away on a terminal too, `FORCE_COLOR` puts them into a pipe.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Literal

from pace.io.text import shown

if TYPE_CHECKING:
    from rich.box import Box
    from rich.console import Console
    from rich.text import Text

WIDTH = 80
FOLD = 22  # columns that words keep when there is no room
GAP, EDGES = 3, 2  # between the columns of a table, and left and right of all


def coloured(stream: IO[str]) -> bool:
    """Whether to write in colour: on a terminal, unless the environment says otherwise."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    class Inert(Console):
        """Prints text as one line that does nothing; see `pace.io.text`."""

        def print(self, *objects: Any, **named: Any) -> None:
            super().print(*(shown(o) if isinstance(o, str) else o for o in objects), **named)

    stream = sys.stderr if stderr else sys.stdout
    piped = not stream.isatty() and "COLUMNS" not in os.environ
    return Inert(
        stderr=stderr,
        highlight=False,
        markup=False,
        emoji=False,
        width=WIDTH if piped else None,
        color_system="auto" if coloured(stream) else None,
    )


def inert(cell: str | Text) -> str | Text:
    """A cell that does nothing; see `pace.io.text`."""
    if isinstance(cell, str):
        return shown(cell)
    cell.plain = shown(cell.plain)
    return cell


def rule(to: Console) -> Box:
    """One line under the heads, and no other."""
    from rich import box

    if to.is_terminal and not to.options.ascii_only:
        return box.SIMPLE_HEAD
    return box.Box(str(box.SIMPLE_HEAD).replace("─", "-"), ascii=True)


def table(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str | Text]],
    to: Console,
    words: int = 1,
    *,
    first: int = 1,
    folding: Collection[int] = (),
    sums: int = 0,
) -> None:
    """A table whose `first` columns and last `words` hold words, the others numbers.

    Numbers stay whole. Where there is no room, words fold, and so do the columns of `folding`; where
    that is not enough, the table goes on below. The last `sums` rows are set apart.
    """
    from rich.cells import cell_len
    from rich.table import Table

    heads = [shown(head) for head in heads]
    rows = [list(map(inert, row)) for row in rows]
    count = len(heads)
    left = {*range(first), *range(count - words, count)}
    cells = [list(heads), *(list(map(str, row)) for row in rows)]
    most, least = [], []
    for place, column in enumerate(zip(*cells, strict=True)):
        most.append(max(map(cell_len, column)))
        folds = place in left or place in folding
        least.append(longest_word(column) if folds else most[-1])
    if title:
        to.print(title, style="bold")
    for columns in fitting(least, first, to.width):
        made = Table(box=rule(to), pad_edge=False)
        room = to.width - EDGES - GAP * (len(columns) - 1)
        widths = shared(
            room, [least[place] for place in columns], [most[place] for place in columns]
        )
        for place, width in zip(columns, widths, strict=True):
            side: Literal["left", "right"] = "left" if place in left else "right"
            made.add_column(heads[place], justify=side, overflow="fold", width=width)
        for number, row in enumerate(rows):
            if sums and number == len(rows) - sums:
                made.add_section()
            made.add_row(*(row[place] for place in columns))
        to.print(made)


@contextmanager
def live(title: str) -> Iterator[Callable[[Sequence[str], Sequence[Sequence[str]]], None]]:
    """A table on stdout that is drawn anew at every call, gone when it is done. For terminals."""
    from rich.live import Live
    from rich.table import Table

    to = console()
    with Live(console=to, transient=True, auto_refresh=False) as screen:

        def show(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
            made = Table(title=shown(title), title_justify="left", box=rule(to), pad_edge=False)
            for head in heads:
                made.add_column(shown(head), no_wrap=True)
            for row in rows:
                made.add_row(*map(shown, row))
            screen.update(made, refresh=True)

        yield show


def longest_word(cells: Iterable[str]) -> int:
    """The columns that cells need when they fold; a word that is longer than most folds too."""
    from rich.cells import cell_len

    return min(FOLD, max((cell_len(word) for cell in cells for word in cell.split()), default=0))


def shared(room: int, least: Sequence[int], most: Sequence[int]) -> list[int]:
    """Widths between the least and the most, the narrowest served first."""
    widths = list(least)
    spare = room - sum(least)
    for place in sorted(range(len(least)), key=lambda place: most[place] - least[place]):
        more = min(max(spare, 0), most[place] - least[place])
        widths[place] += more
        spare -= more
    return widths


def fitting(widths: Sequence[int], first: int, room: int) -> Iterator[list[int]]:
    """Columns in groups that fit, each with the first few."""
    kept = list(range(first))
    start = EDGES + sum(widths[:first]) + GAP * (first - 1)
    shown, used = kept, start
    for place in range(first, len(widths)):
        needed = GAP + widths[place]
        if used + needed > room and len(shown) > first:
            yield shown
            shown, used = kept, start
        shown, used = [*shown, place], used + needed
    yield shown


def facts(title: str, rows: Mapping[str, str], to: Console) -> None:
    """A title, then a line for each fact."""
    from rich import box
    from rich.table import Table

    to.print(title, style="bold")
    made = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for key, value in rows.items():
        made.add_row(shown(key), shown(value))
    to.print(made)


def many(count: int, thing: str) -> str:
    """`1 client`, `3 clients`."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


@contextmanager
def progress(total: int | None, what: str) -> Iterator[Callable[[str | int], None]]:
    """A bar on stderr, gone when it is done; call it once for each step. Nothing in a pipe."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    to, what = console(stderr=True), shown(what)
    said = TextColumn(
        "{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")
    )
    columns = (said, BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(
        *columns, console=to, transient=True, expand=True, disable=not sys.stderr.isatty()
    )
    with bar:
        task = bar.add_task(what, total=total)

        def step(done: str | int) -> None:
            bar.update(task, advance=1, description=shown(done) if isinstance(done, str) else what)

        yield step
