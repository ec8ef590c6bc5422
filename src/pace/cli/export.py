"""`pace export`: a site's model for programs that know nothing of PACE."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pace.cli import console, given, options
from pace.cli.given import argument, option


def export(
    model: Annotated[Path, argument("A model folder.")],
    to: Annotated[str, option("For what: torch or onnx.", "KIND")],
    out: Annotated[Path, option("The folder to write.", "FOLDER")],
    graph: Annotated[
        Path | None,
        option(
            "A .graph file to put beside it as NumPy arrays, graph.npz.",
            "FILE",
            autocompletion=given.graphs,
        ),
    ] = None,
    as_json: given.As_json = False,
) -> None:
    """Write what a site uses, Local and what came back with their weights, for other programs.

    The folder needs no PACE: torch alone, or an ONNX runtime. Features go in as the job has them;
    with a codebook, `pace graph import --job` makes them of tables.

    Examples:
        pace export mine.model --to torch --out mine_torch
        pace export mine.model --to onnx --out mine_onnx --graph mine.graph
    """
    from pace.export import export_model
    from pace.runtimes.files.model import read_model
    from pace.runtimes.files.site import load_site

    if to == "onnx":
        options.need("--to onnx", "export", "onnxscript")
    adopted = read_model(model)
    site = None if graph is None else load_site(graph, adopted.job)
    files = export_model(adopted, to, out, site)
    if as_json:
        console.one_object({"folder": str(out), "kind": to, "files": files})
    else:
        console.say(f"Written: {out} ({', '.join(files)})")
