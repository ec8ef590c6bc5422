"""`pace report`: one page of a run's folder or of a site's model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pace.cli.given import As_json

EXAMPLES = """
Examples:

  pace report demo/ --json

  pace report mine.model
"""


def report(
    folder: Annotated[
        Path,
        typer.Argument(help="What `pace run` or `pace client adopt` has written."),
    ],
    as_json: As_json = False,
) -> None:
    """Write the folder's index.html: one page that needs no network and opens from disk."""
    from pace.cli import console
    from pace.errors import FileError
    from pace.reports.run_result import NAME, RunResult
    from pace.runtimes.files.model import is_model, write_page

    if (folder / NAME).is_file():
        made = RunResult.read(folder).page(folder)
    elif is_model(folder):
        made = write_page(folder)
    else:
        raise FileError(
            f"{folder} has neither results.json (from `pace run --out`) nor model.json (from `pace "
            "client adopt`): name a folder that one of them has written"
        )
    if as_json:
        console.one_object({"page": str(made), "bytes": made.stat().st_size})
    else:
        console.say(made)
