"""`pace new`, `show`, `keys`, `server`, `export`, `inspect`: a job's files, and its server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from secrets import randbelow, token_hex
from typing import Annotated, Any
from unicodedata import normalize

import typer

import pace
from pace.cli import given
from pace.cli.given import argument, option
from pace.cli.tables import COLUMNS_SUFFIX, merge_folder, show_codebook, show_facts
from pace.errors import SettingError
from pace.io import plain_record, split_settings
from pace.io import terminal as console
from pace.registry import METHODS, MODELS

WHO = "Who takes part: NAME or NAME=KEY.pub; repeat."
UPLOADS = argument("Uploads, or the folder they are in.", readable=False)

keys = typer.Typer()
server = typer.Typer()


def new(
    job: Annotated[Path, argument("The file to write, such as job.pace.")],
    like: Annotated[Path | None, option("Features and classes of this .graph.")] = None,
    codebook: Annotated[Path | None, option("Those of a codebook, or sites' columns.")] = None,
    features: Annotated[int | None, option("Features of a node.", "N")] = None,
    classes: Annotated[int | None, option("Classes of nodes.", "N")] = None,
    participant: Annotated[list[str] | None, option(WHO, "NAMES")] = None,
    server_key: Annotated[Path | None, option("The server's .pub, for signing.")] = None,
    minimum: Annotated[int | None, option("Uploads to merge (default: all, or 2).", "N")] = None,
    method: given.Method = None,
    rank: Annotated[str | None, given.RANK] = None,
    model: given.Model = "gcn",
    hidden: Annotated[str | None, option("Hidden widths (default: 64, if any).", "N,N")] = None,
    dropout: given.Dropout = None,
    epochs: given.Epochs = None,
    lr: given.Rate = None,
    weight_decay: given.Weight_decay = None,
    seed: Annotated[int | None, option("Seed of the start (104729; sealed: drawn).", "N")] = None,
    numbers: given.Numbers = None,
    sealed: given.Sealed = False,
    old: Annotated[Path | None, option("A job to make it like.", "FILE", "--from")] = None,
    add: given.Added = None,
    remove: given.Removed = None,
    without_promise: given.Without_promise = False,
    as_json: given.As_json = False,
) -> None:
    """Make a job: the file that everybody who takes part agrees on.

    pace new job.pace --like mine.graph --participant north,south,west
    pace new job.pace --codebook codebook.toml --participant north,south,west
    pace new job.pace --codebook received/
    pace new job.pace --features 1433 --classes 7 --model gat:heads=4 --hidden 64
    pace new job.pace --like mine.graph --participant north=north.pub,south=south.pub,west=west.pub
    --server-key server.pub --sealed
    pace new next.pace --from job.pace --add east.pub --remove south
    """
    jobs = pace.jobs
    if job.suffix != jobs.JOB_SUFFIX:
        raise SettingError(f"the job is {job}, expected a name that ends in {jobs.JOB_SUFFIX}")
    proposed, why = pace.methods.proposal(sealed=sealed) if rank is None else ("pace", "")
    if old is not None:
        made = job_from(old, job, add or [], remove or [])
    else:
        if codebook is not None and codebook.is_dir():
            members, server_key = senders(codebook, job, server_key)
            participant = participant or members
        names, sizes, book = nodes_of(like, codebook, (features, classes))
        method_name, method_settings = method_of(method or proposed, rank or str(pace.methods.RANK))
        participants, keys, sealing = keys_of(participant or [], server_key, sealed=sealed)
        if seed is None:  # with another sealed job's start, sums of both could be compared
            seed = randbelow(2**31) if sealed else pace.protocol.SEED
        made = jobs.Job(
            normalize("NFC", job.stem),
            given.with_dropout(model_of(model, sizes, hidden), dropout),
            method_name,
            settings=method_settings,
            seed=seed,
            epochs=epochs,
            participants=participants,
            minimum=(len(participants) or 2) if minimum is None else minimum,
            keys=keys,
            classes=names.classes,
            features=names.features,
            numbers=numbers or pace.methods.make(method_name, settings=method_settings).numbers,
            codebook=book,
            sealing=sealing,
            rate=lr,
            decay=weight_decay,
        )
    if sealed and not made.sealed:
        raise SettingError(
            "--sealed needs a key of each participant: give --participant NAME=NAME.pub for each"
        )
    jobs.explain.check_promise(made, agreed=without_promise)
    plain = jobs.explain.plain_job(made) | {"file": str(job)}  # before a job that fails is written
    jobs.write_job(job, made)
    reason = [] if old or method or not why else [lambda: console.console().print(why)]
    send = "Send this very file to everybody who takes part."
    console.answer(plain, lambda: tell(made), *reason, f"Written: {job}", send, as_json=as_json)


def show(
    job: Annotated[Path, argument("A job file.")],
    allow: given.Allow = None,
    as_json: given.As_json = False,
) -> None:
    """Say in words what a job asks of those who take part.

    pace show job.pace
    pace show job.pace --json
    """
    read = pace.jobs.read_job(job)
    console.answer(lambda: pace.jobs.explain.plain_job(read), lambda: tell(read), as_json=as_json)


@keys.command("new")
def new_keys(
    name: Annotated[Path, argument("The files' name, without .key and .pub.", metavar="NAME")],
    as_json: given.As_json = False,
) -> None:
    """Make a pair of Ed25519 keys: NAME.key, for you alone, and NAME.pub.

    pace keys new north

    It writes north.key and north.pub. Send north.pub to the maker of the job; north.key never leaves
    this machine.
    """
    if not name.name:
        raise SettingError(f"the name is {name}, which is a folder: give a name such as north")
    private, public = (name.with_name(name.name + end) for end in (".key", ".pub"))
    key = pace.jobs.signatures.new_keys(private, public)
    fingerprint = pace.jobs.signatures.fingerprint(key).hex()
    console.answer(
        {"private": private, "public": public, "key": key, "fingerprint": fingerprint},
        f"Written: {private} (keep it here, it is your signature)",
        f"Written: {public} (send it to the maker of the job)",
        f"Fingerprint: {fingerprint}",
        as_json=as_json,
    )


@server.command()
def merge(
    job_file: given.Job_file,
    out: Annotated[Path, option("The folder for returns and the report.", "FOLDER")],
    uploads: Annotated[list[Path] | None, UPLOADS] = None,
    journal: Annotated[
        Path | None, option("The job's crash-safe folder (default: JOB.journal).", "FOLDER")
    ] = None,
    key: Annotated[Path | None, option("The server's private key (default: JOB.key).")] = None,
    add: given.Added = None,
    remove: given.Removed = None,
    withdrawal: given.Withdrawals = None,
    allow: given.Allow = None,
    as_json: given.As_json = False,
) -> None:
    """Check every upload, merge those that count, write each client's return.

    The first merge closes the job: uploads that come later are refused.

    pace server merge job.pace inbox/*.up --out outbox/
    pace server merge job.pace inbox/ --out outbox/ --key server.key --json
    pace server merge job.pace --withdrawal south.withdrawal --out second/ --key server.key
    pace server merge job.pace --add east.pub --out second/ --key server.key

    What is accepted stays accepted, and returns never change once they are made. With --add, --remove
    or --withdrawal the job's next edition begins, and is merged from the uploads that are here. A
    new site gets the .edition file from --out and fits by it; then this is run again.

    It exits with 1 while uploads are missing: run it again when they have come.
    """
    given.one_thread()
    job, paths = pace.jobs.read_job(job_file), uploads or []
    beside = job_file.with_suffix(".key")  # where `pace new` makes it
    key = key or (beside if job.signed and beside.exists() else None)
    changes = edition_changes(add, remove, withdrawal)
    folder = journal or job_file.with_suffix(".journal")
    with console.progress(None, "Checking") as bar:
        report = pace.files.merge_files(
            job, paths, journal=folder, out=out, key=key, changes=changes, progress=bar
        )
    console.answer(report, lambda: show_report(report, out), as_json=as_json)
    if not report.merged:
        raise typer.Exit(1)


def show_report(report: pace.files.MergeReport, out: Path) -> None:
    to = console.console()
    if report.here and not report.took_part:
        to.print(f"Accepted so far: {', '.join(report.here)}")
    for table in pace.files.merge.report_tables(report):
        if table.rows:
            to.print(table, table.note or "")
    to.print(*pace.files.merge.merge_sentences(report))
    if report.edition > 1:
        readers = ", ".join(report.new) or "anybody who asks"
        console.say(f"Written: {report.job['name']}.{report.edition}.edition (send to {readers})")
    if report.merged:
        for name in report.left:
            console.say(f"Written: {name}.certificate (send it to {name})")
        returns = console.many(len(report.took_part), "return")
        console.say(f"Written: {returns}, each with its roll, and report.md, all in {out}")


def export(
    model: Annotated[Path, argument("A model folder.")],
    to: Annotated[str, option("For what: torch or onnx.", "KIND")],
    out: Annotated[Path, option("The folder to write.", "FOLDER")],
    graph: Annotated[Path | None, option("A .graph to put beside it, graph.npz.")] = None,
    as_json: given.As_json = False,
) -> None:
    """Write what a site uses, Local and what came back, for other programs.

    The folder needs no PACE: torch alone, or an ONNX runtime. Features go in as the job has them;
    with a codebook, `pace graph import --job` makes them from tables.

    pace export mine.model --to torch --out mine_torch
    pace export mine.model --to onnx --out mine_onnx --graph mine.graph
    """
    if to == "onnx":
        given.need("--to onnx", "pace-fgl[export]", "onnxscript")
    adopted = pace.files.read_model(model)
    site = None if graph is None else pace.files.load_site(graph, adopted.job)
    written = pace.export.export_model(adopted, to, out, site)
    facts = {"folder": out, "kind": to, "files": written}
    console.answer(facts, f"Written: {out} ({', '.join(written)})", as_json=as_json)


def inspect(
    path: Annotated[Path, argument("Any file or folder that PACE wrote.", metavar="FILE")],
    job: Annotated[Path | None, option("Also check the file against this job.")] = None,
    allow: given.Allow = None,
    as_json: given.As_json = False,
) -> None:
    """Explain any file that PACE writes: kind, version, digest, tensors, bytes, sanity.

    pace inspect mine.up
    pace inspect mine.up --job job.pace
    """
    facts = pace.files.inspect(path, None if job is None else pace.jobs.read_job(job))
    if as_json:
        plain = plain_record(facts)
        console.answer(plain.pop("details") | plain, as_json=True)
        return
    to, scores = console.console(), ("validation", "test")  # of a model, whose page has them
    details = {name: fact for name, fact in facts.details.items() if name not in scores}
    head = {"bytes": facts.bytes, "kind": facts.kind, "version": facts.version}
    show_facts(facts.file, head | details)
    if facts.tensors:
        rows = [[t.name, " × ".join(map(str, t.shape)), f"{t.bytes:,}"] for t in facts.tensors]
        to.print(pace.reports.Table.of("", ["Tensor", "Shape", "Bytes"], rows))
    if facts.refused:
        to.print(pace.files.refused_table(f"Refused: {len(facts.refused)}", facts.refused))
    to.print(*(f"Sanity: {sentence}" for sentence in facts.sanity))


def tell(job: pace.jobs.Job) -> None:
    console.facts(f"Job {job.name}", pace.jobs.explain.job_facts(job), console.console())
    if job.codebook is not None:
        show_codebook(job.codebook)


def senders(folder: Path, job: Path, server_key: Path | None) -> tuple[list[str], Path | None]:
    """Who sent columns to a folder, with keys if they are there; the server's key is made if need be."""
    names = [path.name.removesuffix(COLUMNS_SUFFIX) for path in folder.glob(f"*{COLUMNS_SUFFIX}")]
    keys = {name: folder / f"{name}.pub" for name in sorted(names)}
    if server_key is None and any(key.exists() for key in keys.values()):
        private, server_key = job.with_suffix(".key"), job.with_suffix(".pub")
        if not server_key.exists():
            pace.jobs.signatures.new_keys(private, server_key)
            console.say(f"Written: {private} (the server's signature: it stays with it)", err=True)
    return [f"{name}={key}" if key.exists() else name for name, key in keys.items()], server_key


def nodes_of(
    like: Path | None, codebook: Path | None, numbers: tuple[int | None, int | None]
) -> tuple[pace.datasets.Names, tuple[int, int], pace.tables.Codebook | None]:
    """The names and numbers of features and classes, from the one option that says them."""
    features, classes = numbers
    if like and not (codebook or features or classes):
        dataset = pace.datasets.read_graph(like)
        return dataset.names, (dataset.graph.features, dataset.classes), None
    if codebook and not (like or features or classes):
        if codebook.is_dir():
            book = merge_folder(codebook)
        else:
            book = pace.tables.read_columns(codebook, pace.tables.Codebook)
        names = pace.datasets.Names(book.classes, book.features)
        return names, (len(book.features), len(book.classes)), book
    if features and classes and not (like or codebook):
        return pace.datasets.Names(), (features, classes), None
    raise SettingError(
        "give one of --like mine.graph, --codebook codebook.toml, or both --features and --classes"
    )


def job_from(old: Path, new_file: Path, add: list[str], remove: list[str]) -> pace.jobs.Job:
    """The next job on the same footing: all as in the old one, but for its nonce and who is in."""
    before = pace.jobs.read_job(old)
    names, keys, sealing = keys_of(add, None, sealed=before.sealed)
    if strange := sorted(set(remove) - set(before.participants)):
        raise SettingError(f"--remove {strange[0]}: {old} lists {', '.join(before.participants)}")
    members = (*(name for name in before.participants if name not in remove), *names)
    everybody = before.minimum == len(before.participants)
    keys, sealing = {**before.keys, **keys}, {**before.sealing, **sealing}
    return replace(
        before,
        name=normalize("NFC", new_file.stem),
        nonce=token_hex(16),
        participants=members,
        minimum=len(members) if everybody else min(before.minimum, len(members)),
        keys={name: keys[name] for name in (*members, pace.jobs.SERVER) if name in keys},
        sealing={name: sealing[name] for name in members if name in sealing},
        seed=randbelow(2**31) if before.sealed else before.seed,
    )


def method_of(text: str, rank: str) -> tuple[str, dict[str, Any]]:
    """A method's name and settings, with this rank if it has one and sets no other."""
    name, settings = split_settings(text)
    if name.lower() in METHODS.groups:
        raise SettingError(f"--method is {name!r}, a group of methods: name one of them")
    if "rank" in METHODS.settings(METHODS.allow(name)):
        return name, {"rank": given.rank(rank), **settings}
    return name, dict(settings)


def model_of(text: str, sizes: tuple[int, int], hidden: str | None) -> pace.Model:
    """The model, with these hidden widths between the numbers of features and classes."""
    kind, settings = split_settings(MODELS.allow(text))
    if hidden is None:
        return pace.models.sized(text, sizes[0], 64, 2, sizes[1])
    try:
        widths = [int(width) for width in hidden.split(",") if width.strip()]
    except ValueError:
        raise SettingError(f"--hidden is {hidden!r}, expected widths such as 128,64") from None
    return pace.models.make(kind, (sizes[0], *widths, sizes[1]), **dict[str, Any](settings))


def keys_of(
    listed: list[str], server_key: Path | None, *, sealed: bool
) -> tuple[tuple[str, ...], dict[str, str], dict[str, str]]:
    """Participants of a list of NAME, NAME=KEY.pub or NAME.pub; their public and sealing keys."""
    signatures = pace.jobs.signatures
    names, keys, sealing_keys = [], {}, {}
    for part in filter(None, map(str.strip, ",".join(listed).split(","))):
        written, _, path = part.partition("=")
        if not path and part.endswith(".pub"):
            written, path = Path(part).stem, part
        name = normalize("NFC", written)
        names.append(name)
        if path:
            keys[name] = signatures.read_public_key(Path(path))
            if sealed:
                sealing_keys[name] = signatures.read_sealing_key(Path(path))
    if server_key is not None:
        keys[pace.jobs.SERVER] = signatures.read_public_key(server_key)
    return tuple(names), keys, sealing_keys


def edition_changes(
    add: list[str] | None, remove: list[str] | None, withdrawals: list[Path] | None
) -> pace.files.Changes | None:
    """What a job's next edition changes; None where nothing is asked for."""
    if not (add or remove or withdrawals):
        return None
    names, keys, _ = keys_of(add or [], None, sealed=False)
    if without := [name for name in names if name not in keys]:
        raise SettingError(f"--add is {without[0]}, expected NAME.pub, or NAME=KEY.pub")
    return pace.files.Changes(keys, withdrawals or (), remove or ())
