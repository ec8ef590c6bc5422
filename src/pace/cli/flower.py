"""`pace flower`: run a job over the network, see who is where, make the kits of a deployment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pace.cli import manual
from pace.cli.given import Allow, As_json, Job_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from pace.runtimes.flower.control import Control, Run
    from pace.runtimes.network.progress import Event, Progress
    from pace.runtimes.network.round import RoundReport

PROVISION = """
Example:

  pace flower provision job.pace --host server.example --out kits

Then kits/server/start.sh at the server, kits/NAME/start.sh at each site, and
kits/server/run.sh.
"""
SUPERLINK = """
Example:

  pace flower superlink --kit kits/server
"""
RUN = """
Examples:

  pace flower run --kit kits/server

  pace flower run --kit kits/server --deadline 3600 --json

Run again, it goes on where an earlier run of the job ended.
"""
STATUS = """
Examples:

  pace flower status --kit kits/server

  pace flower status 1234 --kit kits/server --json
"""
STOP = """
Example:

  pace flower stop 1234 --kit kits/server

What came is kept: `pace flower run` goes on with the same job.
"""
NODE = """
Examples:

  pace flower node node.toml --check

  pace flower node node.toml
"""
REGISTER = """
Example:

  pace flower register north.pub --kit kits/server
"""
EXAMPLES = """
  pace flower provision job.pace --host server.example --out kits

  pace flower run --kit kits/server

  pace flower status --kit kits/server
"""
Kit = Annotated[Path, typer.Option("--kit", help="The server's kit.", metavar="FOLDER")]
HERE = Path()
PORT_HELP = "The port that sites reach; the next one is for the operator, on this machine only."

app = typer.Typer(
    cls=manual.Group,
    help="Over the network, on Flower: kits, nodes, runs and who is where.",
    epilog=EXAMPLES,
)


@app.command("provision", cls=manual.Command, epilog=PROVISION)
def provision(
    job_file: Job_file,
    host: Annotated[str, typer.Option(help="The server's name or address.", metavar="HOST")],
    out: Annotated[Path, typer.Option(help="The folder to make.", metavar="FOLDER")],
    port: Annotated[int, typer.Option(help=PORT_HELP, metavar="N")] = 18080,
    node_port: Annotated[
        int, typer.Option(help="Of the first node's local API.", metavar="N")
    ] = 9094,
    allow: Allow = None,
    as_json: As_json = False,
) -> None:
    """Make a folder for the server and one for each site of a job.

    Certificates, node keys, settings, units for systemd, and scripts to start and to check. A site
    adds its graph and, if the job has keys, its own key.
    """
    from pace.cli import console
    from pace.runtimes.flower import kits

    names = kits.provision(job_file, host, out, port=port, node_port=node_port)
    if as_json:
        console.one_object({"kits": str(out), "sites": names})
        return
    console.say(f"Written: {out}/server and {console.many(len(names), 'site')}: {', '.join(names)}")
    console.say(
        f"Keep {out}/server/ca.key, tls.key and secret private; give each site its own folder only."
    )


@app.command("node", cls=manual.Command, epilog=NODE)
def node(
    settings: Annotated[Path, typer.Argument(help="The site's node.toml.", metavar="FILE")],
    check: Annotated[
        bool, typer.Option("--check", help="Say what would keep it from taking part, and end.")
    ] = False,
    as_json: As_json = False,
) -> None:
    """Be a site's node: start Flower's SuperNode, and answer what it receives.

    It runs nothing but PACE as it is installed here, whatever app the server sends. With --check it
    exits with 1 if something would keep the site from taking part.
    """
    from pace.cli import console
    from pace.runtimes.flower.supernode import SuperNode

    site = SuperNode.read(settings)
    if not check:
        raise typer.Exit(site.run())
    problems = site.problems()
    if as_json:
        console.one_object({"name": site.name, "problems": problems})
    else:
        for problem in problems:
            console.say(problem)
        if not problems:
            console.say(f"{site.name} can take part: job, graph, keys and CA file fit.")
    raise typer.Exit(int(bool(problems)))


@app.command("superlink", cls=manual.Command, epilog=SUPERLINK)
def superlink(kit: Kit = HERE) -> None:
    """Be the server: Flower's SuperLink, of which sites reach only what nodes need."""
    server = _control(kit).kit
    from pace.runtimes.flower.superlink import serve

    serve(server)


@app.command("run", cls=manual.Command, epilog=RUN)
def run(
    kit: Kit = HERE,
    journal: Annotated[
        Path | None,
        typer.Option(help="The job's crash-safe folder (default: JOB.journal).", metavar="FOLDER"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder for the report (default: JOB.report).", metavar="FOLDER"),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            help="The server's private key, if the job has keys (default: server.key in the kit).",
            metavar="FILE",
        ),
    ] = None,
    nodes: Annotated[
        str, typer.Option(help="Fix who is who: north=123,south=456.", metavar="NAME=ID")
    ] = "",
    deadline: Annotated[
        float, typer.Option(help="Seconds for uploads.", metavar="SECONDS")
    ] = 600.0,
    delivery: Annotated[
        float | None,
        typer.Option(
            help="Seconds for returns (default: by the number of nodes).", metavar="SECONDS"
        ),
    ] = None,
    patience: Annotated[
        float | None,
        typer.Option(
            help="Seconds for one answer (default: by the number of nodes).", metavar="SECONDS"
        ),
    ] = None,
    allow: Allow = None,
    as_json: As_json = False,
) -> None:
    """Ask every node for its upload, merge, send each its return; show who is where.

    It exits with 0 only if all who took part have confirmed their return, with 1 if the run ended
    otherwise (too few, stopped, the SuperLink lost), with 2 if it could not be started.
    """
    from pace.cli import console
    from pace.errors import FlowerError
    from pace.io.records import plain_record
    from pace.jobs.job import read_job
    from pace.runtimes.network.bindings import parse_nodes
    from pace.runtimes.network.progress import Progress
    from pace.runtimes.network.settings import Settings

    job = read_job(kit / "job.pace")
    settings = Settings(
        kit / "job.pace",
        journal or kit / "job.journal",
        out or kit / "job.report",
        key=key or (kit / "server.key" if job.signed else None),
        nodes=parse_nodes(nodes),
        deadline=deadline,
        delivery=delivery,
        patience=patience,
    )
    control = _control(kit)
    from pace.runtimes.flower.control import COMPLETED
    from pace.runtimes.flower.server import play_run

    if caution := job.federation.method.caution(len(job.participants)):
        console.say(caution, err=True)
    number = control.start()
    progress = Progress({node.node: node.name for node in control.nodes()})
    try:
        with following(f"Run {number}", progress, quiet=as_json) as show:
            ended, report = play_run(control, number, settings, show)
    except FlowerError as error:
        console.say(f"pace: run {number} was lost: {error}. Run the same command again.", err=True)
        raise typer.Exit(1) from error
    if as_json:
        participants = plain_record(list(progress.rows.values()))
        found = {"participants": participants, "report": plain_record(report)}
        console.one_object({**plain_record(ended), **found})
    else:
        _show(ended, progress, report, settings.out)
    if ended.status != COMPLETED:
        raise typer.Exit(1)


@contextmanager
def following(title: str, progress: Progress, *, quiet: bool) -> Iterator[Callable[[Event], None]]:
    """Show events as they come: a table that changes on a terminal, plain lines in a pipe."""
    import sys
    from datetime import datetime

    from pace.cli import console
    from pace.runtimes.network.progress import HEADS, MISSING

    if quiet or not sys.stdout.isatty():

        def line(event: Event) -> None:
            row = progress.add(event)
            if not quiet and event.state != MISSING:  # at the start that is everybody
                console.say(f"{datetime.now():%H:%M:%S} {event.sentence(row.who)}")
                sys.stdout.flush()

        yield line
        return
    with console.live(title) as show:

        def redraw(event: Event) -> None:
            progress.add(event)
            show(HEADS, progress.cells())

        yield redraw


@app.command("status", cls=manual.Command, epilog=STATUS)
def status(
    number: Annotated[
        str | None, typer.Argument(help="One run (default: all).", metavar="RUN")
    ] = None,
    kit: Kit = HERE,
    as_json: As_json = False,
) -> None:
    """List runs and nodes; of one run, show who is where.

    Of one run, exit with 0 only if it is completed, with 1 if it failed, was stopped or still runs.
    """
    from pace.cli import console
    from pace.io.records import plain_record
    from pace.runtimes.network.progress import Progress, parse_event

    control = _control(kit)
    from pace.runtimes.flower.control import COMPLETED

    runs, nodes = control.runs(number), control.nodes()
    progress = Progress({node.node: node.name for node in nodes})
    for event in filter(None, map(parse_event, control.log(number) if number else ())):
        progress.add(event)
    if as_json:
        participants = {"participants": list(progress.rows.values())}
        console.one_object(
            plain_record({"runs": runs, **(participants if number else {"nodes": nodes})})
        )
    else:
        to = console.console()
        rows = [[run.run, run.status, f"{run.seconds:.0f}", f"{run.bytes:,}"] for run in runs]
        console.table("", ["Run", "Status", "Seconds", "Bytes"], rows, to, words=0)
        if not number:
            listed = [[node.name, node.status, node.since] for node in nodes]
            console.table("", ["Node", "Status", "Online since"], listed, to)
        _show_progress(progress)
        if number and runs[0].why:
            to.print(runs[0].why)
    if number:
        raise typer.Exit(int(runs[0].status != COMPLETED))


@app.command("stop", cls=manual.Command, epilog=STOP)
def stop(
    number: Annotated[str, typer.Argument(help="The run.", metavar="RUN")],
    kit: Kit = HERE,
    as_json: As_json = False,
) -> None:
    """End a run. Uploads that were accepted stay accepted; the job can be run again."""
    from pace.cli import console

    _control(kit).stop(number)
    if as_json:
        console.one_object({"run": number, "stopped": True})
    else:
        console.say(f"Stopped: run {number}")


@app.command("register", cls=manual.Command, epilog=REGISTER)
def register(
    publics: Annotated[list[Path], typer.Argument(help="Nodes' public keys, NAME.pub.")],
    kit: Kit = HERE,
    as_json: As_json = False,
) -> None:
    """Let nodes join: those of the kit may already, this is for other keys.

    A key's file is named after its site; `pace flower run` shows these names.
    """
    from pace.cli import console

    control, registered = _control(kit), {}
    for public in publics:
        name = public.absolute().parent.name if public.stem == "node" else public.stem
        registered[name] = control.register(name, public)
        if not as_json:
            console.say(f"Registered: {name} is node {registered[name]}")
    if as_json:
        console.one_object({"nodes": registered})


def _control(kit: Path) -> Control:
    """The SuperLink of a kit, with a sentence where Flower is not installed."""
    from pace.errors import SettingError
    from pace.runtimes.flower.kits import ServerKit

    try:
        from pace.runtimes.flower.control import Control
    except ImportError as error:
        raise SettingError(
            f"flwr is not installed here ({error.name} is missing): pip install 'pace-fgl[flower]'"
        ) from error
    return Control(ServerKit.read(kit))


def _show_progress(progress: Progress) -> None:
    from pace.cli import console
    from pace.runtimes.network.progress import HEADS

    if progress.rows:
        console.table("", HEADS, progress.cells(), console.console(), words=0, first=3)


def _show(ended: Run, progress: Progress, report: RoundReport | None, out: Path) -> None:
    from pace.cli import console
    from pace.runtimes.files.merge import merge_sentences

    to = console.console()
    _show_progress(progress)
    if report:
        for sentence in merge_sentences(report):
            to.print(sentence)
        console.say(f"Written: {out}/report.json and report.md beside it")
    to.print(
        f"Run {ended.run}: {ended.status} after {ended.seconds:.0f} s, {ended.bytes:,} bytes moved"
    )
    if not report and ended.why:
        to.print(ended.why)
