"""The `pace` command: parse, call, print. Heavy imports wait until a command runs."""

import sys

import typer

from pace import __version__
from pace.cli import graph, partition, run
from pace.errors import PaceError

app = typer.Typer(
    name="pace",
    help="One-shot personalized federated graph learning: one upload, one return, Local kept.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("run", epilog=run.EXAMPLES)(run.run)
app.command("partition", epilog=partition.EXAMPLES)(partition.partition)
app.add_typer(graph.app, name="graph")


@app.callback(invoke_without_command=True)
def top(
    version: bool = typer.Option(False, "--version", help="Print the version.", is_eager=True),
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Run a command; a mistake of the user's is one sentence on stderr and exit code 2."""
    try:
        app()
    except PaceError as error:
        print(f"pace: {error}", file=sys.stderr)
        sys.exit(2)
