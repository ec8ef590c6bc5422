"""`pace graph`: a graph of one's own, from tables to a .graph file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pace.cli import manual
from pace.cli.given import (
    Allow,
    As_json,
    Data_root,
    Decimal,
    Directions,
    Strangers,
    Weight,
    datasets,
)

if TYPE_CHECKING:
    from pace.datasets.dataset import GraphFacts
    from pace.tables.importing import Imported

EXAMPLES_IMPORT = """
Examples:

  pace graph import --nodes nodes.csv --edges edges.csv --label kind --out mine.graph

  pace graph import --job study.pace --nodes nodes.csv --edges edges.csv --out mine.graph

  pace graph import --nodes n.parquet --edges e.parquet --label kind --features emb_
  --client hospital --split fold --out mine.graph
"""
EXAMPLES_SHOW = """
Examples:

  pace graph show mine.graph

  pace graph show cora --json
"""
LISTED = 20  # classes or clients shown

EXAMPLES = """
  pace graph import --nodes nodes.csv --edges edges.csv --label kind --out mine.graph

  pace graph show mine.graph
"""

app = typer.Typer(
    cls=manual.Group,
    help="Make a .graph file of your own tables, and look at one.",
    epilog=EXAMPLES,
)


@app.command("import", cls=manual.Command, epilog=EXAMPLES_IMPORT)
def import_(
    nodes: Annotated[Path, typer.Option(help="Table of nodes: .csv or .parquet.", metavar="FILE")],
    edges: Annotated[
        Path, typer.Option(help="Table of edges: columns source, target.", metavar="FILE")
    ],
    out: Annotated[Path, typer.Option(help="The .graph file to write.", metavar="FILE")],
    label: Annotated[
        str | None,
        typer.Option(
            help="The column with the class; an empty cell is unknown (default: no labels).",
            metavar="COLUMN",
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="Feature columns or prefixes, separated by commas (default: the rest).",
            metavar="COLUMNS",
        ),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id", help="The column with node ids (default: id, or rows).", metavar="COLUMN"
        ),
    ] = None,
    client: Annotated[
        str | None, typer.Option(help="The column with each node's client.", metavar="COLUMN")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="The column that says train, val or test.", metavar="COLUMN")
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            help="All classes in order, separated by commas, if sites must agree.", metavar="NAMES"
        ),
    ] = None,
    decimal: Decimal = None,
    strangers: Strangers = "refuse",
    weight: Weight = None,
    directions: Directions = None,
    job: Annotated[
        Path | None,
        typer.Option(help="The job whose codebook says what columns become.", metavar="FILE"),
    ] = None,
    codebook: Annotated[
        Path | None, typer.Option(help="The same, of a codebook's own file.", metavar="FILE")
    ] = None,
    allow: Allow = None,
    as_json: As_json = False,
) -> None:
    """Make a .graph file of two tables. Problems are listed with their rows, all of them.

    With `--job`, every site gets the same features in the same order, scaled and filled alike, and
    is told what was done to which rows.
    """
    from pace.cli import console
    from pace.cli.codebook import load
    from pace.datasets import file
    from pace.datasets.dataset import describe_graph
    from pace.errors import SettingError
    from pace.io.records import plain_record
    from pace.tables.importing import Columns, import_graph

    if out.suffix != file.SUFFIX:
        raise SettingError(f"--out is {out}, expected a name that ends in {file.SUFFIX}")
    columns = Columns(
        label=label,
        id=id_column,
        features=features,
        client=client,
        split=split,
        classes=classes,
        decimal=decimal,
        strangers=strangers,
        weight=weight,
        directions=directions,
    )
    if job is not None and codebook is not None:
        raise SettingError("--job and --codebook both say what columns become: give one of them")
    agreed = job or codebook
    book = None if agreed is None else load(agreed)
    imported = import_graph(nodes, edges, columns, out.stem, book)
    file.write_graph(out, imported.dataset)
    facts = describe_graph(imported.dataset)
    if as_json:
        remarks = {name: getattr(imported, name) for name in ("notes", "changes", "warnings")}
        console.one_object(plain_record(facts) | plain_record(remarks))
        return
    show_facts(facts)
    tell(imported)
    console.say(f"Written: {out}")


def tell(imported: Imported) -> None:
    """Print what was done on the way, and what will mislead if it is left so."""
    from pace.cli import console

    to = console.console()
    for note in (*imported.notes, *map(str, imported.changes)):
        to.print(f"Note: {note}")
    for warning in imported.warnings:
        to.print(f"Warning: {warning}", style="yellow")


@app.command("show", cls=manual.Command, epilog=EXAMPLES_SHOW)
def show(
    graph: Annotated[
        str, typer.Argument(help="A .graph file, or a dataset's name.", autocompletion=datasets)
    ],
    data_root: Data_root = None,
    as_json: As_json = False,
) -> None:
    """Describe a graph: its sizes, classes, masks and clients."""
    from pace.cli import console
    from pace.datasets import load
    from pace.datasets.dataset import describe_graph
    from pace.io.records import plain_record

    facts = describe_graph(load(graph, data_root))
    if as_json:
        console.one_object(plain_record(facts))
    else:
        show_facts(facts)


def show_facts(facts: GraphFacts) -> None:
    """Print the facts for people, within 80 columns."""
    from pace.cli import console

    names = facts.feature_names
    first = f": {', '.join(names[:6])}{', …' if len(names) > 6 else ''}" if names else ""
    directed = ", stored with directions" if facts.directed else ""
    lines = {
        "nodes": f"{facts.nodes:,} ({facts.isolated:,} without an edge)",
        "edges": f"{facts.edges:,}{directed}{', weighted' if facts.weighted else ''}; "
        f"{facts.mean_degree:.1f} neighbours a node, {100 * facts.homophily:.0f}% within a class",
        "features": f"{facts.features:,}, {100 * facts.feature_density:.1f}% not zero{first}",
        "classes": counted(facts.classes) or "unknown",
        "unlabelled": f"{facts.unlabelled:,}",
        "split": counted(facts.split) or "none of its own: drawn when it is divided",
        "clients": counted(facts.clients) or "none of its own",
    }
    console.facts(facts.name, lines, console.console())


def counted(counts: dict[str, int] | None) -> str:
    """`3: red 5, blue 7, …`; nothing for nothing."""
    if not counts:
        return ""
    names = [f"{name} {count:,}" for name, count in list(counts.items())[:LISTED]]
    return f"{len(counts)}: {', '.join(names)}{', …' if len(counts) > LISTED else ''}"
