"""The model folder: all that predicting needs, and a card that says what it is.

local.safetensors, external.safetensors, model.json (alpha and how it came about), job.pace, README.md
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pace import atomic, jobfile, protocol, untrusted, wire
from pace.errors import FileError
from pace.files import tensors
from pace.files.card import card
from pace.graph import Graph
from pace.job import Job
from pace.params import Params

FORMAT = "pace-model-1"
PARAMS = "pace-params-1"


@dataclass(frozen=True, eq=False)
class Model:
    """Local and External under one job, and how much of External is taken."""

    job: Job
    local: Params
    external: Params
    alpha: float
    about: dict[str, Any]

    def __call__(self, graph: Graph) -> protocol.Adoption:
        """The logits of every node; External's are not asked for where Local was kept."""
        protocol.check(graph, self.job.federation)
        network = self.job.federation.model
        with torch.no_grad():
            local = network(self.local, graph).logits
            external = network(self.external, graph).logits
        return protocol.Adoption(local, external, self.alpha)


def write(folder: Path, model: Model) -> None:
    """The folder, complete or not at all."""
    about = {"format": FORMAT, "job": model.job.digest, **model.about}
    atomic.folder(
        folder,
        {
            "local.safetensors": _encoded(model.local, "local", model.job),
            "external.safetensors": _encoded(model.external, "external", model.job),
            "model.json": (json.dumps(about, indent=1) + "\n").encode(),
            "job.pace": jobfile.render(model.job).encode(),
            "README.md": card(model.job, about).encode(),
        },
    )


def _encoded(params: Params, which: str, job: Job) -> bytes:
    return tensors.encode(params, {"format": PARAMS, "which": which, "job": job.digest})


def read(folder: Path) -> Model:
    """The model of a folder."""
    if not (folder / "model.json").is_file():
        raise FileError(f"{folder} is not a model: `pace client adopt` makes one")
    try:
        about = untrusted.json((folder / "model.json").read_bytes())
        kind, alpha, digest = about["format"], float(about["alpha"]), about["job"]
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(f"{folder}/model.json is damaged ({error!r}): restore it") from error
    if kind != FORMAT or not 0 <= alpha <= 1:
        raise FileError(f"{folder} has format {kind!r} and alpha {alpha}, expected {FORMAT!r}")
    job = jobfile.read(folder / "job.pace")
    if job.digest != digest:
        raise FileError(
            f"{folder} holds the job {job.digest[:16]}, its model is of {str(digest)[:16]}"
        )
    expected = wire.layout(job.federation.start)
    found = {}
    for which in ("local", "external"):
        path = folder / f"{which}.safetensors"
        told, values = tensors.read(path, PARAMS)
        if told.get("which") != which or told.get("job") != digest:
            raise FileError(f"{path} does not belong to this model: restore it")
        # A hostile return may overflow; then Local was kept, and External is never used.
        finite = which == "local" or alpha > 0
        found[which] = tensors.params(values, expected, path, finite=finite)
    return Model(job, found["local"], found["external"], alpha, about)
