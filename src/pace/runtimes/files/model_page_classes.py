"""The parts of a site's page that count its labelled nodes by class and by how sure the model is."""

from __future__ import annotations

from torch import Tensor

from pace.io.text import shown
from pace.jobs.disclosure import SMALL
from pace.jobs.job import Job
from pace.metrics import Bin, calibration_error, f1
from pace.reports import (
    Beside,
    Block,
    Change,
    Changes,
    Column,
    Confusion,
    Fold,
    Mark,
    Reliability,
    Section,
    Table,
    Text,
    Value,
)
from pace.runtimes.files.result import Counts, Result

COMPARED = {"local": "Local", "adopted": "Adopted"}
WHICH = {"test": "Test nodes", "val": "Validation nodes (there are no test nodes)"}
LARGEST = 60  # classes whose confusion matrix is shown


def chosen(result: Result) -> str:
    """The mask that is shown: test, or validation where nobody was held out; neither, no labels."""
    for mask in ("test", "val"):
        if mask in result.counts and int(result.counts[mask]["local"].confusion.sum()):
            return mask
    return ""


def sections(job: Job, result: Result, mask: str | None) -> list[Section]:
    if not mask:
        text = (
            "There are no labelled validation or test nodes at this site, so nothing was counted."
        )
        return [Section("By class", (Text(text),))]
    counts = {name: result.counts[mask][name] for name in COMPARED}
    names = tuple(map(shown, job.classes)) or tuple(
        f"class {label}" for label in range(job.model.classes)
    )
    return [
        Section("By class", tuple(_classes(names, counts, WHICH[mask]))),
        Section("Calibration", tuple(_calibration(counts, WHICH[mask]))),
        Section("Confusion matrix", tuple(_confusions(names, counts, WHICH[mask]))),
    ]


def _classes(names: tuple[str, ...], counts: dict[str, Counts], which: str) -> list[Block]:
    local, adopted = (counts[name].confusion for name in COMPARED)
    nodes = local.sum(1).tolist()
    present = [label for label in range(len(names)) if nodes[label]]
    recalls = [_ratio(each.diagonal(), each.sum(1)) for each in (local, adopted)]
    chart = Changes(
        f"Recall of each class, in percent. {which}",
        ("Class", COMPARED["local"], COMPARED["adopted"]),
        tuple(
            Change(f"{names[label]} ({nodes[label]:,})", recalls[0][label], recalls[1][label])
            for label in present
        ),
        note="In brackets: how many nodes truly are of the class.",
    )
    groups = {
        "Recall": recalls,
        "Precision": [_ratio(each.diagonal(), each.sum(0)) for each in (local, adopted)],
        "F1": [f1(each).tolist() for each in (local, adopted)],
    }
    columns = [Column("Class", numeric=False), Column("Nodes")]
    columns += [Column(name, group) for group in groups for name in COMPARED.values()]
    called = [each.sum(0).tolist() for each in (local, adopted)]
    rows = []
    for label, name in enumerate(names):
        known = {
            "Recall": [nodes[label]] * 2,
            "Precision": [each[label] for each in called],
            "F1": [nodes[label] + each[label] for each in called],
        }
        values = [
            _percent(score[label]) if of else Value("–", mark="absent")
            for group, scores in groups.items()
            for score, of in zip(scores, known[group], strict=True)
        ]
        rows.append((Value(name, name), Value(f"{nodes[label]:,}", nodes[label]), *values))
    few = [names[label] for label in present if nodes[label] < SMALL]
    note = (
        "Recall: of the nodes of a class, those called so. Precision: of the nodes called so, those of "
        "the class. – where there are none."
    )
    if few:
        note += f" Fewer than {SMALL} nodes, so their percentages say little: {', '.join(few)}."
    table = Table(f"By class, in percent. {which}", tuple(columns), tuple(rows), note)
    return [chart, table]


def _ratio(hits: Tensor, of: Tensor) -> list[float]:
    values: list[float] = (hits / of.clamp_min(1)).tolist()
    return values


def _percent(score: float) -> Value:
    return Value(f"{100 * score:.1f}", score)


def _calibration(counts: dict[str, Counts], which: str) -> list[Block]:
    diagrams = tuple(
        Reliability(
            f"{COMPARED[name]}: ECE {100 * calibration_error(each.bins):.1f} points",
            tuple(Mark(one.confidence, _accuracy(one), one.nodes) for one in each.bins),
        )
        for name, each in counts.items()
    )
    heads = [Column("How sure", numeric=False)]
    for name in COMPARED.values():
        heads += [Column(head, name) for head in ("Nodes", "Mean, in %", "Right, in %")]
    bins = len(next(iter(counts.values())).bins)
    rows = []
    for place in range(bins):
        values = [_bin(each.bins[place]) for each in counts.values()]
        label = f"{100 * place // bins} to {100 * (place + 1) // bins} %"
        rows.append((Value(label, place), *values[0], *values[1]))
    table = Table(f"{which}, by how sure the model is", tuple(heads), tuple(rows))
    return [
        Text(
            f"{which}. A bar shows how often the model is right among nodes it is about so sure of, "
            "the line across it how sure it is of them on average, and the number below how many "
            "they are. Line and bar end at the same height, on the broken line, if the "
            "probabilities are what they say. ECE is the mean distance of the two."
        ),
        Beside(diagrams),
        Fold("The numbers", (table,)),
    ]


def _accuracy(one: Bin) -> float:
    return one.hits / one.nodes if one.nodes else 0.0


def _bin(one: Bin) -> tuple[Value, Value, Value]:
    if not one.nodes:
        return Value("0", 0), Value("–", mark="absent"), Value("–", mark="absent")
    return Value(f"{one.nodes:,}", one.nodes), _percent(one.confidence), _percent(_accuracy(one))


def _confusions(names: tuple[str, ...], counts: dict[str, Counts], which: str) -> list[Block]:
    if len(names) > LARGEST:
        text = f"With {len(names)} classes a matrix is too large to read: result.json has it."
        return [Text(text)]
    matrices = tuple(
        Confusion(title, names, tuple(map(tuple, counts[name].confusion.tolist())))
        for name, title in COMPARED.items()
    )
    text = f"{which}. A row is a true class, a column what its nodes are called; outlined is right."
    return [Text(text), Beside(matrices)]
