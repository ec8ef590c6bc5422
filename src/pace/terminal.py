"""What people see in a terminal: tables and facts within 80 columns, a bar while they wait.

Colours and rules are for terminals. In a pipe the same words come plain, 80 columns wide; `NO_COLOR`
takes colours away on a terminal too, `FORCE_COLOR` puts them into a pipe.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from rich.box import Box
    from rich.console import Console
    from rich.table import Table

WIDTH = 80


def coloured(stream: IO[str]) -> bool:
    """Whether to write in colour: on a terminal, unless the environment says otherwise."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def console(*, stderr: bool = False, markup: bool = False) -> Console:
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    piped = not stream.isatty() and "COLUMNS" not in os.environ
    return Console(
        stderr=stderr,
        highlight=False,
        markup=markup,
        emoji=False,
        width=WIDTH if piped else None,
        color_system="auto" if coloured(stream) else None,
    )


def rule(to: Console) -> Box:
    """One line under the heads, and no other."""
    from rich import box

    if to.is_terminal and not to.options.ascii_only:
        return box.SIMPLE_HEAD
    return box.Box(str(box.SIMPLE_HEAD).replace("─", "-"), ascii=True)


def grid(title: str, heads: Sequence[str], to: Console, words: Sequence[int] = (0,)) -> Table:
    """An empty table. Columns of `words` fold where there is no room; numbers stay whole."""
    from rich.table import Table
    from rich.text import Text

    made = Table(
        title=Text(title) if title else None,
        title_justify="left",
        box=rule(to),
        pad_edge=False,
        show_header=any(heads),
    )
    for place, head in enumerate(heads):
        wordy = place in words
        made.add_column(
            head,
            justify="left" if wordy else "right",
            overflow="fold",
            no_wrap=not wordy,
            min_width=min(len(head), 6) if wordy else None,
        )
    return made


def table(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], to: Console, words: int = 1
) -> None:
    """A table whose first column and last `words` hold words, the others numbers."""
    last = range(len(heads) - words, len(heads))
    made = grid(title, heads, to, words=(0, *last))
    for row in rows:
        made.add_row(*row)
    to.print(made)


def facts(title: str, rows: Mapping[str, str], to: Console) -> None:
    """A title, then a line for each fact."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(title=Text(title), title_justify="left", box=box.SIMPLE, show_header=False)
    made.pad_edge = False
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for key, value in rows.items():
        made.add_row(key, value)
    to.print(made)


@contextmanager
def progress(total: int | None, what: str) -> Iterator[Callable[[str | int], None]]:
    """A bar on stderr, gone when it is done; call it once for each step. Nothing in a pipe."""
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    to = console(stderr=True)
    said = TextColumn(
        "{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")
    )
    columns = (said, BarColumn(24), TaskProgressColumn(), TimeRemainingColumn(compact=True))
    bar = Progress(
        *columns, console=to, transient=True, expand=True, disable=not sys.stderr.isatty()
    )
    with bar:
        task = bar.add_task(what, total=total)

        def step(done: str | int) -> None:
            bar.update(task, advance=1, description=done if isinstance(done, str) else what)

        yield step
