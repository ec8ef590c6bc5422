"""The model folder: all that predicting needs, and a card that says what it is.

local.safetensors (with salted hashes of whom it was trained on), external.safetensors
(external-2.safetensors and so on where a method returns more), model.json (the weights, how they came
about, and counts by class), job.pace, README.md and index.html for people
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from pace.errors import FileError, SettingError
from pace.graph import Graph
from pace.io import atomic, records
from pace.io.text import Medium, shown
from pace.jobs.job import Job, read_job, render_job
from pace.params import Params
from pace.protocol import steps, wire
from pace.protocol.method import External
from pace.reports import render_page
from pace.runtimes.files.kept import MEMBERS, encode_tensors, parameters, read_tensors
from pace.runtimes.files.model_page import model_card, model_document
from pace.runtimes.files.outcome import MODEL, MaskScores, Outcome, evaluate_mask, known_labels
from pace.runtimes.files.site import Members, Site
from pace.task import called

PARAMS = "pace-params-1"
ABOUT, PAGE = "model.json", "index.html"
Columns = dict[str, list[Any]]
LARGEST = 2**26  # bytes of a JSON file; counts of a thousand classes fit


@dataclass(frozen=True, eq=False)
class SiteModel:
    """Local and the Externals under one job, and what was decided about them."""

    job: Job
    local: Params
    externals: tuple[External, ...]
    outcome: Outcome
    members: Members

    def __call__(self, graph: Graph) -> steps.Adoption:
        """The logits of every node."""
        parts = self.local, tuple(self.externals), self.outcome.weights
        return steps.AdoptedModel(self.job.federation, *parts).adoption(graph)

    def evaluate(self, site: Site, mask: str) -> MaskScores:
        """Scores on the nodes of a mask, by what each node was used for when the model was made."""
        roles, classes = self.members.roles(site.nodes), self.job.model.classes
        return evaluate_mask(self(site.graph), site, mask, roles, classes)


def write_model(folder: Path, model: SiteModel) -> None:
    """The folder, complete or not at all."""
    about = {"format": PARAMS, "job": model.job.digest}
    salted = {**about, "which": "local", "salt": model.members.salt.hex()}
    files = {
        "local.safetensors": encode_tensors({**model.local, MEMBERS: model.members.table}, salted)
    }
    for name, external in zip(_names(len(model.externals)), model.externals, strict=True):
        files[f"{name}.safetensors"] = encode_tensors(external.params, {**about, "which": name})
    document = model_document(model.job, model.outcome)
    texts = {
        ABOUT: json.dumps(records.plain_record(model.outcome)) + "\n",
        "job.pace": render_job(model.job),
        "README.md": model_card(document),
        PAGE: render_page(document),
    }
    files |= {name: text.encode() for name, text in texts.items()}
    atomic.folder(folder, files, private=True)  # Local is in it


def write_page(folder: Path) -> Path:
    """The folder's page again, of what the folder holds."""
    model = read_model(folder)
    text = render_page(model_document(model.job, model.outcome))
    atomic.write(folder / PAGE, text.encode(), private=True)
    return folder / PAGE


def is_model(folder: Path) -> bool:
    """Whether it looks like a model folder."""
    return (folder / ABOUT).is_file()


def read_model(folder: Path) -> SiteModel:
    """The model of a folder."""
    if not is_model(folder):
        raise FileError(f"{folder} is not a model: `pace client adopt` makes one")
    outcome = records.load_record(Outcome, folder / ABOUT, LARGEST, MODEL)
    digest, weights = outcome.job, outcome.weights
    job = read_job(folder / "job.pace")
    if job.digest != digest:
        raise FileError(f"{folder} holds the job {job.digest[:16]}, its model is of {digest[:16]}")
    blanks = steps.blank_externals(job.federation)
    names, classes = ("local", *_names(len(blanks))), job.model.classes
    if len(weights) != len(names) or outcome.validation.classes != classes:
        raise FileError(
            f"{folder} has {len(weights)} weights and scores of {outcome.validation.classes} classes, "
            f"its job {len(names)} models and {classes} classes: restore it"
        )
    params, members = [], None
    for name, like in zip(names, (job.federation.start, *(b.params for b in blanks)), strict=True):
        path = folder / f"{name}.safetensors"
        about, values = read_tensors(path, PARAMS)
        if about.get("which") != name or about.get("job") != digest:
            raise FileError(f"{path} does not belong to this model: restore it")
        members = members or Members.checked(about.get("salt"), values.get(MEMBERS), path)
        # A hostile return may overflow; then Local was kept, and External is never used.
        finite = name == "local" or outcome.alpha > 0
        params.append(parameters(values, wire.layout(like), path, finite=finite))
    assert members is not None  # Local's file holds them
    externals = tuple(
        replace(blank, params=values, returned=None)
        for blank, values in zip(blanks, params[1:], strict=True)
    )
    return SiteModel(job, params[0], externals, outcome, members)


def _names(externals: int) -> list[str]:
    """What the files of the Externals are called."""
    return ["external", *(f"external-{number}" for number in range(2, externals + 1))]


def prediction_table(model: SiteModel, site: Site) -> Columns:
    """What the model says of every node.

    Node, PACE's class and how sure it is, Local's beside it, the label that is known, what the node
    was used for when the model was made (train, val, test, unlabelled; else new), then every class's
    probability.
    """
    classes = model.job.classes or tuple(map(str, range(model.job.model.classes)))
    adoption = model(site.graph)
    columns: Columns = {"node": list(site.nodes)}
    for prefix, logits in (("", adoption.logits), ("local_", adoption.local)):
        probabilities = logits.double().softmax(1)
        labels = called(probabilities).tolist()
        columns[f"{prefix}class"] = [classes[label] for label in labels]
        columns[f"{prefix}probability"] = _rounded(probabilities.max(1).values)
    columns["label"] = known_labels(site.graph, classes)
    columns["split"] = model.members.roles(site.nodes)
    chosen = adoption.logits.double().softmax(1)
    return columns | {f"p_{name}": _rounded(chosen[:, i]) for i, name in enumerate(classes)}


def _rounded(values: torch.Tensor) -> list[float]:
    return [round(value, 6) for value in values.tolist()]


def write_predictions(path: Path, table: Columns) -> None:
    """CSV or, with the extra `report`, Parquet: the kind of table is in the file's name."""
    if path.suffix == ".csv":
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        for row in (table, *zip(*table.values(), strict=True)):  # no text becomes a formula
            writer.writerow(
                shown(cell, Medium.CSV) if isinstance(cell, str) else cell for cell in row
            )
        content = text.getvalue().encode()
    elif path.suffix == ".parquet":
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            raise SettingError(
                "Parquet needs the package pyarrow: pip install 'pace-fgl[report]', or write a .csv"
            ) from None
        opened = io.BytesIO()
        parquet.write_table(pyarrow.table(table), opened)
        content = opened.getvalue()
    else:
        raise SettingError(f"--out is {path}, expected a name that ends in .csv or .parquet")
    atomic.write(path, content)
