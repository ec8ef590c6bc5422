"""The model folder: all that predicting needs, and a card that says what it is.

local.safetensors, external.safetensors (external-2.safetensors and so on where a method returns more),
model.json (the weights and how they came about), members.safetensors (whom it was trained on, by
salted hash), result.json (counts by class, no node), job.pace, README.md and index.html for people
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from pace.errors import FileError
from pace.gates.mixture import Weights, local_alone
from pace.graph import Graph
from pace.io import atomic, records, regular, untrusted
from pace.jobs import job_file
from pace.jobs.job import Job
from pace.params import Params
from pace.protocol import steps, wire
from pace.runtimes.files import members, model_page, tensors
from pace.runtimes.files import result as results
from pace.runtimes.files.members import Members
from pace.runtimes.files.model_card import card
from pace.runtimes.files.outcome import Outcome
from pace.runtimes.files.result import Result

FORMAT = "pace-model-1"
PARAMS = "pace-params-1"
MEMBERS = "members.safetensors"
PAGE = "index.html"
LARGEST = 2**20  # bytes of model.json


@dataclass(frozen=True, eq=False)
class Model:
    """Local and the Externals under one job, and the weight of each."""

    job: Job
    local: Params
    externals: tuple[Params, ...]
    weights: Weights
    about: Outcome
    members: Members | None = None  # None in a folder made before models remembered
    result: Result | None = None  # None in a folder made before models kept counts

    @property
    def alpha(self) -> float:
        return steps.alpha(self.weights)

    def __call__(self, graph: Graph) -> steps.Adoption:
        """The logits of every node.

        An External that is finite on this site's graph may overflow on another: then Local answers.
        """
        steps.check(graph, self.job.federation)
        federation = self.job.federation
        local, *externals = steps.logit_sets(graph, self.local, self.externals, federation)
        adoption = steps.Adoption(local, tuple(externals), self.weights)
        if torch.isfinite(adoption.logits).all():
            return adoption
        return replace(adoption, weights=local_alone((local, *externals)))


def write(folder: Path, model: Model) -> None:
    """The folder, complete or not at all."""
    about = {"format": FORMAT, "job": model.job.digest, **records.plain_record(model.about)}
    atomic.folder(
        folder,
        {
            "local.safetensors": _encoded(model.local, "local", model.job),
            **{
                f"{name}.safetensors": _encoded(each, name, model.job)
                for name, each in zip(_names(len(model.externals)), model.externals, strict=True)
            },
            **(
                {}
                if model.members is None
                else {MEMBERS: members.encode(model.members, model.job.digest)}
            ),
            "model.json": (json.dumps(about, indent=1) + "\n").encode(),
            "job.pace": job_file.render(model.job).encode(),
            **({} if model.result is None else {results.FILE: model.result.encode()}),
            "README.md": card(model.job, model.about).encode(),
            PAGE: model_page.render(model.job, model.about, model.result).encode(),
        },
        private=True,  # Local is in it
    )


def write_page(folder: Path) -> Path:
    """The folder's page again, of what the folder holds."""
    model = read(folder)
    try:
        text = model_page.render(model.job, model.about, model.result)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise FileError(f"{folder}/model.json is damaged ({error!r}): restore it") from error
    atomic.write(folder / PAGE, text.encode(), private=True)
    return folder / PAGE


def _names(externals: int) -> list[str]:
    """What the Externals' files are called."""
    return ["external", *(f"external-{place}" for place in range(2, externals + 1))]


def _encoded(params: Params, which: str, job: Job) -> bytes:
    return tensors.encode(params, {"format": PARAMS, "which": which, "job": job.digest})


def is_one(folder: Path) -> bool:
    """Whether it looks like a model folder."""
    return (folder / "model.json").is_file()


def read(folder: Path) -> Model:
    """The model of a folder."""
    if not is_one(folder):
        raise FileError(f"{folder} is not a model: `pace client adopt` makes one")
    try:
        content = untrusted.json(regular.read(folder / "model.json", LARGEST))
        kind, digest, about = content["format"], content["job"], Outcome.of(content)
        alpha, weights = about.alpha, about.weights
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(f"{folder}/model.json is damaged ({error!r}): restore it") from error
    sound = all(0 <= weight < math.inf for weight in weights) and 0 < sum(weights) < math.inf
    if kind != FORMAT or not 0 <= alpha <= 1 or not (sound and len(weights) >= 2):
        raise FileError(
            f"{folder} has format {kind!r}, alpha {alpha} and weights {weights}, expected "
            f"{FORMAT!r} with weights of 0 or more: restore model.json"
        )
    job = job_file.read(folder / "job.pace")
    if job.digest != digest:
        raise FileError(
            f"{folder} holds the job {job.digest[:16]}, its model is of {str(digest)[:16]}"
        )
    layouts = wire.layout(job.federation.start), *steps.external_layouts(job.federation)
    if len(weights) != len(layouts):
        raise FileError(
            f"{folder} has {len(weights)} weights, its method {len(layouts)} models: restore it"
        )
    found = {}
    for which, expected in zip(("local", *_names(len(weights) - 1)), layouts, strict=True):
        path = folder / f"{which}.safetensors"
        told, values = tensors.read(path, PARAMS)
        if told.get("which") != which or told.get("job") != digest:
            raise FileError(f"{path} does not belong to this model: restore it")
        # A hostile return may overflow; then Local was kept, and External is never used.
        finite = which == "local" or alpha > 0
        found[which] = tensors.params(values, expected, path, finite=finite)
    local, *externals = found.values()
    seen = members.read(folder / MEMBERS, str(digest))
    return Model(job, local, tuple(externals), weights, about, seen, results.read(folder, job))
