"""The commands by name. `pace --help` and completion of names load none of their modules."""

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, get_type_hints

import typer

from pace.cli import manual
from pace.registry import not_installed

# The first sentence of each command's docstring (a test compares), or what a group is about.
PANELS = {
    "In one process": {
        "run": "Run a whole federation in this process, every message in bytes.",
        "methods": "List the methods, built in and of installed packages, with their settings.",
        "partition": "Divide a graph among clients: show what each one gets, write it to a file.",
        "reproduce": "Compute the study's missing cells, then its tables and figures beside the "
        "published numbers.",
    },
    "Across organisations": {
        "new": "Make a job: the file that everybody who takes part agrees on.",
        "show": "Say in words what a job asks of those who take part.",
        "export": "Write what a site uses, Local and what came back, for other programs.",
        "client": "A site: train, adopt, predict, evaluate.",
        "server": "The server: check uploads, merge them once.",
        "flower": "Over the network, on Flower: kits, nodes, runs and who is where.",
        "folder": "Over a shared folder: a site's node, and the round.",
        "nvflare": "On NVFlare: export a job, allow it at a site.",
        "keys": "Keys for signing uploads and returns.",
        "codebook": "Agree on columns: every site describes its own, and they become one codebook.",
    },
    "Files and this machine": {
        "inspect": "Explain any file that PACE writes: kind, version, digest, tensors, bytes, sanity.",
        "doctor": "Look at this machine: versions, extras, GPUs, data found; try every step once.",
        "graph": "Make a .graph file from your own tables, and look at one.",
        "rows": "Write a graph's nodes as rows in Parquet: all that pace-ridge reads of a graph.",
    },
}
OURS = {name: about for panel in PANELS.values() for name, about in panel.items()}
# Modules of several commands; the others are called like theirs.
MODULES = dict.fromkeys(("new", "show", "keys", "server", "export", "inspect"), "job")
MODULES |= {"partition": "run", "methods": "run"}
MODULES |= dict.fromkeys(("codebook", "graph", "rows"), "tables")
# Commands of our other packages, which a reader may look for.
PACKAGES = {"reproduce": "pace-study"}
PACKAGES |= dict.fromkeys(("flower", "folder", "nvflare"), "pace-network")


class Commands(manual.Group):
    """The group of all commands, each loaded when it is asked for."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        names = [name for name in OURS if name not in PACKAGES or name in added_commands()]
        self.commands: Any = dict.fromkeys(names)

    def overview(self) -> manual.Sections:
        return {
            title: [(name, about) for name, about in panel.items() if name in self.commands]
            for title, panel in PANELS.items()
        }

    def get_command(self, ctx: Any, name: str) -> Any:
        if name not in OURS:
            return None
        if name not in PACKAGES:
            module = import_module(f"pace.cli.{MODULES.get(name, name)}")
            return click_command(name, getattr(module, name))
        if name in added_commands():
            return click_command(name, added_commands()[name].load())
        raise not_installed(f"`pace {name}`", PACKAGES[name])


@cache
def added_commands() -> dict[str, EntryPoint]:
    """What our other packages add, such as pace-study its `pace reproduce`."""
    return {entry.name: entry for entry in entry_points(group="pace.commands")}


def click_command(name: str, source: Any) -> Any:
    """The command of a function, or of a Typer application, with our help pages."""
    make: Any = typer.main.get_group
    if not isinstance(source, typer.Typer):
        function, make = source, typer.main.get_command
        source = typer.Typer(add_completion=False)
        source.command(name)(function)
    source.rich_markup_mode = None
    source.info.cls, source.info.help = manual.Group, OURS.get(name)
    for registered in source.registered_commands:
        registered.cls = manual.Command
        if callback := registered.callback:  # evaluated once; Typer would do it three times
            callback.__annotations__ = get_type_hints(callback, include_extras=True)
    command: Any = make(source)
    command.name = name
    return command
