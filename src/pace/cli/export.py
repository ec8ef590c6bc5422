"""`pace export`: a site's model for programs that know nothing of PACE."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pace.cli.given import As_json, graphs

EXAMPLES = """
Examples:

  pace export mine.model --to torch --out mine_torch

  pace export mine.model --to onnx --out mine_onnx --graph mine.graph
"""


def export(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    to: Annotated[str, typer.Option(help="For what: torch or onnx.", metavar="KIND")],
    out: Annotated[Path, typer.Option(help="The folder to write.", metavar="FOLDER")],
    graph: Annotated[
        Path | None,
        typer.Option(
            help="A .graph file to put beside it as NumPy arrays, graph.npz.",
            metavar="FILE",
            autocompletion=graphs,
        ),
    ] = None,
    as_json: As_json = False,
) -> None:
    """Write what a site uses, Local and what came back with their weights, for other programs.

    The folder needs no PACE: torch alone, or an ONNX runtime. Features go in as the job has them;
    with a codebook, `pace graph import --job` makes them of tables.
    """
    from pace.cli import console
    from pace.cli.options import need
    from pace.export import export_model
    from pace.runtimes.files.model import read_model
    from pace.runtimes.files.site import load_site

    if to == "onnx":
        need("--to onnx", "export", "onnxscript")
    adopted = read_model(model)
    site = None if graph is None else load_site(graph, adopted.job)
    files = export_model(adopted, to, out, site)
    if as_json:
        console.one_object({"folder": str(out), "kind": to, "files": files})
    else:
        console.say(f"Written: {out} ({', '.join(files)})")
