"""`pace codebook`: agree on what the columns of everybody's table mean, without showing a row."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pace.cli import console, given, options
from pace.cli.given import argument, option
from pace.errors import SettingError
from pace.tables.codebook import BOTH, Codebook, read_codebook, write_codebook

app = typer.Typer(
    epilog="""
    pace codebook propose patients.csv --label department --out north.columns.toml
    pace codebook merge *.columns.toml --out codebook.toml
    pace new study.pace --codebook codebook.toml --participant north,south,west
    pace graph import --job study.pace --nodes patients.csv --edges visits.csv --out mine.graph
    """
)


@app.command()
def propose(
    nodes: Annotated[Path, argument("Your table of nodes: .csv or .parquet.")],
    label: Annotated[str, option("The column with the class.", "COLUMN")],
    out: Annotated[Path, option("The .toml file to write and send.", "FILE")],
    id_column: Annotated[
        str | None, option("The column with node ids (default: found).", "COLUMN", "--id")
    ] = None,
    without: Annotated[
        str | None, option("Columns to leave out, separated by commas.", "COLUMNS")
    ] = None,
    category: Annotated[
        str | None, option("Columns of codes that are no numbers, by commas.", "COLUMNS")
    ] = None,
    missing: Annotated[
        list[str] | None, option("A word that means a missing value; repeat.", "WORD")
    ] = None,
    least: Annotated[int, option("Name categories that are in this many rows.", "N")] = 5,
    decimal: given.Decimal = None,
    weight: given.Weight = None,
    directions: given.Directions = None,
    as_json: given.As_json = False,
) -> None:
    """Describe the columns of your table, so that sites can agree on one codebook.

    No row leaves the site: the file holds names, kinds, categories, counts, means and ranges. It says
    what it discloses; read it before you send it.

    Examples:
        pace codebook propose patients.csv --label department --out north.columns.toml
        pace codebook propose patients.csv --label department --id case --category triage
        --missing "k. A." --without name,use --out north.columns.toml
    """
    from pace.tables import proposal

    options.at_least_one("--least", least)
    proposed, notes = proposal.propose_columns(
        nodes,
        label=label,
        id_column=id_column,
        without=options.words(without) or (),
        category=options.words(category) or (),
        missing=missing or (),
        least=least,
        decimal=decimal,
        weight=weight or "",
        directions=directions or BOTH,
    )
    proposal.write_proposal(out, proposed)
    disclosed = proposal.proposal_discloses(proposed, least)
    if as_json:
        facts = {"notes": notes, "discloses": disclosed, "file": str(out)}
        console.one_object(proposed.plain() | facts)
        return
    to = console.console()
    heads, rows = proposal.proposal_rows(proposed)
    console.table(f"{nodes.name}: {proposed.rows:,} rows", heads, rows, to, first=2)
    lines = [f"Note: {note}" for note in notes] + [f"What {out.name} tells its readers:"]
    for line in [*lines, *(f"  {sentence}" for sentence in disclosed)]:
        to.print(line)
    console.say(f"Written: {out} (send it to the site that makes the codebook)")


@app.command()
def merge(
    proposals: Annotated[list[Path], argument("What each site's `propose` wrote.")],
    out: Annotated[Path, option("The codebook to write: .toml.", "FILE")],
    scale: Annotated[
        str, option("Numbers by standard, robust (quartiles) or none.", "NAME")
    ] = "standard",
    classes: Annotated[
        str | None, option("All classes in order, separated by commas.", "NAMES")
    ] = None,
    as_json: given.As_json = False,
) -> None:
    """Make one codebook of all sites' proposals, to be read and corrected before it is used.

    Examples:
        pace codebook merge north.columns.toml south.columns.toml west.columns.toml
        --out codebook.toml
        pace codebook merge *.columns.toml --scale robust --out codebook.toml
    """
    from pace.tables.agreement import codebook_discloses, merge_proposals
    from pace.tables.proposal import read_proposal

    sites = {}
    for path in proposals:
        name = path.name.removesuffix(".toml").removesuffix(".columns")
        if name in sites:
            raise SettingError(f"two files are called {path.name}: give each site's its own name")
        sites[name] = read_proposal(path)
    merged = merge_proposals(sites, scaling=scale, classes=options.words(classes) or ())
    book = merged.codebook
    write_codebook(out, book)
    disclosed = codebook_discloses(sites, book)
    if as_json:
        facts = {"features": list(book.features), "notes": merged.notes, "discloses": disclosed}
        console.one_object(book.plain() | facts | {"file": str(out)})
        return
    show_codebook(book, f"Codebook of {', '.join(sites)}")
    for line in [*(f"Note: {note}" for note in merged.notes), *disclosed]:
        console.console().print(line)
    console.say(f"Written: {out} (read it, correct it; then: pace new JOB --codebook {out})")


@app.command()
def show(
    file: Annotated[Path, argument("A codebook, or a job that has one.")],
    allow: given.Allow = None,
    as_json: given.As_json = False,
) -> None:
    """Show a codebook, checked: which columns become which features.

    Examples:
        pace codebook show codebook.toml
        pace codebook show study.pace --json
    """
    book = load(file)
    if as_json:
        console.one_object(book.plain() | {"features": list(book.features)})
    else:
        show_codebook(book, str(file))


def load(file: Path) -> Codebook:
    """The codebook of a file, or of a job."""
    from pace.jobs.job import JOB_SUFFIX, read_job

    book = read_job(file).codebook if file.suffix == JOB_SUFFIX else read_codebook(file)
    if book is None:
        raise SettingError(
            f"{file} has no codebook: make one with `pace codebook merge` and a job with "
            "`pace new --codebook`, or import with --features and --classes"
        )
    return book


def show_codebook(book: Codebook, title: str) -> None:
    """Print what it is about, and a line for each column."""
    from pace.tables.agreement import codebook_rows

    facts = {
        "label": f"{book.label}: {', '.join(book.classes)}",
        "id": book.id,
        "features": f"{len(book.features):,} from {len(book.columns):,} columns",
    }
    to = console.console()
    console.facts(title, facts, to)
    console.table("", *codebook_rows(book), to, words=2, first=2)
