"""`pace graph`: a graph of one's own, from tables to a .graph file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pace.cli import console, given
from pace.cli.codebook import load as load_codebook
from pace.cli.given import argument, option
from pace.errors import SettingError
from pace.io.records import plain_record

if TYPE_CHECKING:
    from pace.datasets.dataset import GraphFacts
    from pace.tables.importing import Imported

LISTED = 20  # classes or clients shown

app = typer.Typer()


@app.command("import")
def import_(
    nodes: Annotated[Path, option("Table of nodes: .csv or .parquet.", "FILE")],
    edges: Annotated[Path, option("Table of edges: columns source, target.", "FILE")],
    out: Annotated[Path, option("The .graph file to write.", "FILE")],
    label: Annotated[
        str | None,
        option(
            "The column with the class; an empty cell is unknown (default: no labels).", "COLUMN"
        ),
    ] = None,
    features: Annotated[
        str | None,
        option("Feature columns or prefixes, separated by commas (default: the rest).", "COLUMNS"),
    ] = None,
    id_column: Annotated[
        str | None, option("The column with node ids (default: id, or rows).", "COLUMN", "--id")
    ] = None,
    client: Annotated[str | None, option("The column with each node's client.", "COLUMN")] = None,
    split: Annotated[
        str | None, option("The column that says train, val or test.", "COLUMN")
    ] = None,
    classes: Annotated[
        str | None,
        option("All classes in order, separated by commas, if sites must agree.", "NAMES"),
    ] = None,
    decimal: given.Decimal = None,
    strangers: given.Strangers = "refuse",
    weight: given.Weight = None,
    directions: given.Directions = None,
    job: Annotated[
        Path | None, option("The job whose codebook says what columns become.", "FILE")
    ] = None,
    codebook: Annotated[Path | None, option("The same, of a codebook's own file.", "FILE")] = None,
    allow: given.Allow = None,
    as_json: given.As_json = False,
) -> None:
    """Make a .graph file of two tables. Problems are listed with their rows, all of them.

    With `--job`, every site gets the same features in the same order, scaled and filled alike, and
    is told what was done to which rows.

    Examples:
        pace graph import --nodes nodes.csv --edges edges.csv --label kind --out mine.graph
        pace graph import --job study.pace --nodes nodes.csv --edges edges.csv --out mine.graph
        pace graph import --nodes n.parquet --edges e.parquet --label kind --features emb_
        --client hospital --split fold --out mine.graph
    """
    from pace.datasets import file
    from pace.datasets.dataset import describe_graph
    from pace.tables.importing import Columns, import_graph

    if out.suffix != file.SUFFIX:
        raise SettingError(f"--out is {out}, expected a name that ends in {file.SUFFIX}")
    if job is not None and codebook is not None:
        raise SettingError("--job and --codebook both say what columns become: give one of them")
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
    agreed = job or codebook
    book = None if agreed is None else load_codebook(agreed)
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


@app.command()
def show(
    graph: Annotated[
        str, argument("A .graph file, or a dataset's name.", autocompletion=given.datasets)
    ],
    data_root: given.Data_root = None,
    as_json: given.As_json = False,
) -> None:
    """Describe a graph: its sizes, classes, masks and clients.

    Examples:
        pace graph show mine.graph
        pace graph show cora --json
    """
    from pace.datasets import load
    from pace.datasets.dataset import describe_graph

    facts = describe_graph(load(graph, data_root))
    if as_json:
        console.one_object(plain_record(facts))
    else:
        show_facts(facts)


def tell(imported: Imported) -> None:
    """Print what was done on the way, and what will mislead if it is left so."""
    to = console.console()
    for note in (*imported.notes, *map(str, imported.changes)):
        to.print(f"Note: {note}")
    for warning in imported.warnings:
        to.print(f"Warning: {warning}", style="yellow")


def show_facts(facts: GraphFacts) -> None:
    """Print the facts for people, within 80 columns."""
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
