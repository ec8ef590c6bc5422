"""`pace codebook`: agree on what the columns of everybody's table mean, without showing a row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pace.cli import manual
from pace.cli.given import Allow, As_json, Decimal, Directions, Weight

if TYPE_CHECKING:
    from pace.tables.codebook import Codebook

PROPOSE = """
Examples:

  pace codebook propose patients.csv --label department --out north.columns.toml

  pace codebook propose patients.csv --label department --id case --category triage
  --missing "k. A." --without name,use --out north.columns.toml
"""
MERGE = """
Examples:

  pace codebook merge north.columns.toml south.columns.toml west.columns.toml
  --out codebook.toml

  pace codebook merge *.columns.toml --scale robust --out codebook.toml
"""
SHOW = """
Examples:

  pace codebook show codebook.toml

  pace codebook show study.pace --json
"""
EXAMPLES = """
  pace codebook propose patients.csv --label department --out north.columns.toml

  pace codebook merge *.columns.toml --out codebook.toml

  pace new study.pace --codebook codebook.toml --participant north,south,west

  pace graph import --job study.pace --nodes patients.csv --edges visits.csv --out mine.graph
"""

app = typer.Typer(
    cls=manual.Group,
    help="Agree on columns: every site describes its own, one codebook is made of them.",
    epilog=EXAMPLES,
)


@app.command("propose", cls=manual.Command, epilog=PROPOSE)
def propose(
    nodes: Annotated[Path, typer.Argument(help="Your table of nodes: .csv or .parquet.")],
    label: Annotated[str, typer.Option(help="The column with the class.", metavar="COLUMN")],
    out: Annotated[Path, typer.Option(help="The .toml file to write and send.", metavar="FILE")],
    id_column: Annotated[
        str | None,
        typer.Option("--id", help="The column with node ids (default: found).", metavar="COLUMN"),
    ] = None,
    without: Annotated[
        str | None,
        typer.Option(help="Columns to leave out, separated by commas.", metavar="COLUMNS"),
    ] = None,
    category: Annotated[
        str | None,
        typer.Option(help="Columns of codes that are no numbers, by commas.", metavar="COLUMNS"),
    ] = None,
    missing: Annotated[
        list[str] | None,
        typer.Option(help="A word that means a missing value; repeat.", metavar="WORD"),
    ] = None,
    least: Annotated[
        int, typer.Option(help="Name categories that are in this many rows.", metavar="N")
    ] = 5,
    decimal: Decimal = None,
    weight: Weight = None,
    directions: Directions = None,
    as_json: As_json = False,
) -> None:
    """Describe the columns of your table, so that sites can agree on one codebook.

    No row leaves the site: the file holds names, kinds, categories, counts, means and ranges. It says
    what it discloses; read it before you send it.
    """
    from pace.cli import console, options
    from pace.tables.codebook import BOTH
    from pace.tables.proposal import (
        proposal_discloses,
        proposal_rows,
        propose_columns,
        write_proposal,
    )

    options.at_least_one("--least", least)
    proposal, notes = propose_columns(
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
    write_proposal(out, proposal)
    disclosed = proposal_discloses(proposal, least)
    if as_json:
        facts = {"notes": notes, "discloses": disclosed, "file": str(out)}
        console.one_object(proposal.plain() | facts)
        return
    to = console.console()
    heads, rows = proposal_rows(proposal)
    console.table(f"{nodes.name}: {proposal.rows:,} rows", heads, rows, to, words=1, first=2)
    for note in notes:
        to.print(f"Note: {note}")
    to.print(f"What {out.name} tells its readers:")
    for sentence in disclosed:
        to.print(f"  {sentence}")
    console.say(f"Written: {out} (send it to the site that makes the codebook)")


@app.command("merge", cls=manual.Command, epilog=MERGE)
def merge(
    proposals: Annotated[list[Path], typer.Argument(help="What each site's `propose` wrote.")],
    out: Annotated[Path, typer.Option(help="The codebook to write: .toml.", metavar="FILE")],
    scale: Annotated[
        str,
        typer.Option(help="Numbers by standard, robust (quartiles) or none.", metavar="NAME"),
    ] = "standard",
    classes: Annotated[
        str | None,
        typer.Option(help="All classes in order, separated by commas.", metavar="NAMES"),
    ] = None,
    as_json: As_json = False,
) -> None:
    """Make one codebook of all sites' proposals, to be read and corrected before it is used."""
    from pace.cli import console, options
    from pace.errors import SettingError
    from pace.tables.agreement import codebook_discloses, merge_proposals
    from pace.tables.codebook import write_codebook
    from pace.tables.proposal import read_proposal

    sites = {}
    for path in proposals:
        name = path.name.removesuffix(".toml").removesuffix(".columns")
        if name in sites:
            raise SettingError(f"two files are called {path.name}: give each site's its own name")
        sites[name] = read_proposal(path)
    merged = merge_proposals(sites, scaling=scale, classes=options.words(classes) or ())
    write_codebook(out, merged.codebook)
    disclosed = codebook_discloses(sites, merged.codebook)
    if as_json:
        facts = {"features": list(merged.codebook.features), "notes": merged.notes}
        console.one_object(
            merged.codebook.plain() | facts | {"discloses": disclosed, "file": str(out)}
        )
        return
    show_codebook(merged.codebook, f"Codebook of {', '.join(sites)}")
    to = console.console()
    for note in merged.notes:
        to.print(f"Note: {note}")
    for sentence in disclosed:
        to.print(sentence)
    console.say(f"Written: {out} (read it, correct it; then: pace new JOB --codebook {out})")


@app.command("show", cls=manual.Command, epilog=SHOW)
def show(
    file: Annotated[Path, typer.Argument(help="A codebook, or a job that has one.")],
    allow: Allow = None,
    as_json: As_json = False,
) -> None:
    """Show a codebook, checked: which columns become which features."""
    from pace.cli import console

    book = load(file)
    if as_json:
        console.one_object(book.plain() | {"features": list(book.features)})
    else:
        show_codebook(book, str(file))


def load(file: Path) -> Codebook:
    """The codebook of a file, or of a job."""
    from pace.errors import SettingError
    from pace.jobs.job import JOB_SUFFIX, read_job
    from pace.tables.codebook import read_codebook

    if file.suffix != JOB_SUFFIX:
        return read_codebook(file)
    book = read_job(file).codebook
    if book is None:
        raise SettingError(
            f"{file} has no codebook: make one with `pace codebook merge` and a job with "
            "`pace new --codebook`, or import with --features and --classes"
        )
    return book


def show_codebook(book: Codebook, title: str) -> None:
    """Print what it is about, and a line for each column."""
    from pace.cli import console
    from pace.tables.agreement import codebook_rows

    to = console.console()
    console.facts(
        title,
        {
            "label": f"{book.label}: {', '.join(book.classes)}",
            "id": book.id,
            "features": f"{len(book.features):,} from {len(book.columns):,} columns",
        },
        to,
    )
    heads, rows = codebook_rows(book)
    console.table("", heads, rows, to, words=2, first=2)
