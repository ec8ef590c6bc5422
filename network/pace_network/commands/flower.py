"""`pace flower`: run a job over the network, see who is where, make the kits of a deployment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import pace
from pace.cli import given, manual
from pace.cli.given import Added, Allow, As_json, Job_file, Removed, Withdrawals, argument, option
from pace.errors import SettingError
from pace.io import terminal as console
from pace_network.commands import rounds
from pace_network.exchange import FlowerError

if TYPE_CHECKING:
    from pace_network.flower.control import Control

EXAMPLES = """
pace flower provision job.pace --host server.example --out kits
pace flower run --kit kits/server
pace flower status --kit kits/server
"""
PORT = "The port that sites reach; the next one is for the operator, on this machine only."
ADD = "Make one more site's kit, of the same authority; with its node's own public key; repeat."
RENEW = "New certificates of the same authority, in the kits that are in the folder."
RENEWED = (
    "Start the server again, and give each site the new {out}/NAME/ca.crt before the old one ends"
)
HERE = Path()
Kit = Annotated[Path, option("The server's kit.", "FOLDER", "--kit")]

app = typer.Typer(
    cls=manual.Group,
    help="Over the network, on Flower: kits, nodes, runs and who is where.",
    epilog=EXAMPLES,
)


@app.command("provision", cls=manual.Command)
def provision(
    job_file: Job_file,
    out: Annotated[
        Path, option("The folder to make, or with --add and --renew to add to.", "FOLDER")
    ],
    host: Annotated[str, option("The server's name or address.", "HOST")] = "",
    add: Annotated[list[str] | None, option(ADD, "SITE[=KEY.pub]")] = None,
    renew: Annotated[bool, option(RENEW, "", "--renew")] = False,
    port: Annotated[int, option(PORT, "N")] = 18080,
    node_port: Annotated[int, option("Of the first node's local API.", "N")] = 9094,
    allow: Allow = None,
    as_json: As_json = False,
) -> None:
    """Make a folder for the server and one for each site of a job.

    Certificates, node keys, settings, units for systemd, and scripts to start and to check. A site
    adds its graph and, if the job has keys, its own key.

    pace flower provision job.pace --host server.example --out kits
    pace flower provision job.pace --out kits --add east
    pace flower provision job.pace --out kits --renew

    Then kits/server/start.sh at the server, kits/NAME/start.sh at each site, and
    kits/server/run.sh.
    """
    from pace_network.flower import kits

    sites, renewed, lines = [], [], []
    if renew:
        renewed = list(map(str, kits.renew(out)))
        lines += [f"Written: {', '.join(renewed)}", RENEWED.format(out=out)]
    for site in add or ():
        name, _, public = site.partition("=")
        own = Path(public) if public else None
        key = kits.add_site(job_file, out, name, own, node_port=node_port)
        sites.append(name)
        lines += [
            f"Written: {out}/{name}, and {key}. Other kits stay as they are.",
            f"Where the server is running: pace flower register {key} --kit {out}/server",
        ]
    if not (add or renew):
        if not host:
            raise SettingError(
                "--host is not given: name the machine by which sites reach the server"
            )
        sites = kits.provision(job_file, host, out, port=port, node_port=node_port)
        lines += [
            f"Written: {out}/server and {console.many(len(sites), 'site')}: {', '.join(sites)}",
            f"Keep {out}/server/ca.key, tls.key and secret private; give each site its own folder only.",
        ]
    console.answer({"kits": str(out), "sites": sites, "renewed": renewed}, *lines, as_json=as_json)


@app.command("node", cls=manual.Command)
def node(settings: rounds.Node_toml, check: rounds.Check = False, as_json: As_json = False) -> None:
    """Run a site's node: start Flower's SuperNode, and answer what it receives.

    It runs nothing but PACE as it is installed here, whatever app the server sends. With --check it
    exits with 1 if something would keep the site from taking part.

    pace flower node node.toml --check
    pace flower node node.toml
    """
    from pace_network.flower.supernode import SuperNode

    site = SuperNode.read(settings)
    if check:
        rounds.check_node(site, as_json=as_json)
    raise typer.Exit(site.run())


@app.command("superlink", cls=manual.Command)
def superlink(
    kit: Kit = HERE,
    address: Annotated[str, option("Where sites reach it (default: everywhere).", "ADDRESS")] = "",
) -> None:
    """Run the server: Flower's SuperLink, where sites reach only what nodes need.

    pace flower superlink --kit kits/server
    pace flower superlink --kit kits/server --address 10.0.0.5
    """
    server = _control(kit).kit
    from pace_network.flower.superlink import serve

    serve(server, address)


@app.command("run", cls=manual.Command)
def run(
    kit: Kit = HERE,
    job: Annotated[Path | None, option("Another job than the kit's job.pace.", "FILE")] = None,
    key: rounds.Key = None,
    nodes: rounds.Nodes = "",
    deadline: rounds.Deadline = 600.0,
    delivery: rounds.Delivery = None,
    add: Added = None,
    remove: Removed = None,
    withdrawal: Withdrawals = None,
    allow: Allow = None,
    as_json: As_json = False,
) -> None:
    """Ask every node for its upload, merge, send each its return; show who is where.

    It exits with 0 only if all who took part have confirmed their return, with 1 if the run ended
    otherwise (too few, stopped, the SuperLink lost), with 2 if it could not be started.

    pace flower run --kit kits/server
    pace flower run --kit kits/server --deadline 3600 --json

    Run again, it goes on where an earlier run of the job ended. --add, --remove and --withdrawal begin
    the job's next edition, as in `pace server merge`: it is merged from the uploads that are here.
    """
    from pace.io import plain_record
    from pace_network.progress import Progress
    from pace_network.round import parse_nodes

    of_kit = kit / "server.key"
    key = key or (of_kit if of_kit.exists() else None)
    chosen = {"nodes": parse_nodes(nodes), "deadline": deadline, "delivery": delivery}
    job = job or kit / "job.pace"
    settings = rounds.begin_round(job, key, add, remove, withdrawal, **chosen)
    control = _control(kit)
    from pace_network.flower.server import play_run

    number = control.start()
    console.say(
        f"Run {number} has started. To end it: pace flower stop {number} --kit {kit}", err=True
    )
    progress = Progress({node.node: node.name for node in control.nodes()})
    try:
        show = rounds.following(progress, quiet=as_json)
        ended, report = play_run(control, number, settings, show)
    except FlowerError as error:
        console.say(f"pace: run {number} was lost: {error}. Run the same command again.", err=True)
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        console.say(f"pace: interrupted, and run {number} may go on: see above", err=True)
        raise typer.Exit(130) from None
    if as_json:
        told = {"participants": list(progress.rows.values()), "report": report}
        console.answer(plain_record(ended) | plain_record(told), as_json=True)
    else:
        rounds.show_round(progress, report, settings.out)
        seconds, size = f"{ended.seconds:.0f} s", f"{ended.bytes:,} bytes"
        console.say(f"Run {number}: {ended.status} after {seconds}, {size} moved")
        if ended.why:
            console.say(ended.why)
    raise typer.Exit(int(not ended.completed))


@app.command("status", cls=manual.Command)
def status(
    number: Annotated[str | None, argument("One run (default: all).", metavar="RUN")] = None,
    kit: Kit = HERE,
    as_json: As_json = False,
) -> None:
    """List runs and nodes. Of one run, exit with 0 only if it is completed.

    pace flower status --kit kits/server
    pace flower status 1234 --kit kits/server --json
    """
    control, table = _control(kit), pace.reports.Table
    runs, nodes = control.runs(number), control.nodes()
    if as_json:
        console.answer({"runs": runs, "nodes": nodes}, as_json=True)
    else:
        listed = [[run.run, run.status, f"{run.seconds:.0f}", f"{run.bytes:,}"] for run in runs]
        table.of("", ["Run", "Status", "Seconds", "Bytes"], listed, words=0).show()
        listed = [[node.name, node.status, node.since] for node in nodes]
        table.of("", ["Node", "Status", "Online since"], listed).show()
        if number and runs[0].why:
            console.say(runs[0].why)
    if number:
        raise typer.Exit(int(not runs[0].completed))


@app.command("stop", cls=manual.Command)
def stop(
    number: Annotated[str, argument("The run.", metavar="RUN")],
    kit: Kit = HERE,
    as_json: As_json = False,
) -> None:
    """End a run. Uploads that were accepted stay accepted; the job can be run again.

    pace flower stop 1234 --kit kits/server

    Uploads are kept: `pace flower run` goes on with the same job.
    """
    _control(kit).stop(number)
    console.answer({"run": number, "stopped": True}, f"Stopped: run {number}", as_json=as_json)


@app.command("register", cls=manual.Command)
def register(
    publics: Annotated[list[Path], argument("Nodes' public keys, NAME.pub.")],
    kit: Kit = HERE,
    as_json: As_json = False,
) -> None:
    """Let nodes with further keys join; the kit's own may join already.

    A key's file is named after its site; `pace flower run` shows these names.

    pace flower register north.pub --kit kits/server
    """
    control, registered = _control(kit), {}
    for public in publics:
        name = public.absolute().parent.name if public.stem == "node" else public.stem
        registered[name] = control.register(name, public)
    lines = [f"Registered: {name} is node {number}" for name, number in registered.items()]
    console.answer({"nodes": registered}, *lines, as_json=as_json)


def _control(kit: Path) -> Control:
    """The SuperLink of a kit."""
    given.need("pace flower", "pace-network[flower]", "flwr", "httpx")
    from pace_network.flower.control import Control
    from pace_network.flower.kits import ServerKit

    return Control(ServerKit.read(kit))
