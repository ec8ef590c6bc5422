"""`pace flower`: run a job over the network, and see how runs ended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pace.cli import manual
from pace.cli.given import As_json

if TYPE_CHECKING:
    from pace.runtimes.flower.launch import Link

RUN = """
Examples:

  pace flower run job.pace --app app --superlink server.example:18080
  --root-certificates ca.crt

  pace flower run job.pace --app app --superlink 127.0.0.1:18080
  --root-certificates ca.crt --deadline 3600 --json

Paths but those of --app and --root-certificates are the server's.

Run again, it goes on where an earlier run of the job ended.
"""
STATUS = """
Examples:

  pace flower status --superlink server.example:18080 --root-certificates ca.crt

  pace flower status 1234 --superlink server.example:18080
  --root-certificates ca.crt --json
"""
Superlink = Annotated[str, typer.Option(help="The SuperLink, as HOST:PORT.", metavar="ADDRESS")]
Certificate = Annotated[
    Path | None,
    typer.Option("--root-certificates", help="The CA file of the SuperLink.", metavar="FILE"),
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Without TLS: for a test only.")]
Home = Annotated[
    Path, typer.Option(help="Folder for Flower's settings; never ~/.flwr.", metavar="FOLDER")
]
HOME = Path(".pace-flower")

REGISTER = """
  pace flower register north.pub --superlink server.example:18080
  --root-certificates ca.crt
"""
EXAMPLES = """
  pace flower run job.pace --app app --superlink server.example:18080
  --root-certificates ca.crt

  pace flower status --superlink server.example:18080 --root-certificates ca.crt
"""

app = typer.Typer(
    cls=manual.Group,
    help="Over the network, on Flower: run a job, see how runs ended.",
    epilog=EXAMPLES,
)


@app.command("run", cls=manual.Command, epilog=RUN)
def run(
    job: Annotated[Path, typer.Argument(help="The job file, on the server's disk.")],
    superlink: Superlink,
    certificate: Certificate = None,
    insecure: Insecure = False,
    app_folder: Annotated[
        Path, typer.Option("--app", help="The Flower app's folder.", metavar="FOLDER")
    ] = Path("."),
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
        float, typer.Option(help="Seconds for returns.", metavar="SECONDS")
    ] = 300.0,
    patience: Annotated[
        float, typer.Option(help="Seconds for one answer.", metavar="SECONDS")
    ] = 300.0,
    home: Home = HOME,
    as_json: As_json = False,
) -> None:
    """Ask every node for its upload, merge, send each its return; wait for the end.

    It exits with 0 only if all who took part have confirmed their return.
    """
    import json

    from pace.cli import console
    from pace.runtimes.flower.launch import COMPLETED
    from pace.runtimes.network.settings import Settings

    link = _link(superlink, certificate, insecure, home)
    paths = {"job": job, "journal": journal, "out": out, "key": key}
    config: dict[str, str | float] = {
        name: str(path.absolute()) for name, path in paths.items() if path is not None
    }
    config |= {"nodes": nodes, "deadline": deadline, "delivery": delivery, "patience": patience}
    Settings.of(config)  # as the server will, before it is asked
    place = (out or job.with_suffix(".report")) / "report.json"  # here only if the server is here
    before = place.stat().st_mtime_ns if place.is_file() else None
    number = link.start(app_folder, config)
    with console.progress(None, f"Run {number}") as bar:
        ended = link.follow(number, lambda line: bar(line[-60:]))
    new = place.is_file() and place.stat().st_mtime_ns != before
    report = json.loads(place.read_bytes()) if new else None
    if as_json:
        console.one_object({**ended, "report": report})
    else:
        _show(ended, report, place)
    if ended["status"] != COMPLETED:
        raise typer.Exit(1)


@app.command("status", cls=manual.Command, epilog=STATUS)
def status(
    superlink: Superlink,
    number: Annotated[
        str | None, typer.Argument(help="One run (default: all).", metavar="RUN")
    ] = None,
    certificate: Certificate = None,
    insecure: Insecure = False,
    home: Home = HOME,
    as_json: As_json = False,
) -> None:
    """List runs and how they ended. Of one run, exit with 1 if it failed."""
    from pace.cli import console
    from pace.runtimes.flower.launch import COMPLETED, FINISHED

    found = _link(superlink, certificate, insecure, home).runs(number)
    if as_json:
        console.one_object({"runs": found})
    else:
        rows = [
            [each["run-id"], each["status"], f"{each['elapsed']:.0f}", _traffic(each)]
            for each in found
        ]
        to = console.console()
        console.table("", ["Run", "Status", "Seconds", "Bytes"], rows, to, words=0)
        if number is not None and (why := _why(found[0])):
            to.print(why)
    if number is not None and found[0]["status"].startswith(FINISHED):
        raise typer.Exit(int(found[0]["status"] != COMPLETED))


@app.command("register", cls=manual.Command, epilog=REGISTER)
def register(
    public: Annotated[Path, typer.Argument(help="A node's public key, from ssh-keygen.")],
    superlink: Superlink,
    certificate: Certificate = None,
    insecure: Insecure = False,
    home: Home = HOME,
    as_json: As_json = False,
) -> None:
    """Let a node join: the server's operator, once for each node."""
    from pace.cli import console

    number = _link(superlink, certificate, insecure, home).register(public)
    if as_json:
        console.one_object({"key": str(public), "node": number})
    else:
        typer.echo(f"Registered: {public} is node {number}")


def _link(superlink: str, certificate: Path | None, insecure: bool, home: Path) -> Link:
    from pace.errors import SettingError
    from pace.runtimes.flower.launch import Link

    if (certificate is None) is not insecure:
        raise SettingError("give the SuperLink's CA with --root-certificates, or --insecure")
    return Link(superlink, certificate, home.absolute())


def _why(found: dict[str, Any]) -> str:
    """What Flower says of a run that failed, on one line."""
    said = " ".join(str(found.get("status-details", "")).split())
    return "" if said == "N/A" else said[:500]


def _traffic(found: dict[str, Any]) -> str:
    return f"{found['network-traffic']['total-bytes']:,}"


def _show(ended: dict[str, Any], report: dict[str, Any] | None, place: Path) -> None:
    from pace.cli import console
    from pace.runtimes.files.report import sentences

    to = console.console()
    if report:
        rows = [
            [each["name"] or each["node"], each["step"], f"{each['seconds']:.1f}", each["code"]]
            for each in report["contacts"]
        ]
        console.table("", ["Node", "Step", "Seconds", "Answer"], rows, to)
        for sentence in sentences(report):
            to.print(sentence)
        typer.echo(f"Written: {place} and report.md beside it")
    seconds, traffic = f"{ended['elapsed']:.0f} s", _traffic(ended)
    to.print(f"Run {ended['run-id']}: {ended['status']} after {seconds}, {traffic} bytes moved")
    if not report and (why := _why(ended)):
        to.print(why)
