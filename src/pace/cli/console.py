"""How commands speak: facts, tables and sentences within 80 columns, or one JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console


def console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def one_object(found: Mapping[str, Any]) -> None:
    print(json.dumps(found))


def facts(title: str, rows: Mapping[str, str], to: Console) -> None:
    """A title, then a line for each fact."""
    from rich import box
    from rich.table import Table

    made = Table(title=title, title_justify="left", box=box.SIMPLE, show_header=False)
    made.pad_edge = False
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for key, value in rows.items():
        made.add_row(key, value)
    to.print(made)


def table(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], to: Console, words: int = 1
) -> None:
    """A table whose first column and last `words` hold words, the others numbers."""
    from rich import box
    from rich.table import Table

    made = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, head in enumerate(heads):
        wordy = place == 0 or place >= len(heads) - words
        made.add_column(head, justify="left" if wordy else "right", overflow="fold")
    for row in rows:
        made.add_row(*row)
    to.print(made)


@contextmanager
def progress(total: int | None, what: str) -> Iterator[Callable[[str | int], None]]:
    """A bar on stderr, gone when it is done; call it once for each step."""
    from rich.progress import Progress

    bar = Progress(*Progress.get_default_columns(), console=console(stderr=True), transient=True)
    with bar:
        task = bar.add_task(what, total=total)

        def step(done: str | int) -> None:
            description = done if isinstance(done, str) else what
            bar.update(task, advance=1, description=description)

        yield step
