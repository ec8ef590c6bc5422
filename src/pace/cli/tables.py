"""`pace codebook`, `pace graph`: what tables mean to all sites, and graphs made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import pace
from pace.cli import given
from pace.cli.given import argument, option
from pace.errors import SettingError
from pace.io import plain_record
from pace.io import terminal as console

COLUMNS_SUFFIX = ".columns.toml"
TOLD = (
    "the names of columns and classes, words that are in {} rows or more, how many values are missing, "
    "means and standard deviations to 6 digits (as good as sums). No row, no id, no edge."
)
DISCLOSED = "Who gets the job reads names of columns, classes and categories, and pooled scales."

Tables = tuple[Path | None, Path | None]  # of nodes and of edges

graph = typer.Typer()
codebook = typer.Typer()


@codebook.command()
def propose(
    nodes: Annotated[Path, argument("Your table of nodes: .csv or .parquet.")],
    label: Annotated[str, option("The column with the class.", "COLUMN")],
    out: Annotated[Path, option("The .toml file to write and send.")],
    id_column: given.Id_column = None,
    without: Annotated[str | None, option("Columns to leave out, by commas.", "COLUMNS")] = None,
    category: Annotated[str | None, option("Columns of codes, by commas.", "COLUMNS")] = None,
    missing: Annotated[list[str] | None, option("A word for missing; repeat.", "WORD")] = None,
    least: Annotated[int, option("Name categories that are in this many rows.", "N", min=1)] = 5,
    decimal: given.Decimal = None,
    weight: given.Weight = None,
    directions: given.Directions = None,
    mapping: Annotated[Path | None, option("Your mapping; proposed if there is none.")] = None,
    like: Annotated[list[Path] | None, option("Others' files, or a codebook; repeat.")] = None,
    as_json: given.As_json = False,
) -> None:
    """Describe the columns of your table, so that sites can agree on one codebook.

    No row leaves the site: the file holds names, kinds, categories, counts, means and standard
    deviations. Read it before you send it.

    Where names, words, units or dates differ from others', `--mapping` proposes how your columns become
    theirs, from your cells and what `--like` says. Correct that file, and run the command again.

    pace codebook propose patients.csv --label department --out north.columns.toml
    pace codebook propose export.csv --label Entlassung --mapping south.mapping.toml
    --like north.columns.toml --out south.columns.toml
    """
    rules, remarks = mapping_for(nodes, label, id_column, mapping, like or [])
    if rules is not None and rules.unsettled:
        facts = {"mapping": str(mapping), "unsettled": rules.unsettled, "notes": remarks}
        lines = [f"Note: {remark}" for remark in remarks] + rules.unsettled
        lines.append(f"Replace each ? in {mapping}, then run this command again.")
        console.answer(facts, *lines, as_json=as_json)
        return
    proposed, notes = pace.tables.propose_columns(
        nodes,
        label=label,
        id_column=id_column,
        without=given.words(without),
        category=given.words(category),
        missing=missing or (),
        least=least,
        decimal=decimal,
        weight=weight or "",
        directions=directions or pace.tables.BOTH,
        mapping=rules,
    )
    notes, tells = [*remarks, *notes], TOLD.format(least)
    pace.tables.write_columns(out, proposed)
    title, rows = f"{nodes.name}: {proposed.rows:,} rows", proposed.as_table()
    parts = [pace.reports.Table.of(title, *rows, names=2), *(f"Note: {note}" for note in notes)]
    facts = {"format": proposed.FORMAT, **plain_record(proposed), "notes": notes}
    console.answer(
        facts | {"discloses": tells, "file": out},
        lambda: console.console().print(*parts, f"{out.name} tells {tells}"),
        f"Written: {out} (send it to the site that makes the codebook)",
        as_json=as_json,
    )


def mapping_for(
    nodes: Path, label: str, id_column: str | None, mapping: Path | None, like: list[Path]
) -> tuple[pace.tables.ColumnMapping | None, list[str]]:
    """The mapping of a file, or one that is proposed and written there; and what to say about it."""
    tables = pace.tables
    if mapping is None:
        if like:
            raise SettingError("--like needs --mapping FILE: the mapping to propose")
        return None, []
    if mapping.exists():
        return tables.read_columns(mapping, tables.ColumnMapping), []
    file = tables.open_table(nodes)
    for kind, name in (("label", label), ("id", id_column)):
        if name:
            tables.check_option(kind, name, file.columns, nodes.name)
    others = [load_book(path, tables.Codebook, tables.Proposal) for path in like]
    proposed = tables.propose_mapping(file, label, id_column, others)
    tables.write_columns(mapping, proposed)
    console.say(f"Written: {mapping} (read it, correct it, and run this command again)", err=True)
    looks = {rule.source: rule.look for rule in proposed.columns if rule.look}
    return proposed, [f"{mapping.name}, {name!r}: {look}" for name, look in looks.items()]


@codebook.command()
def merge(
    proposals: Annotated[list[Path], argument("What each site's `propose` wrote.")],
    out: Annotated[Path, option("The codebook to write: .toml.")],
    classes: Annotated[str | None, option("All classes in order, by commas.", "NAMES")] = None,
    as_json: given.As_json = False,
) -> None:
    """Make one codebook from all sites' proposals, to be read and corrected before it is used.

    pace codebook merge north.columns.toml south.columns.toml west.columns.toml --out codebook.toml
    """
    book, notes = merge_files(proposals, given.words(classes))
    pace.tables.write_columns(out, book)
    console.answer(
        plain_record(book) | {"features": book.features, "notes": notes, "file": str(out)},
        lambda: show_codebook(book, notes),
        f"Written: {out} (read it, correct it; then: pace new JOB --codebook {out})",
        as_json=as_json,
    )


def merge_files(
    files: Sequence[Path], classes: Sequence[str] = ()
) -> tuple[pace.tables.Codebook, list[str]]:
    """The codebook of what each site's `propose` wrote, and notes on it."""
    sites = {}
    for path in files:
        name = path.name.removesuffix(".toml").removesuffix(".columns")
        if name in sites:
            raise SettingError(f"two files are called {path.name}: give each site's its own name")
        sites[name] = pace.tables.read_columns(path, pace.tables.Proposal)
    return pace.tables.merge_proposals(sites, classes=classes)


def merge_folder(folder: Path) -> pace.tables.Codebook:
    """The codebook of all descriptions in a folder; notes on it are told on stderr."""
    if not (files := sorted(folder.glob(f"*{COLUMNS_SUFFIX}"))):
        wanted = f"north{COLUMNS_SUFFIX}, which `pace codebook propose` writes"
        raise SettingError(f"{folder} holds no file such as {wanted}")
    book, notes = merge_files(files)
    console.console(stderr=True).print(*(f"Note: {note}" for note in notes))
    return book


def codebook_of(job: pace.jobs.Job) -> pace.tables.Codebook:
    if job.codebook is None:
        raise SettingError("the job has no codebook to read tables by: `pace new --codebook`")
    return job.codebook


def import_for(
    job: pace.jobs.Job, out: Path | None, tables: Tables, mapping: Path | None, to: console.Console
) -> None:
    """Make a site's graph of its tables of nodes and edges, where they are given."""
    nodes, edges = tables
    if not (nodes or edges or mapping):
        return
    if nodes is None or edges is None or out is None:
        raise SettingError("to make a graph of tables, name it and give both --nodes and --edges")
    book = codebook_of(job)
    imported = pace.tables.import_graph(nodes, edges, columns(mapping=mapping), out.stem, book)
    pace.datasets.file.write_graph(out, imported.dataset)
    tell(imported, to)
    to.print(f"Written: {out}")


def columns(
    *, mapping: Path | pace.tables.ColumnMapping | None, known: Path | None = None, **named: Any
) -> pace.tables.Columns:
    """Which columns of tables mean what; a mapping and an earlier graph are read from their files."""
    if isinstance(mapping, Path):
        mapping = pace.tables.read_columns(mapping, pace.tables.ColumnMapping)
    earlier = pace.datasets.read_graph(known) if known else None
    return pace.tables.Columns(mapping=mapping, known=earlier, **named)


def load_book(file: Path, *kinds: Any) -> Any:
    """The codebook of a job, or what is in a file of one of these kinds."""
    if file.suffix == pace.jobs.JOB_SUFFIX:
        return codebook_of(pace.jobs.read_job(file))
    return pace.tables.read_columns(file, *kinds)


def show_codebook(book: pace.tables.Codebook, notes: Sequence[str] = ()) -> None:
    """Print what it is about, a line for each column, and what looked wrong."""
    to = console.console()
    facts = {
        "label": f"{book.label}: {', '.join(book.classes)}",
        "id": book.id,
        "features": f"{len(book.features):,} from {len(book.columns):,} columns",
    }
    console.facts("Codebook", facts, to)
    to.print(pace.reports.Table.of("", *book.as_table(), words=2, names=2))
    to.print(*(f"Warning: {warning}" for warning in book.warnings), style="yellow")
    to.print(*(f"Note: {note}" for note in notes), DISCLOSED)


@codebook.command("show")
def show_book(
    file: Annotated[Path, argument("A codebook, or a job that has one.")],
    allow: given.Allow = None,
    as_json: given.As_json = False,
) -> None:
    """Show a codebook, checked: which columns become which features.

    pace codebook show codebook.toml
    """
    book = load_book(file, pace.tables.Codebook)
    facts = plain_record(book) | {"features": list(book.features)}
    console.answer(facts, lambda: show_codebook(book), as_json=as_json)


@graph.command("import")
def import_(
    nodes: Annotated[Path, option("Table of nodes: .csv or .parquet.")],
    edges: Annotated[Path, option("Table of edges: columns source, target.")],
    out: Annotated[Path, option("The .graph file to write.")],
    label: Annotated[str | None, option("The column with the class, if known.", "COLUMN")] = None,
    features: Annotated[
        str | None, option("Feature columns or prefixes, by commas (default: the rest).", "COLUMNS")
    ] = None,
    id_column: given.Id_column = None,
    client: Annotated[str | None, option("The column with each node's client.", "COLUMN")] = None,
    split: Annotated[
        str | None, option("A column of train, val or test, or shares (60/20/20).", "COLUMN")
    ] = None,
    classes: Annotated[str | None, option("All classes in order, by commas.", "NAMES")] = None,
    decimal: given.Decimal = None,
    strangers: given.Strangers = "refuse",
    weight: given.Weight = None,
    directions: given.Directions = None,
    job: Annotated[Path | None, option("A job, or a codebook: it rules the columns.")] = None,
    mapping: given.Mapping = None,
    known: given.With = None,
    memory: Annotated[
        float | None, option("Stream tables of any size into a folder, with so much memory.", "GB")
    ] = None,
    allow: given.Allow = None,
    as_json: given.As_json = False,
) -> None:
    """Make a .graph file from two tables. Every problem is listed with its rows.

    With `--job`, every site gets the same features in the same order, scaled and filled alike, and
    is told what was done to which rows. With `--memory`, tables and graph may be larger than memory:
    --out becomes a folder that `pace client fit`, `adopt` and `predict` take as they take a file.

    pace graph import --nodes nodes.csv --edges edges.csv --label kind --out mine.graph
    pace graph import --job study.pace --nodes nodes.csv --edges edges.csv --out mine.graph
    pace graph import --job study.pace --nodes n.parquet --edges e.parquet --memory 6
    --out mine.graph
    """
    file = pace.datasets.file
    if out.suffix != file.SUFFIX:
        raise SettingError(f"--out is {out}, expected a name that ends in {file.SUFFIX}")
    named = {"label": label, "id": id_column, "features": features, "client": client}
    named |= {"split": split, "classes": classes, "decimal": decimal, "strangers": strangers}
    rules = columns(**named, weight=weight, directions=directions, known=known, mapping=mapping)
    book = load_book(job, pace.tables.Codebook) if job else None
    if memory is not None:
        given.one_thread()
        streamed = pace.tables.StreamedTables(nodes, edges, rules, book)
        facts = streamed.write(out, round(memory * 1e9))
        lines = [f"{name}: {fact}" for name, fact in facts.items()]
        console.answer(facts, *lines, f"Written: {out}", as_json=as_json)
        return
    imported = pace.tables.import_graph(nodes, edges, rules, out.stem, book)
    file.write_graph(out, imported.dataset)
    facts = pace.datasets.describe_graph(imported.dataset)
    parts = (lambda: show_facts(out.name, facts), lambda: tell(imported, console.console()))
    console.answer(facts | imported.remarks(), *parts, f"Written: {out}", as_json=as_json)


def tell(imported: pace.tables.Imported, to: console.Console) -> None:
    """Print what was done on the way, and what will mislead if it is left so."""
    to.print(*(f"Note: {note}" for note in (*imported.notes, *imported.changes)))
    to.print(*(f"Warning: {warning}" for warning in imported.warnings), style="yellow")


@graph.command()
def show(
    graph: Annotated[str, argument("A .graph file, or a dataset.")],
    data_root: given.Data_root = None,
    as_json: given.As_json = False,
) -> None:
    """Describe a graph: its sizes, classes, masks and clients.

    pace graph show mine.graph
    """
    facts = pace.datasets.describe_graph(pace.load(graph))
    console.answer(facts, lambda: show_facts(graph, facts), as_json=as_json)


def show_facts(title: str, facts: Mapping[str, object]) -> None:
    console.facts(title, {name: written(fact) for name, fact in facts.items()}, console.console())


def written(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {written(item)}" for key, item in value.items())
    if isinstance(value, list):
        return pace.tables.listed([written(item) for item in value], 20) or "none"
    if isinstance(value, bool | None):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def rows(
    job_file: given.Job_file,
    graph: Annotated[Path, argument("Your own .graph file.")],
    out: Annotated[Path, option("The folder of Parquet files to write.", "FOLDER")],
    kept: Annotated[Path | None, option("What `pace client fit` kept.")] = None,
    allow: given.Allow = None,
    as_json: given.As_json = False,
) -> None:
    """Write a graph's nodes as rows in Parquet: all that pace-ridge reads of a graph.

    Other engines can compute the same rows where the tables are; `pace client fit --rows` takes both.
    With `--kept`, Local's logits go with the rows.

    pace rows job.pace mine.graph --out mine.rows
    """
    job = pace.jobs.read_job(job_file)
    site = pace.files.load_site(graph, job)
    local = None if kept is None else pace.files.read_kept(kept, job).kept.local
    maps, count = pace.files.write_rows(out, site, job, local)
    facts = {"folder": str(out), "rows": site.graph.nodes, "files": count, "maps": maps}
    told = f"{site.graph.nodes:,} rows of {', '.join(maps)}."
    written = f"Written: {out} ({console.many(count, 'file')}; as private as the graph)"
    console.answer(facts, told, written, as_json=as_json)
