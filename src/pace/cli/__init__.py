"""The `pace` command: parse, call, print. Heavy imports wait until a command runs."""

import sys

import typer

from pace import __version__
from pace.cli import (
    bench,
    client,
    flower,
    graph,
    inspect,
    job,
    keys,
    partition,
    report,
    reproduce,
    run,
    server,
)
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
app.command("reproduce", epilog=reproduce.EXAMPLES)(reproduce.reproduce)
app.command("report", epilog=report.EXAMPLES)(report.report)
app.add_typer(graph.app, name="graph")
app.command("new", epilog=job.NEW)(job.new)
app.command("show", epilog=job.SHOW)(job.show)
app.add_typer(client.app, name="client")
app.add_typer(server.app, name="server")
app.add_typer(flower.app, name="flower")
app.command("inspect", epilog=inspect.EXAMPLES)(inspect.inspect)
app.add_typer(keys.app, name="keys")
app.command("bench", epilog=bench.EXAMPLES)(bench.bench)


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
    except OSError as error:  # a full disk, a folder that may not be written to
        where = f" {error.filename}" if error.filename else ""
        print(f"pace: cannot use{where}: {error.strerror or error}", file=sys.stderr)
        sys.exit(2)
