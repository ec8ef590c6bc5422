"""The exported folder: the network as a file of its own, its weights, and what it says about itself."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pace.errors import FileError, SettingError
from pace.export.parts import Part, parts
from pace.io import atomic
from pace.runtimes.files.model import SiteModel
from pace.runtimes.files.site import Site

FORMAT = "pace-export-1"
KINDS = ("torch", "pyg", "onnx")
SOURCE = {"torch": "network.py", "pyg": "network_pyg.py"}

# PyG's names for what PACE calls `LAYER.…`, by kind; what is not listed is called the same.
PYG = {
    "gcn": {"weight": "lin.weight"},
    "sage": {
        "neighbours.weight": "lin_l.weight",
        "neighbours.bias": "lin_l.bias",
        "root.weight": "lin_r.weight",
    },
    "gin": {
        **{f"mlp.0.{end}": f"nn.0.{end}" for end in ("weight", "bias")},
        **{f"mlp.1.{end}": f"nn.2.{end}" for end in ("weight", "bias")},
    },
    "gat": {
        "weight": "lin.weight",
        "attention.source": "att_src",
        "attention.target": "att_dst",
    },
    "sgc": {"hops.weight": "lin.weight", "hops.bias": "lin.bias"},
    "appnp": {"predict.weight": "weight", "predict.bias": "bias"},
    "mlp": {"linear.weight": "weight", "linear.bias": "bias"},
}


def export(model: SiteModel, kind: str, out: Path, site: Site | None = None) -> list[str]:
    """Write the folder, complete or not at all; the names of its files.

    Args:
        kind: torch, pyg or onnx.
        site: a graph to put beside the model as graph.npz, as the recipes read it.
    """
    if kind not in KINDS:
        raise SettingError(f"--to is {kind!r}, expected one of {', '.join(KINDS)}")
    if out.exists():
        raise FileError(f"{out} already exists: choose another --out, or move it")
    found = parts(model)
    classes = model.job.classes or tuple(map(str, range(model.job.model.classes)))
    names = {"features": list(model.job.features), "classes": list(classes)}
    about = {
        "format": FORMAT,
        "job": model.job.digest,
        "name": model.outcome.name,
        **names,
        "parts": [part.about for part in found],
    }
    files = {"model.json": (json.dumps(about, indent=1, ensure_ascii=False) + "\n").encode()}
    if kind == "onnx":
        from pace.export.onnx_file import encode

        files["model.onnx"] = encode(found, names)
    else:
        source = resources.files("pace.export").joinpath(SOURCE[kind])
        files["network.py"] = source.read_bytes()
        files["weights.pt"] = _saved(_state(found, kind))
    if site is not None:
        files["graph.npz"] = _arrays(site)
    atomic.folder(out, files, private=True)  # Local is in it
    return sorted(files)


def _state(found: Sequence[Part], kind: str) -> dict[str, Tensor]:
    """The state dict of `Adopted` in the folder's network.py."""
    state = {}
    for place, part in enumerate(found):
        for name, value in part.params.items():
            own = _renamed(name, part) if kind == "pyg" else name
            state[f"parts.{place}.layers.{own}"] = value
        if kind == "pyg" and part.kind == "gin":  # a buffer of PyG's layer
            for layer in range(len(part.widths) - 1):
                epsilon = torch.tensor([float(part.settings["epsilon"])])
                state[f"parts.{place}.layers.{layer}.eps"] = epsilon
    return state


def _renamed(name: str, part: Part) -> str:
    layer, _, rest = name.partition(".")
    last = int(layer) + 2 == len(part.widths)
    kind = {"headed": "ridge" if last else "gcn"}.get(part.kind, part.kind)
    return f"{layer}.{PYG.get(kind, {}).get(rest, rest)}"


def _saved(state: dict[str, Tensor]) -> bytes:
    content = io.BytesIO()
    torch.save(state, content)
    return content.getvalue()


def _arrays(site: Site) -> bytes:
    graph, content = site.graph, io.BytesIO()
    weights = torch.ones(graph.edges.shape[1]) if graph.weights is None else graph.weights
    np.savez(
        content,
        x=graph.x.numpy(),
        edge_index=graph.edges.numpy(),
        edge_weight=weights.numpy(),
        nodes=np.array(site.nodes),
    )
    return content.getvalue()
