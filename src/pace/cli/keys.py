"""`pace keys`: a pair of keys for signing messages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pace.cli import manual
from pace.cli.given import As_json

EXAMPLES = """
  pace keys new north

It writes north.key and north.pub. Send north.pub to whoever makes the job; north.key never leaves
this machine.
"""

app = typer.Typer(cls=manual.Group, help="Keys for signing uploads and returns.", epilog=EXAMPLES)


@app.callback()
def keys() -> None:
    """Keys for signing uploads and returns."""


@app.command("new", cls=manual.Command, epilog=EXAMPLES)
def new(
    name: Annotated[
        Path, typer.Argument(help="The files' name, without .key and .pub.", metavar="NAME")
    ],
    as_json: As_json = False,
) -> None:
    """Make a pair of Ed25519 keys: NAME.key, for you alone, and NAME.pub."""
    from pace.cli import console
    from pace.errors import SettingError
    from pace.jobs import signatures

    if not name.name:
        raise SettingError(f"the name is {name}, which is a folder: give a name such as north")
    private, public = (name.with_name(name.name + end) for end in (".key", ".pub"))
    made = signatures.new_keys(private, public)
    print_ = signatures.fingerprint(made).hex()
    if as_json:
        console.one_object(
            {"private": str(private), "public": str(public), "key": made, "fingerprint": print_}
        )
        return
    console.say(f"Written: {private} (keep it here, it is your signature)")
    console.say(f"Written: {public} (send it to whoever makes the job)")
    console.say(f"Fingerprint: {print_}")
