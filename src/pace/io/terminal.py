"""What commands print: lines, facts within 80 columns, a bar while people wait, or one JSON object.

Colours and rules are for terminals. In a pipe the same words come plain, 80 columns wide; `NO_COLOR`
takes colours away on a terminal too, `FORCE_COLOR` puts them into a pipe.
"""

import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from pace.io.records import plain_record
from pace.io.text import shown

if TYPE_CHECKING:
    from rich.box import Box
    from rich.console import Console

WIDTH = 80
QUIET = 10.0  # seconds between two lines about progress in a pipe


def say(line: object, *, err: bool = False) -> None:
    """One line on stdout, or on stderr; names in it do nothing to the terminal."""
    print(shown(line), file=sys.stderr if err else sys.stdout, flush=True)


def answer(content: object, *told: str | Callable[[], None], as_json: bool) -> None:
    """What a command has done: one JSON object and nothing else, or these lines and what is shown.

    The object is of a record, or a mapping of records. A function in place of it or of a line is
    called where it is needed.
    """
    if as_json:
        print(json.dumps(plain_record(content() if callable(content) else content)))
        return
    for part in told:
        if callable(part):
            part()
        else:
            say(part)


def coloured(stream: IO[str]) -> bool:
    """Whether to write in colour: on a terminal, unless the environment says otherwise."""
    if os.environ.get("NO_COLOR") or os.environ.get("FORCE_COLOR"):
        return not os.environ.get("NO_COLOR")
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def console(*, stderr: bool = False, plain: bool = False) -> "Console":
    """A console that shows text and does nothing else; with `plain`, without colours and rules."""
    from rich.console import Console

    class Inert(Console):
        """Prints each text as one line that does nothing (see `pace.io.text`), and tables of ours."""

        def print(self, *parts: Any, **named: Any) -> None:
            for part in parts:
                if hasattr(part, "show"):
                    part.show(self)
                else:
                    super().print(shown(part) if isinstance(part, str) else part, **named)

    stream = sys.stderr if stderr else sys.stdout
    piped = not stream.isatty() and "COLUMNS" not in os.environ
    return Inert(
        file=io.StringIO() if plain else None,
        stderr=stderr,
        highlight=False,
        markup=False,
        emoji=False,
        width=WIDTH if piped else None,
        color_system="auto" if coloured(stream) and not plain else None,
    )


def drawn(show: "Callable[[Console], None]") -> str:
    """What a function prints, as plain text of the terminal's width."""
    to = console(plain=True)
    with to.capture() as caught:
        show(to)
    return "\n".join(line.rstrip() for line in caught.get().splitlines())


def rule(to: "Console") -> "Box":
    """One line under the heads, and no other."""
    from rich import box

    plain = box.Box(str(box.SIMPLE_HEAD).replace("─", "-"), ascii=True)
    return box.SIMPLE_HEAD if to.is_terminal and not to.options.ascii_only else plain


def facts(title: str, rows: Mapping[str, str], to: "Console") -> None:
    """A title, then a line for each fact."""
    from rich import box
    from rich.table import Table

    to.print(title, style="bold")
    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for key, value in rows.items():
        table.add_row(shown(key), shown(value))
    to.print(table)


def many(count: int, thing: str) -> str:
    """`1 client`, `3 clients`."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


@contextmanager
def progress(total: int | None, title: str) -> Iterator[Callable[[str | int], None]]:
    """A bar on stderr, gone when it is done; call it once for each step.

    In a pipe, a line for a step that ends more than `QUIET` seconds after the one said before it.
    """
    title = shown(title)
    if not sys.stderr.isatty():
        yield _lines(total, title)
        return
    from rich import progress as bars
    from rich.table import Column

    column = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    with bars.Progress(
        bars.TextColumn("{task.description}", table_column=column),
        bars.BarColumn(20),
        bars.MofNCompleteColumn(),
        bars.TimeRemainingColumn(),
        console=console(stderr=True),
        transient=True,
        expand=True,
    ) as bar:
        task = bar.add_task(title, total=total)

        def step(done: str | int) -> None:
            bar.update(task, advance=1, description=shown(done) if isinstance(done, str) else title)

        yield step


def _lines(total: int | None, title: str) -> Callable[[str | int], None]:
    """Steps as lines on stderr, for logs."""
    done, began = 0, time.monotonic()
    printed = began

    def step(name: str | int) -> None:
        nonlocal done, printed
        done, now = done + 1, time.monotonic()
        if now - printed >= QUIET:
            printed, of = now, f" of {total}" if total else ""
            label = f"{title}: {name}" if isinstance(name, str) else title
            say(f"{label}, {done}{of} after {now - began:.0f} s", err=True)

    return step
