"""`pace keys`: a pair of keys for signing messages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pace.cli import console, given
from pace.errors import SettingError

app = typer.Typer()


@app.command()
def new(
    name: Annotated[
        Path, given.argument("The files' name, without .key and .pub.", metavar="NAME")
    ],
    as_json: given.As_json = False,
) -> None:
    """Make a pair of Ed25519 keys: NAME.key, for you alone, and NAME.pub.

    Example:
        pace keys new north

    It writes north.key and north.pub. Send north.pub to whoever makes the job; north.key never leaves
    this machine.
    """
    from pace.jobs import signatures

    if not name.name:
        raise SettingError(f"the name is {name}, which is a folder: give a name such as north")
    private, public = (name.with_name(name.name + end) for end in (".key", ".pub"))
    key = signatures.new_keys(private, public)
    fingerprint = signatures.fingerprint(key).hex()
    if as_json:
        files = {"private": str(private), "public": str(public)}
        console.one_object({**files, "key": key, "fingerprint": fingerprint})
        return
    console.say(f"Written: {private} (keep it here, it is your signature)")
    console.say(f"Written: {public} (send it to whoever makes the job)")
    console.say(f"Fingerprint: {fingerprint}")
