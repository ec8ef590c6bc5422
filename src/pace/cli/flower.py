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

    from pace.runtimes.flower.launch import Link, Run
    from pace.runtimes.network.progress import Event, Table
    from pace.runtimes.network.round import RoundReport

PROVISION = """
Example:

  pace flower provision job.pace --host server.example --out kits

Then kits/server/start.sh at the server, kits/NAME/start.sh at each site, and
kits/server/run.sh.
"""
SUPERLINK = """
Example:

  pace flower superlink kits/server
"""
RUN = """
Examples:

  pace flower run job.pace --superlink 127.0.0.1:18081
  --root-certificates ca.crt --secret secret

  pace flower run job.pace --superlink 127.0.0.1:18081
  --root-certificates ca.crt --secret secret --deadline 3600 --json

Run again, it goes on where an earlier run of the job ended.
"""
STATUS = """
Examples:

  pace flower status --superlink 127.0.0.1:18081 --root-certificates ca.crt

  pace flower status 1234 --superlink 127.0.0.1:18081
  --root-certificates ca.crt --json
"""
STOP = """
Example:

  pace flower stop 1234 --superlink 127.0.0.1:18081
  --root-certificates ca.crt

What came is kept: `pace flower run` goes on with the same job.
"""
NODE = """
Examples:

  pace flower node node.toml --check

  pace flower node node.toml
"""
Superlink = Annotated[
    str, typer.Option(help="The operator's port of the SuperLink, as HOST:PORT.", metavar="ADDRESS")
]
Certificate = Annotated[
    Path,
    typer.Option("--root-certificates", help="The CA file of the SuperLink.", metavar="FILE"),
]
Home = Annotated[
    Path, typer.Option(help="Folder for Flower's settings; never ~/.flwr.", metavar="FOLDER")
]
HOME = Path(".pace-flower")
PORT_HELP = "The port that sites reach; the next one is for the operator, on this machine only."

REGISTER = """
Examples:

  pace flower register north.pub --superlink 127.0.0.1:18081
  --root-certificates ca.crt

  pace flower register kits/server/nodes/*.pub
  --superlink 127.0.0.1:18081 --root-certificates ca.crt
"""
EXAMPLES = """
  pace flower provision job.pace --host server.example --out kits

  pace flower run job.pace --superlink 127.0.0.1:18081
  --root-certificates ca.crt --secret secret

  pace flower status --superlink 127.0.0.1:18081 --root-certificates ca.crt
"""

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

    found = SuperNode.read(settings)
    if not check:
        raise typer.Exit(found.run())
    problems = found.problems()
    if as_json:
        console.one_object({"name": found.name, "problems": problems})
    else:
        for problem in problems:
            console.say(problem)
        if not problems:
            console.say(f"{found.name} can take part: job, graph, keys and CA file fit.")
    raise typer.Exit(int(bool(problems)))


@app.command("superlink", cls=manual.Command, epilog=SUPERLINK)
def superlink(
    kit: Annotated[Path, typer.Argument(help="The server's kit.", metavar="FOLDER")],
    port: Annotated[int, typer.Option(help=PORT_HELP, metavar="N")] = 18080,
) -> None:
    """Be the server: Flower's SuperLink, of which sites reach only what nodes need."""
    import os

    from pace.runtimes.flower.launch import QUIET, program

    program("flower-superlink")  # says what to install
    os.environ |= QUIET | {"FLWR_HOME": str(kit.absolute() / "flwr-home")}
    from pace.runtimes.flower.superlink import serve

    serve(kit, port)


@app.command("run", cls=manual.Command, epilog=RUN)
def run(
    job_file: Job_file,
    superlink: Superlink,
    certificate: Certificate,
    secret: Annotated[
        Path, typer.Option(help="The server's secret, as in its kit.", metavar="FILE")
    ],
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
        typer.Option(help="The server's private key, if the job has keys.", metavar="FILE"),
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
    home: Home = HOME,
    allow: Allow = None,
    as_json: As_json = False,
) -> None:
    """Ask every node for its upload, merge, send each its return; show who is where.

    It exits with 0 only if all who took part have confirmed their return, with 1 if the run ended
    otherwise (too few, stopped, the SuperLink lost), with 2 if it could not be started.
    """
    from pace.cli import console
    from pace.errors import FlowerError
    from pace.io import regular
    from pace.io.records import plain_record
    from pace.jobs.job_file import read_job
    from pace.runtimes.flower.launch import COMPLETED
    from pace.runtimes.network.bindings import parse
    from pace.runtimes.network.progress import Table
    from pace.runtimes.network.settings import Settings

    settings = Settings(
        job_file,
        journal or job_file.with_suffix(".journal"),
        out or job_file.with_suffix(".report"),
        key=key,
        nodes=parse(nodes),
        deadline=deadline,
        delivery=delivery,
        patience=patience,
    )
    link = _link(superlink, certificate, home)
    job = read_job(job_file)
    if caution := job.federation.method.caution(len(job.participants)):
        console.say(caution, err=True)
    from pace.runtimes.flower.server import play_run

    password, number = regular.read(secret, 1024), link.start()
    table = Table(link.labels())
    try:
        with following(f"Run {number}", table, quiet=as_json) as show:
            ended, report = play_run(link, number, password, settings, show)
    except FlowerError as error:
        console.say(f"pace: run {number} was lost: {error}. Run the same command again.", err=True)
        raise typer.Exit(1) from error
    if as_json:
        participants = plain_record(list(table.rows.values()))
        found = {"participants": participants, "report": plain_record(report)}
        console.one_object({**ended, **found})
    else:
        _show(ended, table, report, settings.out / "report.json")
    if ended["status"] != COMPLETED:
        raise typer.Exit(1)


@contextmanager
def following(title: str, table: Table, *, quiet: bool) -> Iterator[Callable[[Event], None]]:
    """Show events as they come: a table that changes on a terminal, plain lines in a pipe."""
    import sys
    from datetime import datetime

    from pace.cli import console
    from pace.runtimes.network.progress import MISSING

    if quiet or not sys.stdout.isatty():

        def line(event: Event) -> None:
            row = table.add(event)
            if not quiet and event.state != MISSING:  # at the start that is everybody
                console.say(f"{datetime.now():%H:%M:%S} {event.sentence(row.who)}")
                sys.stdout.flush()

        yield line
        return
    with console.live(title) as show:

        def redraw(event: Event) -> None:
            table.add(event)
            show(*_cells(table))

        yield redraw


def _cells(table: Table) -> tuple[tuple[str, ...], list[list[str]]]:
    from pace.runtimes.network.progress import HEADS

    return HEADS, table.cells()


@app.command("status", cls=manual.Command, epilog=STATUS)
def status(
    superlink: Superlink,
    certificate: Certificate,
    number: Annotated[
        str | None, typer.Argument(help="One run (default: all).", metavar="RUN")
    ] = None,
    home: Home = HOME,
    as_json: As_json = False,
) -> None:
    """List runs and nodes; of one run, show who is where.

    Of one run, exit with 0 only if it is completed, with 1 if it failed, was stopped or still runs.
    """
    from pace.cli import console
    from pace.io import records
    from pace.runtimes.flower.launch import COMPLETED
    from pace.runtimes.network.progress import Table, parse

    link = _link(superlink, certificate, home)
    found = link.runs(number)
    labels = link.labels()
    table = Table(labels)
    nodes = [
        {"name": labels.get(each["node-id"], f"node {each['node-id'][-5:]}"), **each}
        for each in (link.nodes() if number is None else ())
    ]
    if number is not None:
        for event in filter(None, map(parse, link.log(number))):
            table.add(event)
    if as_json:
        participants = records.plain_record(list(table.rows.values()))
        people = {"nodes": nodes} if number is None else {"participants": participants}
        console.one_object({"runs": found, **people})
    else:
        rows = [
            [each["run-id"], each["status"], f"{each['elapsed']:.0f}", _traffic(each)]
            for each in found
        ]
        to = console.console()
        console.table("", ["Run", "Status", "Seconds", "Bytes"], rows, to, words=0)
        if nodes:
            listed = [[each["name"], each["status"], each["online-at"]] for each in nodes]
            console.table("", ["Node", "Status", "Online since"], listed, to)
        if table.rows:
            heads, cells = _cells(table)
            console.table("", heads, cells, to, words=0, first=3)
        if number is not None and (why := _why(found[0])):
            to.print(why)
    if number is not None:
        raise typer.Exit(int(found[0]["status"] != COMPLETED))


@app.command("stop", cls=manual.Command, epilog=STOP)
def stop(
    number: Annotated[str, typer.Argument(help="The run.", metavar="RUN")],
    superlink: Superlink,
    certificate: Certificate,
    home: Home = HOME,
    as_json: As_json = False,
) -> None:
    """End a run. Uploads that were accepted stay accepted; the job can be run again."""
    from pace.cli import console

    _link(superlink, certificate, home).stop(number)
    if as_json:
        console.one_object({"run": number, "stopped": True})
    else:
        console.say(f"Stopped: run {number}")


@app.command("register", cls=manual.Command, epilog=REGISTER)
def register(
    publics: Annotated[list[Path], typer.Argument(help="Nodes' public keys, NAME.pub.")],
    superlink: Superlink,
    certificate: Certificate,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Say nothing if the server is not up.")
    ] = False,
    home: Home = HOME,
    as_json: As_json = False,
) -> None:
    """Let nodes join: the server's operator, once for each node.

    A key's file is named after its site; `pace flower run` shows these names.
    """
    from pace.cli import console
    from pace.errors import FlowerError

    link = _link(superlink, certificate, home)
    named = [
        (public.absolute().parent.name if public.stem == "node" else public.stem, public)
        for public in publics
    ]
    made = {}
    try:
        for name, number in link.register(named):
            made[name] = number
            if not as_json:
                console.say(f"Registered: {name} is node {number}")
    except FlowerError as error:
        if quiet:
            raise typer.Exit(1) from error
        raise
    if as_json:
        console.one_object({"nodes": made})


def _link(superlink: str, certificate: Path, home: Path) -> Link:
    import os

    from pace.runtimes.flower.launch import QUIET, Link

    os.environ |= QUIET | {"FLWR_HOME": str(home.absolute())}  # before Flower is imported
    return Link(superlink, certificate, home.absolute())


def _why(found: Run) -> str:
    """What Flower says of a run that failed, on one line."""
    said = " ".join(str(found.get("status-details", "")).split())
    return "" if said == "N/A" else said[:500]


def _traffic(found: Run) -> str:
    return f"{found['network-traffic']['total-bytes']:,}"


def _show(ended: Run, table: Table, report: RoundReport | None, place: Path) -> None:
    from pace.cli import console
    from pace.runtimes.files.report import merge_sentences

    to = console.console()
    if table.rows:
        heads, cells = _cells(table)
        console.table("", heads, cells, to, words=0, first=3)
    if report:
        for sentence in merge_sentences(report):
            to.print(sentence)
        console.say(f"Written: {place} and report.md beside it")
    seconds, traffic = f"{ended['elapsed']:.0f} s", _traffic(ended)
    to.print(f"Run {ended['run-id']}: {ended['status']} after {seconds}, {traffic} bytes moved")
    if not report and (why := _why(ended)):
        to.print(why)
