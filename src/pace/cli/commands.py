"""The commands by name. `pace --help` and completion of names load none of their modules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, get_type_hints

import typer

from pace.cli import manual
from pace.registry import not_installed

# The first sentence of each command's docstring (a test compares), or what a group is about.
ALONE = {
    "run": "Run a whole federation in this process: every client, the server, every message in "
    "bytes.",
    "methods": "List the methods, built in and of installed packages: a sentence and the settings "
    "of each.",
    "partition": "Divide a graph among clients: show what each one gets, write it to a file.",
    "report": "Write the folder's index.html: one page that needs no network and opens from disk.",
}
TOGETHER = {
    "new": "Make a job: the file that everybody who takes part agrees on.",
    "show": "Say in words what a job asks of those who take part.",
    "export": "Write what a site uses, Local and what came back with their weights, for other "
    "programs.",
    "client": "A site: train, adopt, predict, evaluate.",
    "server": "The server: check uploads, merge them once.",
    "flower": "Over the network, on Flower: kits, nodes, runs and who is where.",
    "keys": "Keys for signing uploads and returns.",
    "codebook": "Agree on columns: every site describes its own, one codebook is made of them.",
}
LOOK = {
    "inspect": "Explain any file of ours: kind, version, digest, tensors, bytes, sanity.",
    "doctor": "Look at this machine: versions, extras, threads, data found; try every step once.",
    "graph": "Make a .graph file of your own tables, and look at one.",
}
OURS = ALONE | TOGETHER | LOOK
MODULES = {
    "new": "job",
    "show": "job",
    "report": "inspect",
}  # the others' are called like the command
PACKAGES = {"reproduce": "pace-study"}  # commands of other packages that a reader may look for


class Commands(manual.Group):
    """The group of all commands, each loaded when it is asked for."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.commands: Any = LoadedCommands()

    def overview(self) -> Iterator[tuple[str, str, str]]:
        others = {
            name: str(entry.dist.metadata["Summary"]) if entry.dist else name
            for name, entry in added_commands().items()
        }
        panels = {
            "In one process": ALONE | others,
            "Across organisations": TOGETHER,
            "Files and this machine": LOOK,
        }
        for title, rows in panels.items():
            for name, about in rows.items():
                yield title, name, about

    def get_command(self, ctx: Any, name: str) -> Any:
        if name in PACKAGES and name not in self.commands:
            raise not_installed(f"`pace {name}`", PACKAGES[name])
        return super().get_command(ctx, name)


class LoadedCommands(Mapping[str, Any]):
    """Name -> click's command, of ours and of packages with entry points in `pace.commands`."""

    def __iter__(self) -> Iterator[str]:
        return iter([*OURS, *added_commands()])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in OURS or name in added_commands()

    def __getitem__(self, name: str) -> Any:
        if name not in OURS:
            return click_command(name, added_commands()[name].load())
        module = import_module(f"pace.cli.{MODULES.get(name, name)}")
        return click_command(name, getattr(module, "app", None) or getattr(module, name))


@cache
def added_commands() -> dict[str, EntryPoint]:
    """What other packages add, such as pace-study its `pace reproduce`."""
    return {entry.name: entry for entry in entry_points(group="pace.commands")}


def click_command(name: str, source: Any) -> Any:
    """The command of a function, or of a Typer application, with our help pages."""
    make: Any = typer.main.get_group
    if not isinstance(source, typer.Typer):
        function, make = source, typer.main.get_command
        source = typer.Typer(add_completion=False)
        epilog = getattr(import_module(function.__module__), "EXAMPLES", None)
        source.command(name, epilog=epilog)(function)
    source.rich_markup_mode = None
    source.info.cls, source.info.help = manual.Group, OURS.get(name)
    for registered in source.registered_commands:
        registered.cls = manual.Command
        if callback := registered.callback:  # evaluated once; Typer would do it three times
            callback.__annotations__ = get_type_hints(callback, include_extras=True)
    command: Any = make(source)
    command.name = name
    return command
