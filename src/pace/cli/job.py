"""`pace new` and `pace show`: make a job, and read one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from unicodedata import normalize

import typer

from pace.cli.given import (
    Allow,
    As_json,
    Dropout,
    Epochs,
    Learning_rate,
    Method,
    Model,
    Numbers,
    Rank,
    Weight_decay,
    graphs,
)
from pace.registry import METHODS, MODELS

NEW = """
Examples:

  pace new job.pace --like mine.graph --participant north,south,west

  pace new job.pace --codebook codebook.toml --participant north,south,west

  pace new job.pace --features 1433 --classes 7 --minimum 5

  pace new job.pace --features 1433 --classes 7 --model gat:heads=4 --hidden 64

  pace new job.pace --like mine.graph --method fedprox:mu=0.1 --lr 0.02

  pace new job.pace --like mine.graph --participant north=north.pub
  --participant south=south.pub --server-key server.pub

  pace new job.pace --like mine.graph --participant north=north.pub,south=south.pub,west=west.pub
  --server-key server.pub --sealed
"""
SHOW = """
Examples:

  pace show job.pace

  pace show job.pace --json
"""


def new(
    job: Annotated[Path, typer.Argument(help="The file to write, such as job.pace.")],
    like: Annotated[
        Path | None,
        typer.Option(
            help="Take features and classes, with names, of this .graph.",
            metavar="FILE",
            autocompletion=graphs,
        ),
    ] = None,
    codebook: Annotated[
        Path | None,
        typer.Option(
            help="Take features and classes of this codebook, and put it in.", metavar="FILE"
        ),
    ] = None,
    features: Annotated[int | None, typer.Option(help="Features of a node.", metavar="N")] = None,
    classes: Annotated[int | None, typer.Option(help="Classes of nodes.", metavar="N")] = None,
    participant: Annotated[
        list[str] | None,
        typer.Option(
            help="Who takes part: names separated by commas, or NAME=KEY.pub; repeat.",
            metavar="NAMES",
        ),
    ] = None,
    server_key: Annotated[
        Path | None,
        typer.Option(help="The server's .pub, if messages are to be signed.", metavar="FILE"),
    ] = None,
    minimum: Annotated[
        int | None,
        typer.Option(help="Fewest uploads to merge (default: all listed, or 2).", metavar="N"),
    ] = None,
    method: Method = "pace",
    rank: Rank = "6",
    model: Model = "gcn",
    hidden: Annotated[
        str | None,
        typer.Option(
            help="Hidden widths, separated by commas (default: 64, and none for an sgc).",
            metavar="N",
        ),
    ] = None,
    dropout: Dropout = None,
    epochs: Epochs = None,
    lr: Learning_rate = None,
    weight_decay: Weight_decay = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seed of the common start [default: 104729; drawn if sealed].", metavar="N"
        ),
    ] = None,
    numbers: Numbers = None,
    sealed: Annotated[
        bool,
        typer.Option("--sealed", help="The server sees sums over all clients only."),
    ] = False,
    as_json: As_json = False,
) -> None:
    """Make a job: the file that everybody who takes part agrees on."""
    from pace.cli import console, options
    from pace.datasets import Names
    from pace.datasets.file import read_graph
    from pace.errors import SettingError
    from pace.jobs import explain
    from pace.jobs.job import JOB_SUFFIX, Job, write_job
    from pace.methods import make
    from pace.models import make as make_model
    from pace.models import parse_model
    from pace.tables.codebook import read_codebook

    if job.suffix != JOB_SUFFIX:
        raise SettingError(f"the job is {job}, expected a name that ends in {JOB_SUFFIX}")
    names, book = Names(), None
    sources = {"--like": like, "--codebook": codebook, "--features": features}
    if len(given := [option for option, value in sources.items() if value is not None]) > 1 or (
        (like or codebook) and classes is not None
    ):
        raise SettingError(
            f"{' and '.join(given)}: each says how many features and classes there are; give one of "
            "--like, --codebook, or --features with --classes"
        )
    if like is not None:
        dataset = read_graph(like)
        names, features, classes = dataset.names, dataset.graph.features, dataset.classes
    if codebook is not None:
        book = read_codebook(codebook)
        names = Names(book.classes, book.features)
        features, classes = len(book.features), len(book.classes)
    if features is None or classes is None:
        raise SettingError(
            "give --like mine.graph, --codebook codebook.toml, or both --features and --classes"
        )
    method_name, words = options.method(method)
    method_settings: dict[str, Any] = dict(words)
    if "rank" in METHODS.settings(method_name):
        method_settings.setdefault("rank", options.rank(rank))
    kind, settings = parse_model(MODELS.allow(model))
    widths = (features, *_widths(hidden, kind), classes)
    listed, keys, sealing = _participants(participant or [], server_key, sealed=sealed)
    made = Job(
        normalize("NFC", job.stem),
        options.with_dropout(make_model(kind, widths, **settings), dropout),
        method_name,
        settings=method_settings,
        seed=_seed(sealed=sealed) if seed is None else seed,
        epochs=epochs,
        participants=listed,
        minimum=(len(listed) or 2) if minimum is None else minimum,
        keys=keys,
        classes=names.classes,
        features=names.features,
        numbers=options.numbers(numbers) or make(method_name, settings=method_settings).numbers,
        codebook=book,
        sealing=sealing,
        rate=lr,
        decay=weight_decay,
    )
    if sealed and not made.sealed:
        raise SettingError(
            "--sealed needs a key of each participant: give --participant NAME=NAME.pub for each"
        )
    plain, facts = (
        explain.plain_job(made),
        explain.job_facts(made),
    )  # a job nobody can use is not written
    write_job(job, made)
    if as_json:
        console.one_object(plain | {"file": str(job)})
        return
    console.facts(f"Job {made.name}", facts, console.console())
    if caution := made.federation.method.caution(len(listed)):
        console.say(caution, err=True)
    for sentence in explain.advice(made):
        console.console().print(f"Note: {sentence}")
    console.say(f"Written: {job}")
    console.say("Send this very file to everybody who takes part.")


def _seed(*, sealed: bool) -> int:
    """A sealed job starts anew: from another's seed, the others' parts would be the same in both."""
    from secrets import randbelow

    from pace.protocol.federation import SEED

    return randbelow(2**31) if sealed else SEED


def show(
    job: Annotated[Path, typer.Argument(help="A job file.")],
    allow: Allow = None,
    as_json: As_json = False,
) -> None:
    """Say in words what a job asks of those who take part."""
    from pace.cli import console
    from pace.jobs import explain
    from pace.jobs.job import read_job

    found = read_job(job)
    if as_json:
        console.one_object(explain.plain_job(found))
    else:
        console.facts(f"Job {found.name}", explain.job_facts(found), console.console())
        for sentence in explain.advice(found):
            console.console().print(f"Note: {sentence}")


def _participants(
    words: list[str], server_key: Path | None, *, sealed: bool
) -> tuple[tuple[str, ...], dict[str, str], dict[str, str]]:
    """Names in order, the public keys of those who have one, and their sealing keys if wanted."""
    from pace.jobs import sealing, signatures
    from pace.jobs.job import SERVER

    names, keys, sealing_keys = [], {}, {}
    for word in (part.strip() for each in words for part in each.split(",")):
        written, _, path = word.partition("=")
        name = normalize("NFC", written)
        names.append(name)
        if path:
            keys[name] = signatures.read_public_key(Path(path))
            if sealed:
                sealing_keys[name] = sealing.read_sealing_key(Path(path))
    if server_key is not None:
        keys[SERVER] = signatures.read_public_key(server_key)
    return tuple(names), keys, sealing_keys


def _widths(hidden: str | None, kind: str) -> list[int]:
    from pace.errors import SettingError

    if hidden is None:
        factory = MODELS.factory(kind)
        has_hidden = hasattr(factory, "sized") and getattr(factory, "hidden_layers", True)
        return [64] if has_hidden else []
    try:
        return [int(word) for word in hidden.split(",") if word.strip()]
    except ValueError:
        raise SettingError(
            f"--hidden is {hidden!r}, expected widths such as 64 or 128,64"
        ) from None
