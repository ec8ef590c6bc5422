"""`pace client`: what a site does. Only its own files are read, only the upload is for sending."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pace.cli import fit, manual
from pace.cli.given import Allow, As_json, Directions, Job_file, Strangers, Weight, graphs

if TYPE_CHECKING:
    from rich.console import Console

    from pace.runtimes.files.model import SiteModel
    from pace.runtimes.files.outcome import MaskScores
    from pace.runtimes.files.site import Site
    from pace.tables.importing import Columns, Imported

ADOPT = """
Example:

  pace client adopt job.pace mine.graph --kept mine.local --return mine.down
  --out mine.model
"""
PREDICT = """
Examples:

  pace client predict mine.model mine.graph --out predictions.csv

  pace client predict mine.model tomorrow.graph --out predictions.parquet

  pace client predict mine.model --nodes new.csv --edges new_links.csv
  --out predictions.csv
"""
EVALUATE = """
Examples:

  pace client evaluate mine.model mine.graph

  pace client evaluate mine.model mine.graph --on val --json

  pace client evaluate mine.model --nodes new.csv --edges new_links.csv --on new
"""
EXAMPLES = """
  pace client fit job.pace mine.graph --keep mine.local --upload mine.up

  pace client adopt job.pace mine.graph --kept mine.local --return mine.down
  --out mine.model

  pace client predict mine.model mine.graph --out predictions.csv
"""

app = typer.Typer(
    cls=manual.Group, help="A site: train, adopt, predict, evaluate.", epilog=EXAMPLES
)
app.command("fit", cls=manual.Command, epilog=fit.EXAMPLES)(fit.fit)


@app.command("adopt", cls=manual.Command, epilog=ADOPT)
def adopt(
    job_file: Job_file,
    graph: Annotated[
        Path, typer.Argument(help="The .graph file you trained on.", autocompletion=graphs)
    ],
    kept: Annotated[Path, typer.Option(help="What `pace client fit` kept.", metavar="FILE")],
    returned: Annotated[
        Path, typer.Option("--return", help="What the server sent back.", metavar="FILE")
    ],
    out: Annotated[Path, typer.Option(help="The model folder to write.", metavar="FOLDER")],
    roll: Annotated[
        Path | None,
        typer.Option(help="Who was in (default: the .roll beside --return).", metavar="FILE"),
    ] = None,
    without_roll: Annotated[
        bool, typer.Option("--without-roll", help="Adopt without knowing who was in.")
    ] = False,
    allow: Allow = None,
    as_json: As_json = False,
) -> None:
    """Apply the server's return to Local, decide how much of it to admit, write the model.

    The roll that came with the return says whose uploads were merged; it is checked and kept.
    """
    import torch

    from pace.cli import console
    from pace.io import records
    from pace.io.untrusted import read_exact
    from pace.jobs.disclosure import received_sentences
    from pace.jobs.job import read_job
    from pace.jobs.roll import ROLL_SUFFIX, roll_sentences
    from pace.runtimes.files.adopt import adopt_files, read_roll, return_size
    from pace.runtimes.files.site import load_site

    torch.set_num_threads(1)
    job = read_job(job_file)
    site = load_site(graph, job)
    came = read_exact(returned, return_size(job))
    called = None if without_roll else read_roll(roll or returned.with_suffix(ROLL_SUFFIX))
    outcome = adopt_files(job, site, kept, out, returned=came, roll=called)
    if as_json:
        console.one_object({**records.plain_record(outcome), "model": str(out)})
        return
    to = console.console()
    to.print(f"{outcome.decision}.")
    for sentence in roll_sentences(outcome.roll, job):
        to.print(sentence)
    scores = outcome.validation
    if scores.local.nll is not None:
        to.print(
            f"NLL on {scores.nodes:,} validation nodes: {scores.local.nll:.4f} with Local, "
            f"{scores.adopted.nll:.4f} now."
        )
    for external in outcome.received:
        for sentence in received_sentences(external):
            to.print(sentence)
    if outcome.test.nodes:
        show_scores(outcome.test, to)
    console.say(f"Written: {out} (start with its index.html)")


def show_scores(scores: MaskScores, to: Console) -> None:
    from pace.runtimes.files.model_page import score_table

    table = score_table(f"{scores.mask}: {scores.nodes:,} nodes", scores)
    table.show(to)
    if table.note:
        to.print(table.note)
    if scores.new and scores.mask != "new":
        to.print(f"{scores.new:,} of them are new: the model has never seen them with a label.")
    if scores.left_out:
        to.print(
            f"Left out: {scores.left_out:,} nodes that the model was trained on or validated by, "
            "and that this graph's own masks would call test."
        )


Model_folder = Annotated[Path, typer.Argument(help="A model folder.")]
Nodes = Annotated[
    Path | None,
    typer.Option(help="In place of a graph: a table of nodes, .csv or .parquet.", metavar="FILE"),
]
Edges = Annotated[Path | None, typer.Option(help="Its table of edges.", metavar="FILE")]
Id_column = Annotated[
    str | None,
    typer.Option("--id", help="The column with node ids (default: the job's).", metavar="COLUMN"),
]
Any_graph = Annotated[
    Path | None,
    typer.Argument(help="Any .graph file with the same features.", autocompletion=graphs),
]


def site_of(
    model: SiteModel,
    graph: Path | None,
    nodes: Path | None,
    edges: Path | None,
    columns: Columns,
) -> tuple[Site, Imported | None]:
    """A graph file, or two tables by the codebook of the model's job."""
    from pace.errors import SettingError
    from pace.runtimes.files.site import load_site, site_of_dataset
    from pace.tables.importing import import_graph

    if graph is not None and nodes is None and edges is None:
        return load_site(graph, model.job), None
    if graph is not None or nodes is None or edges is None:
        raise SettingError("give a .graph file, or both --nodes and --edges")
    if model.job.codebook is None:
        raise SettingError(
            "this model's job has no codebook, so tables cannot be read by it: make a .graph file "
            "with `pace graph import`, with the job's features in order"
        )
    made = import_graph(nodes, edges, columns, codebook=model.job.codebook)
    return site_of_dataset(made.dataset, model.job, nodes), made


@app.command("predict", cls=manual.Command, epilog=PREDICT)
def predict(
    model: Model_folder,
    out: Annotated[
        Path, typer.Option(help="The table to write: .csv or .parquet.", metavar="FILE")
    ],
    graph: Any_graph = None,
    nodes: Nodes = None,
    edges: Edges = None,
    id_column: Id_column = None,
    strangers: Strangers = "refuse",
    weight: Weight = None,
    directions: Directions = None,
    allow: Allow = None,
    as_json: As_json = False,
) -> None:
    """Predict every node of a graph, known or new: PACE's answer, and Local's beside it.

    Tables go in as they are, by the codebook of the model's job. The column `split` says which nodes
    the model was trained on (train), validated by (val) and has never seen (new), whatever their order.
    """
    from collections import Counter
    from dataclasses import asdict

    import torch

    from pace.cli import console
    from pace.cli.graph import tell
    from pace.runtimes.files.model import prediction_table, read_model, write_predictions
    from pace.tables.importing import Columns

    torch.set_num_threads(1)
    found = read_model(model)
    columns = Columns(id=id_column, strangers=strangers, weight=weight, directions=directions)
    site, made = site_of(found, graph, nodes, edges, columns)
    table = prediction_table(found, site)
    write_predictions(out, table)
    pairs = zip(table["class"], table["local_class"], strict=True)
    differ = sum(mine != local for mine, local in pairs)
    counts = dict(Counter(table["split"]))
    if as_json:
        facts = {
            "nodes": site.graph.nodes,
            "differ_from_local": differ,
            "alpha": found.outcome.alpha,
        }
        changes = [asdict(each) for each in made.changes] if made else []
        told = {"split": counts, "notes": made.notes if made else [], "changes": changes}
        console.one_object({"predictions": str(out), **facts, **told})
        return
    if made is not None:
        tell(made)
    console.say(f"{site.graph.nodes:,} nodes; on {differ:,} of them PACE differs from Local.")
    listed = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    console.say(f"When the model was made they were: {listed}.")
    console.say(f"Written: {out}")


@app.command("evaluate", cls=manual.Command, epilog=EVALUATE)
def evaluate(
    model: Model_folder,
    graph: Any_graph = None,
    on: Annotated[
        str, typer.Option(help="Which nodes: train, val, test, new or all.", metavar="NAME")
    ] = "test",
    nodes: Nodes = None,
    edges: Edges = None,
    id_column: Id_column = None,
    strangers: Strangers = "refuse",
    weight: Weight = None,
    directions: Directions = None,
    allow: Allow = None,
    as_json: As_json = False,
) -> None:
    """Score PACE against Local on labelled nodes of a graph.

    The model remembers by id whom it was trained on: `test` are nodes that it was not, also in a table
    that was exported again in another order.
    """
    import torch

    from pace.cli import console
    from pace.io import records
    from pace.runtimes.files.model import read_model
    from pace.tables.importing import Columns

    torch.set_num_threads(1)
    found = read_model(model)
    columns = Columns(id=id_column, strangers=strangers, weight=weight, directions=directions)
    site, _ = site_of(found, graph, nodes, edges, columns)
    scores = found.evaluate(site, on)
    if as_json:
        console.one_object({"alpha": found.outcome.alpha, **records.plain_record(scores)})
        return
    show_scores(scores, console.console())
