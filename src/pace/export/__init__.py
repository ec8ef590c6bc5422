"""A site's model for other programs: a folder with one traced program, and a description of it.

The model's own code is traced on a graph without numbers, so every network is written once.
"""

import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pace.errors import FileError, SettingError
from pace.gates import mix
from pace.io import atomic
from pace.models import SymbolicGraph
from pace.protocol import logit_sets
from pace.runtimes.files import Site, SiteModel, class_names

FORMAT = "pace-export-2"
KINDS = ("torch", "onnx")
INPUTS = ("x", "edge_index", "edge_weight")
OUTPUTS = ("logits", "local")
OPSET = 18


class Program(torch.nn.Module):
    """Features, edges and edge weights -> the logits that the site uses, and Local's."""

    def __init__(self, model: SiteModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> tuple[Tensor, Tensor]:
        model, graph = self.model, SymbolicGraph.of(x, edge_index, edge_weight)
        own, *others = model.outcome.weights
        externals = list(compress(model.externals, others))
        sets = logit_sets(graph, model.local, externals, model.job.federation)
        mixed = mix(sets, (own, *filter(None, others)))
        # An External that is finite on the site's graph may overflow on another: then Local answers.
        return torch.where(torch.isfinite(mixed).all(), mixed, sets[0]), sets[0].clone()


def export_model(model: SiteModel, kind: str, out: Path, site: Site | None = None) -> list[str]:
    """Write the folder, complete or not at all; the names of its files.

    Args:
        model: what the site uses.
        kind: torch or onnx.
        out: the folder, which must not exist.
        site: a graph to put beside the model as graph.npz, as the recipes read it.
    Raises:
        SettingError: there is no such kind, or torch cannot trace the model.
        FileError: the folder exists.
    """
    if kind not in KINDS:
        raise SettingError(f"--to is {kind!r}, expected one of {', '.join(KINDS)}")
    if out.exists():
        raise FileError(f"{out} already exists: choose another --out, or move it")
    job, program, content = model.job, _traced(model), io.BytesIO()
    classes, features = list(class_names(job)), list(job.features)
    names = ("Local", *(external.name for external in model.externals))
    parts = zip(names, model.outcome.weights, strict=True)
    about = {
        "format": FORMAT,
        "job": job.digest,
        "name": model.outcome.name,
        "features": features,
        "classes": classes,
        "temperature": model.outcome.temperature,
        "parts": [{"name": name, "weight": weight} for name, weight in parts],
    }
    files = {"model.json": (json.dumps(about, indent=1, ensure_ascii=False) + "\n").encode()}
    if kind == "onnx":
        files["model.onnx"] = _onnx(program, classes=classes, features=features)
    else:
        torch.export.save(program, content)
        files["model.pt2"] = content.getvalue()
    if site is not None:
        graph, content = site.graph, io.BytesIO()
        weights = torch.ones(graph.edges.shape[1]) if graph.weights is None else graph.weights
        edges: dict[str, Any] = {"edge_index": graph.edges.numpy(), "edge_weight": weights.numpy()}
        np.savez(content, x=graph.x.numpy(), **edges, nodes=np.array(site.nodes))
        files["graph.npz"] = content.getvalue()
    atomic.folder(out, files, private=True)  # Local is in it
    return sorted(files)


def _traced(model: SiteModel) -> torch.export.ExportedProgram:
    nodes, edges = torch.export.Dim("nodes", min=1), torch.export.Dim("edges", min=0)
    features, ends = torch.ones(3, model.job.model.features), torch.tensor([[0, 1], [1, 0]])
    example = (features, ends, torch.ones(2))
    shapes = ({0: nodes}, {1: edges}, {0: edges})
    try:
        with _quiet(), torch.no_grad():
            return torch.export.export(Program(model).eval(), example, dynamic_shapes=shapes)
    except Exception as error:  # whatever torch, or a module of the user's, raises
        raise SettingError(
            f"torch cannot export this {model.job.model.title} ({str(error).splitlines()[0]}): "
            "predict with `pace client predict`, or load its parameters from local.safetensors "
            "and external.safetensors"
        ) from error


def _onnx(program: torch.export.ExportedProgram, **facts: list[str]) -> bytes:
    settings: dict[str, Any] = {"input_names": INPUTS, "output_names": OUTPUTS, "verbose": False}
    with _quiet():
        exported = torch.onnx.export(program, (), **settings, dynamo=True, opset_version=OPSET)
    assert exported is not None
    for key, names in facts.items():
        exported.model.metadata_props[key] = json.dumps(names)
    return bytes(exported.model_proto.SerializeToString())


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the remarks of torch's tracer about itself."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(before)
