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

from pace.errors import FileError
from pace.gates.mixture import Weights
from pace.graph import Graph
from pace.io import atomic, records
from pace.jobs.job import Job
from pace.jobs.job_file import read_job, render_job
from pace.params import Params
from pace.protocol import steps, wire
from pace.protocol.method import External
from pace.runtimes.files.members import Members, encode_members, read_members
from pace.runtimes.files.model_page import model_card, model_page
from pace.runtimes.files.outcome import (
    MODEL,
    RESULT,
    MaskScores,
    Outcome,
    Result,
    mask_scores,
    remembered_nodes,
)
from pace.runtimes.files.site import Site
from pace.runtimes.files.tensors import encode_tensors, parameters, read_tensors

PARAMS = "pace-params-1"
ABOUT, RESULTS, MEMBERS, PAGE = "model.json", "result.json", "members.safetensors", "index.html"
LARGEST = 2**26  # bytes of a JSON file; counts of a thousand classes fit


@dataclass(frozen=True, eq=False)
class SiteModel:
    """Local and the Externals under one job, and the weight of each."""

    job: Job
    local: Params
    externals: tuple[External, ...]
    weights: Weights
    outcome: Outcome
    members: Members
    result: Result

    @property
    def alpha(self) -> float:
        return steps.alpha(self.weights)

    def __call__(self, graph: Graph) -> steps.Adoption:
        """The logits of every node."""
        parts = self.local, tuple(self.externals), self.weights
        return steps.AdoptedModel(self.job.federation, *parts).adoption(graph)

    def evaluate(self, site: Site, mask: str) -> MaskScores:
        """Scores on the nodes of a mask, by what each node was used for when the model was made."""
        nodes, new, left_out = remembered_nodes(site, mask, self.members.roles(site.nodes))
        classes = self.job.model.classes
        scores = mask_scores(self(site.graph), site.graph, nodes, mask=mask, classes=classes)
        return replace(scores, new=new, left_out=left_out)


def write_model(folder: Path, model: SiteModel) -> None:
    """The folder, complete or not at all."""
    job = model.job
    externals = [external.params for external in model.externals]
    params = dict(zip(_names(len(externals)), (model.local, *externals), strict=True))
    files = {
        f"{name}.safetensors": encode_tensors(
            values, {"format": PARAMS, "which": name, "job": job.digest}
        )
        for name, values in params.items()
    }
    texts = {
        ABOUT: json.dumps(records.plain_record(model.outcome), indent=1) + "\n",
        "job.pace": render_job(job),
        RESULTS: json.dumps(records.plain_record(model.result)) + "\n",
        "README.md": model_card(job, model.outcome),
        PAGE: model_page(job, model.outcome, model.result),
    }
    files |= {MEMBERS: encode_members(model.members, job.digest)}
    files |= {name: text.encode() for name, text in texts.items()}
    atomic.folder(folder, files, private=True)  # Local is in it


def write_page(folder: Path) -> Path:
    """The folder's page again, of what the folder holds."""
    model = read_model(folder)
    text = model_page(model.job, model.outcome, model.result)
    atomic.write(folder / PAGE, text.encode(), private=True)
    return folder / PAGE


def is_model(folder: Path) -> bool:
    """Whether it looks like a model folder."""
    return (folder / ABOUT).is_file()


def read_model(folder: Path) -> SiteModel:
    """The model of a folder."""
    if not is_model(folder):
        raise FileError(f"{folder} is not a model: `pace client adopt` makes one")
    outcome = _read_outcome(folder / ABOUT)
    digest, weights = outcome.job, outcome.weights
    job = read_job(folder / "job.pace")
    if job.digest != digest:
        raise FileError(f"{folder} holds the job {job.digest[:16]}, its model is of {digest[:16]}")
    blanks = steps.blank_externals(job.federation)
    layouts = [wire.layout(job.federation.start), *(wire.layout(each.params) for each in blanks)]
    if len(weights) != len(layouts):
        raise FileError(
            f"{folder} has {len(weights)} weights, its method {len(layouts)} models: restore it"
        )
    params = []
    for name, expected in zip(_names(len(weights) - 1), layouts, strict=True):
        path = folder / f"{name}.safetensors"
        about, values = read_tensors(path, PARAMS)
        if about.get("which") != name or about.get("job") != digest:
            raise FileError(f"{path} does not belong to this model: restore it")
        # A hostile return may overflow; then Local was kept, and External is never used.
        finite = name == "local" or outcome.alpha > 0
        params.append(parameters(values, expected, path, finite=finite))
    members = read_members(folder / MEMBERS, digest)
    result = records.load_record(Result, folder / RESULTS, LARGEST, RESULT)
    for readings in result.counts.values():
        if any(len(counts.confusion) != job.model.classes for counts in readings.values()):
            raise FileError(
                f"{folder / RESULTS} is damaged (a confusion matrix is not of "
                f"{job.model.classes} classes): restore it from a backup"
            )
    externals = tuple(
        replace(blank, params=values, returned=None)
        for blank, values in zip(blanks, params[1:], strict=True)
    )
    return SiteModel(job, params[0], externals, weights, outcome, members, result)


def _names(externals: int) -> list[str]:
    """What the files of Local and the Externals are called."""
    return ["local", "external", *(f"external-{number}" for number in range(2, externals + 1))]


def _read_outcome(path: Path) -> Outcome:
    outcome = records.load_record(Outcome, path, LARGEST, MODEL)
    alpha, weights = outcome.alpha, outcome.weights
    sound = all(0 <= weight < math.inf for weight in weights) and 0 < sum(weights) < math.inf
    if not 0 <= alpha <= 1 or not (sound and len(weights) >= 2):
        raise FileError(
            f"{path} is damaged (alpha {alpha} and weights {weights}, expected weights of 0 or "
            "more): restore it from a backup"
        )
    return outcome
