"""`pace report`: one page of a study's folder, or of a run's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pace.cli.given import As_json

EXAMPLES = """
Examples:

  pace report results/

  pace report demo/ --json
"""


def report(
    folder: Annotated[
        Path, typer.Argument(help="What `pace reproduce --out` or `pace run --out` has written.")
    ],
    as_json: As_json = False,
) -> None:
    """Write the folder's index.html: one page that needs no network and opens from disk."""
    from pace.cli import console
    from pace.reports import run_page
    from pace.reports.dataframe import nothing_stored
    from pace.reports.run_result import NAME
    from pace.study import page

    if (folder / "cells").is_dir():
        made = page.write(folder)
    elif (folder / NAME).is_file():
        made = run_page.write(folder)
    else:
        raise nothing_stored(folder)
    if as_json:
        console.one_object({"page": str(made), "bytes": made.stat().st_size})
    else:
        console.say(made)
