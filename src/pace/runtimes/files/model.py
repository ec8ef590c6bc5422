"""What a site keeps: between the steps a file with Local and its upload, afterwards the model folder.

The folder holds local.safetensors (with salted hashes of whom it was trained on), external.safetensors
(external-2.safetensors and so on where a method returns more), model.json (the weights, how they came
about, and counts by class), job.pace, mapping.toml where the site's tables have one, README.md and
index.html for people. Neither tensors nor the JSON object beside them are trusted.
"""

import csv
import io
import json
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from pace import protocol
from pace.errors import FileError, NumberError, OtherJobError, SettingError
from pace.graph import Graph
from pace.io import atomic, records, shown, untrusted
from pace.jobs import Job, read_job, render_job
from pace.params import Params
from pace.protocol import AdoptedModel, Adoption, External, Kept, Message, layouts, steps, wire
from pace.reports import render_page
from pace.runtimes.files.model_page import model_card, model_document
from pace.runtimes.files.outcome import MODEL, MaskScores, Outcome, evaluate_mask, known_labels
from pace.runtimes.files.site import Members, Site, class_names
from pace.tables import ColumnMapping, arrow, read_columns
from pace.task import called

KEPT, PARAMS = "pace-kept-2", "pace-params-2"
MEMBERS = "members"  # the tensor of whom a model was trained on
ABOUT, PAGE, MAPPING = "model.json", "index.html", "mapping.toml"
WHAT = "`pace inspect` says what it is"
HEADER = 2**20  # bytes of the largest header of tensors
LARGEST = 2**30  # bytes of a file of tensors; the largest model and its upload take a third
LARGEST_JSON = 2**26  # bytes; counts of a thousand classes fit
Columns = dict[str, list[Any]]


@dataclass(frozen=True)
class Trained:
    """How a kept model came about."""

    name: str  # the participant
    graph: str  # the graph's fingerprint
    trained: str  # when, in UTC
    seconds: float


@dataclass(frozen=True, eq=False)
class KeptModel:
    """Local, the upload it made (so that sending again never means making again), and their origin."""

    kept: Kept
    frame: bytes  # the upload, without a signature
    message: Message  # what the frame holds
    about: Trained
    members: Members

    def encode(self, job: Job) -> bytes:
        about = {"format": KEPT, "job": job.digest, "upload": self.kept.upload.hex()}
        upload = torch.frombuffer(bytearray(self.frame), dtype=torch.uint8)
        values = {**self.kept.local, "upload": upload, MEMBERS: self.members.table}
        return encode_tensors(values, about | records.plain_record(self.about))


def read_kept(path: Path, job: Job) -> KeptModel:
    about, values = read_tensors(path, KEPT)
    if about.get("job") != job.digest:
        of = str(about.get("job"))[:16]
        raise OtherJobError(f"{path} belongs to job {of}, this is {job.digest[:16]}")
    local = _local(values, job, path)
    with records.reading(path, "incomplete", "restore it from a backup"):
        frame = values["upload"].numpy().tobytes()
        trained = records.read_record(Trained, about)
    message = steps.check_upload(frame, job.federation)
    members = Members.checked(values.get(MEMBERS), path)
    return KeptModel(Kept(local, wire.checksum(frame)), frame, message, trained, members)


@dataclass(frozen=True, eq=False)
class SiteModel:
    """Local and the Externals under one job, and what was decided about them."""

    job: Job
    local: Params
    externals: tuple[External, ...]
    outcome: Outcome
    members: Members
    mapping: ColumnMapping | None = None  # how this site's tables are read

    def __call__(self, graph: Graph) -> Adoption:
        """The logits of every node."""
        parts = self.local, self.externals, self.outcome.weights
        return AdoptedModel(self.job.federation, *parts).adoption(graph)

    def evaluate(self, site: Site, mask: str) -> MaskScores:
        """Scores on the nodes of a mask, by what each node was used for when the model was made."""
        return evaluate_mask(self(site.graph), site, mask, site.roles(self.members), self.outcome)


def write_model(folder: Path, model: SiteModel, aside: Path | None = None) -> None:
    """The folder, complete or not at all; one that is there is moved `aside`."""
    externals = [external.params for external in model.externals]
    parts, files = [{**model.local, MEMBERS: model.members.table}, *externals], {}
    for name, params in zip(_names(len(externals)), parts, strict=True):
        check_numbers(params, folder)
        about = {"format": PARAMS, "job": model.job.digest, "which": name}
        files[f"{name}.safetensors"] = encode_tensors(params, about)
    document = model_document(model.job, model.outcome)
    texts = {
        ABOUT: json.dumps(records.plain_record(model.outcome)) + "\n",
        "job.pace": render_job(model.job),
        "README.md": model_card(document),
        PAGE: render_page(document),
    }
    if model.mapping is not None:
        texts[MAPPING] = model.mapping.render()
    files |= {name: text.encode() for name, text in texts.items()}
    atomic.folder(folder, files, private=True, aside=aside)  # Local is in it


def is_model(folder: Path) -> bool:
    """Whether it looks like a model folder."""
    return (folder / ABOUT).is_file()


def read_outcome(folder: Path) -> Outcome:
    """What was decided about the model of a folder."""
    return records.load_record(Outcome, folder / ABOUT, LARGEST_JSON, MODEL)


def read_model(folder: Path) -> SiteModel:
    if not is_model(folder):
        raise FileError(f"{folder} is not a model: `pace client adopt` makes one")
    outcome = read_outcome(folder)
    job = read_job(folder / "job.pace")
    if job.digest != outcome.job:
        raise FileError(f"{folder} holds another job than its model's, {outcome.job[:16]}")
    blanks = layouts.blank_externals(job.federation)
    names, classes = _names(len(blanks)), job.model.classes
    if len(outcome.weights) != len(names) or outcome.validation.classes != classes:
        raise FileError(f"{folder}: model.json is of another job's models or classes: restore it")
    parts = []
    for name in names:
        path = folder / f"{name}.safetensors"
        about, values = read_tensors(path, PARAMS)
        if about.get("which") != name or about.get("job") != job.digest:
            raise FileError(f"{path} does not belong to this model: restore it")
        parts.append((values, path))
    values, path = parts[0]
    local, members = _local(values, job, path), Members.checked(values.get(MEMBERS), path)
    externals = [
        replace(blank, params=_parameters(*part, wire.layout(blank.params)), returned=None)
        for blank, part in zip(blanks, parts[1:], strict=True)
    ]
    path = folder / MAPPING
    mapping = read_columns(path, ColumnMapping) if path.exists() else None
    return SiteModel(job, local, tuple(externals), outcome, members, mapping=mapping)


def _local(values: Mapping[str, Tensor], job: Job, path: Path) -> Params:
    """Local's parameters: of the network, of a table of rows, or none where such a table brings them."""
    network, rows = layouts.local_layouts(job.federation)
    if rows and not set(network) & set(values):
        return _parameters(values, path, rows if set(rows) & set(values) else wire.Layout({}))
    return _parameters(values, path, network)


def _names(externals: int) -> list[str]:
    """What the files of Local and of the Externals are called."""
    return ["local", "external", *(f"external-{number}" for number in range(2, externals + 1))]


def encode_tensors(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> bytes:
    values = {name: value.contiguous() for name, value in tensors.items()}
    return save(values, {"pace": json.dumps(about)})


def read_tensors(path: Path, *versions: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What a file says about itself, and its tensors by name; refused if of another format."""
    with records.reading(path, "damaged, or another kind of file", WHAT):
        content = untrusted.read(path, LARGEST)
        about = untrusted.json(_header(content).get("__metadata__", {}).get("pace", "{}"))
        if about.get("format") not in versions:
            wrong = records.other_format(about.get("format"), versions[0], WHAT)
            raise FileError(f"{path} {wrong}")
        try:
            return about, dict(sorted(load(content).items()))
        except SafetensorError as error:
            raise ValueError(error) from error


def _header(content: bytes) -> dict[str, Any]:
    """The header, with what the library lets pass refused: its size, a name twice, other types."""
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > min(HEADER, len(content) - 8):
        raise ValueError("its header is cut short or too long")

    def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(names := dict(pairs)) < len(pairs):
            raise ValueError("a name occurs twice in its header")
        return names

    header = untrusted.json(content[8 : 8 + length], pairs=table)
    if not isinstance(header, dict):
        raise ValueError("its header is not a table of tensors")
    for name, entry in header.items():
        if name != "__metadata__" and entry.get("dtype") not in ("F32", "U8"):
            raise ValueError(f"tensor {name!r} has type {entry.get('dtype')!r}")
    return header


def _parameters(tensors: Mapping[str, Tensor], path: Path, expected: wire.Layout) -> Params:
    """The parameters among the tensors, exactly as the job's model has them."""
    params = {name: tensors[name] for name in expected if name in tensors}
    if (layout := wire.layout(params)) != dict(expected):
        raise FileError(f"{path} holds {wire.say(layout)}, the job's has {wire.say(expected)}")
    check_numbers(params, path)
    return params


def check_numbers(params: Params, path: Path) -> None:
    """Refuse numbers that no model has."""
    try:
        protocol.bounded(params)
    except NumberError as error:
        raise NumberError(f"{path}: {error}; restore it, or move it and adopt again") from error


def prediction_table(model: SiteModel, site: Site) -> Columns:
    """Of every node PACE's class and how sure it is, Local's beside it, the label that is known, what it
    was used for when the model was made (train, val, test, unlabelled; else new), every probability.
    """
    classes, adoption, rows = class_names(model.job), model(site.graph), slice(site.rows)
    chosen = (adoption.logits[rows].double() / model.outcome.temperature).softmax(1)
    local = (adoption.local[rows].double() / model.outcome.local_temperature).softmax(1)
    columns: Columns = {"node": list(site.nodes[rows])}
    for prefix, probabilities in (("", chosen), ("local_", local)):
        columns[f"{prefix}class"] = [classes[label] for label in called(probabilities).tolist()]
        columns[f"{prefix}probability"] = probabilities.max(1).values.round(decimals=6).tolist()
    columns["label"] = known_labels(site.graph, classes)[rows]
    columns["split"] = site.roles(model.members)[rows]
    every = zip(classes, chosen.round(decimals=6).T.tolist(), strict=True)
    return columns | {f"p_{name}": shares for name, shares in every}


def write_predictions(path: Path, tables: Iterable[Columns], *, replaces: bool = False) -> None:
    """CSV or, with the extra `report`, Parquet: the kind of table is in the file's name."""
    write = {".csv": _write_csv, ".parquet": _write_parquet}.get(path.suffix)
    if write is None:
        raise SettingError(f"--out is {path}, expected a name that ends in .csv or .parquet")
    if path.exists() and not replaces:
        raise FileError(f"{path} already exists: choose another name, or say --replace")
    with atomic.written(path) as file:
        write(file, tables)


def _write_csv(file: IO[bytes], tables: Iterable[Columns]) -> None:
    for number, table in enumerate(tables):
        text = io.StringIO(newline="")
        heads = [] if number else [table]
        for row in (*heads, *zip(*table.values(), strict=True)):  # no text becomes a formula
            cells = [shown(cell, "csv") if isinstance(cell, str) else cell for cell in row]
            csv.writer(text, lineterminator="\n").writerow(cells)
        file.write(text.getvalue().encode())


def _write_parquet(file: IO[bytes], tables: Iterable[Columns]) -> None:
    pyarrow = arrow()
    with ExitStack() as stack:
        writer = None
        for part in map(pyarrow.table, tables):
            writer = writer or stack.enter_context(pyarrow.parquet.ParquetWriter(file, part.schema))
            writer.write_table(part)
