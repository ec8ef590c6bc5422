"""`pace nvflare`: a job for a federation that runs NVFlare."""

from pathlib import Path
from typing import Annotated

import typer

from pace.cli import manual
from pace.cli.given import Allow, As_json, Job_file, argument, option
from pace.io import terminal as console
from pace_network.commands import rounds

EXAMPLES = """
pace nvflare export job.pace --out nv
pace nvflare allow north --from nv/north
pace nvflare check north/local/pace.toml
"""

app = typer.Typer(
    cls=manual.Group, help="On NVFlare: export a job, allow it at a site.", epilog=EXAMPLES
)


@app.command("export", cls=manual.Command)
def export(
    job_file: Job_file,
    out: Annotated[Path, option("The folder to make.", "FOLDER")],
    allow: Allow = None,
    as_json: As_json = False,
) -> None:
    """Write an NVFlare job, which brings no code, and everybody's settings.

    NVFlare's clients are called as the job's participants.

    pace nvflare export job.pace --out nv

    Then `pace nvflare allow` at the server and at each site, and `nvflare job submit -j nv/job`.
    """
    from pace_network.nvflare import export

    names = export(job_file, out)
    line = f"Written: {out}/job to submit, and settings for the server and {', '.join(names)}"
    console.answer({"job": str(out / "job"), "sites": names}, line, as_json=as_json)


@app.command("allow", cls=manual.Command)
def allow_components(
    kit: Annotated[Path, argument("The NVFlare startup kit.", metavar="KIT")],
    settings: Annotated[Path, option("The settings that `export` wrote.", "FOLDER", "--from")],
    as_json: As_json = False,
) -> None:
    """Let an NVFlare server or client run PACE: its components, and the settings, into KIT/local.

    pace nvflare allow kits/north --from nv/north

    It allows nothing else and keeps the kit's other settings.
    """
    from pace_network.nvflare import allow_components

    written = [str(path) for path in allow_components(kit, settings)]
    console.answer({"written": written}, f"Written: {', '.join(written)}", as_json=as_json)


@app.command("check", cls=manual.Command)
def check(settings: rounds.Node_toml, as_json: As_json = False) -> None:
    """Say what would keep a site from taking part; exit with 1 if something would.

    pace nvflare check north/local/pace.toml
    """
    from pace_network.node import Node

    rounds.check_node(Node.read(settings), as_json=as_json)
