"""`pace client`: what a site does. Only its own files are read, only the upload is for sending."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pace.cli import fit, manual
from pace.cli.given import As_json, Job_file, graphs

if TYPE_CHECKING:
    from rich.console import Console

ADOPT = """
Example:

  pace client adopt job.pace mine.graph --kept mine.local --return mine.down
  --out mine.model
"""
PREDICT = """
Examples:

  pace client predict mine.model mine.graph --out predictions.csv

  pace client predict mine.model tomorrow.graph --out predictions.parquet
"""
EVALUATE = """
Examples:

  pace client evaluate mine.model mine.graph

  pace client evaluate mine.model mine.graph --on val --json
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
    as_json: As_json = False,
) -> None:
    """Apply the server's return to Local, decide how much of it to admit, write the model.

    The roll that came with the return says whose uploads were merged; it is checked and kept.
    """
    import torch

    from pace.cli import console
    from pace.jobs.job_file import read as read_job
    from pace.jobs.roll import SUFFIX, sentences
    from pace.runtimes.files import adopt as step
    from pace.runtimes.files import site as sites

    torch.set_num_threads(1)
    job = read_job(job_file)
    called = None if without_roll else roll or returned.with_suffix(SUFFIX)
    site = sites.load(graph, job)
    about = step.adopt(job, site, kept=kept, returned=returned, roll=called, out=out)
    if as_json:
        console.one_object(about | {"model": str(out)})
        return
    to = console.console()
    to.print(f"{about['decision']}.")
    for sentence in sentences(about.get("roll")):
        to.print(sentence)
    before, after = (about["validation"][each]["nll"] for each in ("local", "adopted"))
    if before is not None:
        to.print(
            f"NLL on {about['validation']['nodes']:,} validation nodes: {before:.4f} with Local, "
            f"{after:.4f} now."
        )
    if about["test"]["nodes"]:
        score_table(about["test"], to)
    typer.echo(f"Written: {out} (start with its README.md)")


def score_table(found: dict[str, Any], to: Console) -> None:
    from pace.cli import console
    from pace.runtimes.files.model_card import HEADS, rows

    console.table(f"{found['mask']}: {found['nodes']:,} nodes", HEADS, rows(found), to, words=0)


@app.command("predict", cls=manual.Command, epilog=PREDICT)
def predict(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    graph: Annotated[
        Path, typer.Argument(help="Any .graph file with the same features.", autocompletion=graphs)
    ],
    out: Annotated[
        Path, typer.Option(help="The table to write: .csv or .parquet.", metavar="FILE")
    ],
    as_json: As_json = False,
) -> None:
    """Predict every node of a graph, known or new: PACE's answer, and Local's beside it."""
    import torch

    from pace.cli import console
    from pace.runtimes.files import model as models
    from pace.runtimes.files import predictions
    from pace.runtimes.files import site as sites

    torch.set_num_threads(1)
    found = models.read(model)
    site = sites.load(graph, found.job)
    classes = found.job.classes or tuple(map(str, range(found.job.model.classes)))
    table = predictions.columns(found(site.graph), site.nodes, classes)
    predictions.write(out, table)
    pairs = zip(table["class"], table["local_class"], strict=True)
    differ = sum(mine != local for mine, local in pairs)
    if as_json:
        facts = {"nodes": site.graph.nodes, "differ_from_local": differ, "alpha": found.alpha}
        console.one_object({"predictions": str(out), **facts})
        return
    typer.echo(f"{site.graph.nodes:,} nodes; on {differ:,} of them PACE differs from Local.")
    typer.echo(f"Written: {out}")


@app.command("evaluate", cls=manual.Command, epilog=EVALUATE)
def evaluate(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    graph: Annotated[
        Path, typer.Argument(help="A .graph file with labels.", autocompletion=graphs)
    ],
    on: Annotated[
        str, typer.Option(help="Which nodes: train, val, test or all.", metavar="NAME")
    ] = "test",
    as_json: As_json = False,
) -> None:
    """Score PACE against Local on labelled nodes of a graph."""
    import torch

    from pace.cli import console
    from pace.runtimes.files import evaluate as step
    from pace.runtimes.files import model as models
    from pace.runtimes.files import site as sites

    torch.set_num_threads(1)
    found = models.read(model)
    site = sites.load(graph, found.job)
    scores = step.scores(found(site.graph), site.graph, on, found.job.model.classes)
    step.require_nodes(scores)
    if as_json:
        console.one_object({"alpha": found.alpha, **scores})
    else:
        score_table(scores, console.console())
