"""`pace new`, `pace show`, `pace keys`, `pace export`: what a job begins and ends with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from secrets import randbelow, token_hex
from typing import TYPE_CHECKING, Annotated, Any
from unicodedata import normalize

import typer

from pace.cli import console, given, options
from pace.cli.given import argument, option
from pace.errors import SettingError
from pace.io import split_settings
from pace.registry import METHODS, MODELS

if TYPE_CHECKING:
    from pace.datasets import Names
    from pace.jobs import Job
    from pace.models import Model
    from pace.tables import Codebook

keys = typer.Typer()


def new(
    job: Annotated[Path, argument("The file to write, such as job.pace.")],
    like: Annotated[
        Path | None, option("Features and classes of this .graph.", "FILE", complete=given.graphs)
    ] = None,
    codebook: Annotated[
        Path | None, option("Those of this codebook, or of a folder of sites' columns.", "FILE")
    ] = None,
    features: Annotated[int | None, option("Features of a node.", "N")] = None,
    classes: Annotated[int | None, option("Classes of nodes.", "N")] = None,
    participant: Annotated[
        list[str] | None,
        option("Who takes part: NAME or NAME=KEY.pub, by commas; repeat.", "NAMES"),
    ] = None,
    server_key: Annotated[Path | None, option("The server's .pub, for signing.", "FILE")] = None,
    minimum: Annotated[int | None, option("Uploads to merge (default: all, or 2).", "N")] = None,
    method: given.Method = None,
    rank: given.Job_rank = None,
    model: given.Model = "gcn",
    hidden: Annotated[
        str | None, option("Hidden widths, by commas (default: 64, if any).", "N")
    ] = None,
    dropout: given.Dropout = None,
    epochs: given.Epochs = None,
    lr: given.Rate = None,
    weight_decay: given.Weight_decay = None,
    seed: Annotated[int | None, option("Seed of the start (104729; sealed: drawn).", "N")] = None,
    numbers: given.Numbers = None,
    sealed: given.Sealed = False,
    old: Annotated[
        Path | None, option("As in this job, with other participants.", "FILE", "--from")
    ] = None,
    add: given.Added = None,
    remove: given.Removed = None,
    without_promise: given.Without_promise = False,
    as_json: given.As_json = False,
) -> None:
    """Make a job: the file that everybody who takes part agrees on.

    Examples:
        pace new job.pace --like mine.graph --participant north,south,west
        pace new job.pace --codebook codebook.toml --participant north,south,west
        pace new job.pace --codebook received/
        pace new job.pace --features 1433 --classes 7 --minimum 5
        pace new job.pace --features 1433 --classes 7 --model gat:heads=4 --hidden 64
        pace new job.pace --like mine.graph --method fedprox:mu=0.1 --lr 0.02
        pace new job.pace --like mine.graph --participant north=north.pub
        --participant south=south.pub --server-key server.pub
        pace new job.pace --like mine.graph --participant north=north.pub,south=south.pub,west=west.pub
        --server-key server.pub --sealed
        pace new next.pace --from job.pace --add east.pub --remove south
    """
    from pace.jobs import JOB_SUFFIX, Job, explain, write_job
    from pace.methods import RANK, make, proposal
    from pace.protocol import SEED

    if job.suffix != JOB_SUFFIX:
        raise SettingError(f"the job is {job}, expected a name that ends in {JOB_SUFFIX}")
    proposed, why = proposal(sealed=sealed) if rank is None else ("pace", "")
    if old is not None:
        made = job_from(old, job, add or [], remove or [])
    else:
        if codebook is not None and codebook.is_dir():
            members, server_key = senders(codebook, job, server_key)
            participant = participant or members
        names, sizes, book = nodes_of(like, codebook, (features, classes), as_json=as_json)
        method_name, method_settings = method_of(method or proposed, rank or str(RANK))
        participants, keys, sealing = keys_of(participant or [], server_key, sealed=sealed)
        if seed is None:  # with another sealed job's start, sums of both could be compared
            seed = randbelow(2**31) if sealed else SEED
        made = Job(
            normalize("NFC", job.stem),
            options.with_dropout(model_of(model, sizes, hidden), dropout),
            method_name,
            settings=method_settings,
            seed=seed,
            epochs=epochs,
            participants=participants,
            minimum=(len(participants) or 2) if minimum is None else minimum,
            keys=keys,
            classes=names.classes,
            features=names.features,
            numbers=numbers or make(method_name, settings=method_settings).numbers,
            codebook=book,
            sealing=sealing,
            rate=lr,
            decay=weight_decay,
        )
    if sealed and not made.sealed:
        raise SettingError(
            "--sealed needs a key of each participant: give --participant NAME=NAME.pub for each"
        )
    explain.check_promise(made, agreed=without_promise)
    plain = explain.plain_job(made) | {"file": str(job)}  # before a job that fails is written
    write_job(job, made)
    if as_json:
        console.one_object(plain)
    else:
        show_new(made, job, "" if old or method else why)


def show(
    job: Annotated[Path, argument("A job file.")],
    allow: given.Allow = None,
    as_json: given.As_json = False,
) -> None:
    """Say in words what a job asks of those who take part.

    Examples:
        pace show job.pace
        pace show job.pace --json
    """
    from pace.jobs import explain, read_job

    if as_json:
        console.one_object(explain.plain_job(read_job(job)))
    else:
        tell(read_job(job))


@keys.command("new")
def new_keys(
    name: Annotated[Path, argument("The files' name, without .key and .pub.", metavar="NAME")],
    as_json: given.As_json = False,
) -> None:
    """Make a pair of Ed25519 keys: NAME.key, for you alone, and NAME.pub.

    Example:
        pace keys new north

    It writes north.key and north.pub. Send north.pub to the maker of the job; north.key never leaves
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
    console.say(f"Written: {public} (send it to the maker of the job)")
    console.say(f"Fingerprint: {fingerprint}")


def export(
    model: Annotated[Path, argument("A model folder.")],
    to: Annotated[str, option("For what: torch or onnx.", "KIND")],
    out: Annotated[Path, option("The folder to write.", "FOLDER")],
    graph: Annotated[
        Path | None, option("A .graph to put beside it, graph.npz.", "FILE", complete=given.graphs)
    ] = None,
    as_json: given.As_json = False,
) -> None:
    """Write what a site uses, Local and what came back, for other programs.

    The folder needs no PACE: torch alone, or an ONNX runtime. Features go in as the job has them;
    with a codebook, `pace graph import --job` makes them from tables.

    Examples:
        pace export mine.model --to torch --out mine_torch
        pace export mine.model --to onnx --out mine_onnx --graph mine.graph
    """
    from pace.export import export_model
    from pace.runtimes.files import load_site, read_model

    if to == "onnx":
        options.need("--to onnx", "pace-fgl[export]", "onnxscript")
    adopted = read_model(model)
    site = None if graph is None else load_site(graph, adopted.job)
    files = export_model(adopted, to, out, site)
    if as_json:
        console.one_object({"folder": str(out), "kind": to, "files": files})
    else:
        console.say(f"Written: {out} ({', '.join(files)})")


def tell(job: Job) -> None:
    """Print a job, and advice on it."""
    from pace.jobs import explain

    console.facts(f"Job {job.name}", explain.job_facts(job), console.console())
    for warning in job.codebook.warnings if job.codebook else ():
        console.console().print(f"Warning, of the codebook: {warning}", style="yellow")
    for sentence in explain.advice(job):
        console.console().print(f"Note: {sentence}")


def show_new(job: Job, path: Path, why: str) -> None:
    """Print a job that was just written, why its method was proposed, and what to do with it."""
    tell(job)
    if why:
        console.console().print(why)
    console.say(f"Written: {path}")
    console.say("Send this very file to everybody who takes part.")


def senders(folder: Path, job: Path, server_key: Path | None) -> tuple[list[str], Path | None]:
    """Who sent columns to a folder, with keys if they are there; the server's key is made if need be."""
    from pace.cli.tables import COLUMNS_SUFFIX
    from pace.jobs import signatures

    names = [path.name.removesuffix(COLUMNS_SUFFIX) for path in folder.glob(f"*{COLUMNS_SUFFIX}")]
    keys = {name: folder / f"{name}.pub" for name in sorted(names)}
    keyed = any(key.exists() for key in keys.values())
    if keyed and server_key is None:
        private, server_key = job.with_suffix(".key"), job.with_suffix(".pub")
        if not server_key.exists():
            signatures.new_keys(private, server_key)
            console.say(f"Written: {private} (the server's signature: it stays with it)", err=True)
    return [f"{name}={key}" if key.exists() else name for name, key in keys.items()], server_key


def nodes_of(
    like: Path | None,
    codebook: Path | None,
    numbers: tuple[int | None, int | None],
    *,
    as_json: bool,
) -> tuple[Names, tuple[int, int], Codebook | None]:
    """The names and numbers of features and classes, from the one option that says them."""
    from pace.cli.tables import merge_folder
    from pace.datasets import Names, read_graph
    from pace.tables import Codebook, read_columns

    features, classes = numbers
    sources = {"--like": like, "--codebook": codebook, "--features": features}
    sources_given = [name for name, value in sources.items() if value is not None]
    if len(sources_given) > 1 or ((like or codebook) and classes is not None):
        raise SettingError(
            f"{' and '.join(sources_given)}: each says how many features and classes there are; "
            "give one of --like, --codebook, or --features with --classes"
        )
    if like is not None:
        dataset = read_graph(like)
        return dataset.names, (dataset.graph.features, dataset.classes), None
    if codebook is not None:
        to = console.console(stderr=as_json)
        book = merge_folder(codebook, to) if codebook.is_dir() else read_columns(codebook, Codebook)
        return Names(book.classes, book.features), (len(book.features), len(book.classes)), book
    if features is None or classes is None:
        raise SettingError(
            "give --like mine.graph, --codebook codebook.toml, or both --features and --classes"
        )
    return Names(), (features, classes), None


def job_from(old: Path, new_file: Path, add: list[str], remove: list[str]) -> Job:
    """The next job on the same footing: all as in the old one, but for its nonce and who is in."""
    from pace.jobs import SERVER, read_job

    before = read_job(old)
    names, keys, sealing = keys_of(keys_of_files(add), None, sealed=before.sealed)
    if strange := sorted(set(remove) - set(before.participants)):
        raise SettingError(f"--remove {strange[0]}: {old} lists {', '.join(before.participants)}")
    members = (*(name for name in before.participants if name not in remove), *names)
    everybody = before.minimum == len(before.participants)
    return replace(
        before,
        name=normalize("NFC", new_file.stem),
        nonce=token_hex(16),
        participants=members,
        minimum=len(members) if everybody else min(before.minimum, len(members)),
        keys={n: k for n, k in ({**before.keys, **keys}).items() if n in (*members, SERVER)},
        sealing={n: k for n, k in ({**before.sealing, **sealing}).items() if n in members},
        seed=randbelow(2**31) if before.sealed else before.seed,
    )


def keys_of_files(listed: list[str]) -> list[str]:
    """NAME=KEY.pub for those that are given as NAME.pub."""
    parts = [part.strip() for part in ",".join(listed).split(",") if part.strip()]
    return [part if "=" in part else f"{Path(part).stem}={part}" for part in parts]


def method_of(text: str, rank: str) -> tuple[str, dict[str, Any]]:
    """The method by the name with which every site finds it, and its settings."""
    name, words = split_settings(text)
    if name in METHODS.groups:
        raise SettingError(f"--method is {name!r}, a group of methods: name one of them")
    (listed,) = METHODS.expand(METHODS.allow(name))
    name = METHODS.code(listed) or listed
    settings: dict[str, Any] = dict(words)
    if "rank" in METHODS.settings(name):
        settings.setdefault("rank", options.rank(rank))
    return name, settings


def model_of(text: str, sizes: tuple[int, int], hidden: str | None) -> Model:
    """The model, with these hidden widths between the numbers of features and classes."""
    from pace.models import make, parse_model

    kind, settings = parse_model(MODELS.allow(text))
    factory = MODELS.factory(kind)
    if hidden is None:
        has_hidden = hasattr(factory, "sized") and getattr(factory, "hidden_layers", True)
        hidden = "64" if has_hidden else ""
    try:
        widths = [int(width) for width in hidden.split(",") if width.strip()]
    except ValueError:
        expected = "widths such as 64 or 128,64"
        raise SettingError(f"--hidden is {hidden!r}, expected {expected}") from None
    return make(kind, (sizes[0], *widths, sizes[1]), **settings)


def keys_of(
    listed: list[str], server_key: Path | None, *, sealed: bool
) -> tuple[tuple[str, ...], dict[str, str], dict[str, str]]:
    """Participants in order, the public keys of those who have one, and their sealing keys."""
    from pace.jobs import SERVER, signatures

    names, keys, sealing_keys = [], {}, {}
    for part in ",".join(listed).split(",") if listed else ():
        written, _, path = part.strip().partition("=")
        name = normalize("NFC", written)
        names.append(name)
        if path:
            keys[name] = signatures.read_public_key(Path(path))
            if sealed:
                sealing_keys[name] = signatures.read_sealing_key(Path(path))
    if server_key is not None:
        keys[SERVER] = signatures.read_public_key(server_key)
    return tuple(names), keys, sealing_keys
