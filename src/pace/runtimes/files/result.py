"""What a site's page is made of besides the scores: counts by class, calibration, what left the site.

It lies in the model folder as result.json. There are counts and sums in it, never a node.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pace.errors import FileError
from pace.io import regular, untrusted
from pace.jobs.disclosure import disclosure, revealed
from pace.jobs.job import Job
from pace.jobs.signatures import TRAILER
from pace.metrics import Bin
from pace.protocol.steps import check_upload
from pace.runtimes.files.site import Site

FILE = "result.json"
FORMAT = "pace-result-1"
LARGEST = 2**26  # bytes; a thousand classes fit


@dataclass(frozen=True, eq=False)
class Counts:
    """How one reading does on the nodes of a mask."""

    confusion: Tensor
    """Counts[t, p]: nodes of class t that were called p."""
    bins: tuple[Bin, ...]
    """Its calibration."""


@dataclass(frozen=True)
class Sent:
    """The upload: its bytes, its tensors in plain words, and what they tell."""

    bytes: int
    dense: int
    """Bytes of the model sent whole."""
    returned: int
    """Bytes of what came back."""
    tensors: tuple[tuple[str, str, int], ...]
    """Name, what it is, bytes."""
    sentences: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Result:
    """What a site finds out when it adopts."""

    counts: Mapping[str, Mapping[str, Counts]]
    """By mask, `val` and `test`, and by reading."""
    trained_on: int
    """Nodes with a label that Local was trained on; they are counted nowhere else."""
    drawn: tuple[float, ...] | None
    """The shares of train, val and test, where the site's table had no split of its own."""
    sent: Sent

    def encode(self) -> bytes:
        counts = {
            mask: {
                name: {
                    "confusion": each.confusion.tolist(),
                    "bins": [[one.nodes, one.hits, one.confidence] for one in each.bins],
                }
                for name, each in readings.items()
            }
            for mask, readings in self.counts.items()
        }
        content = {
            "format": FORMAT,
            "counts": counts,
            "trained_on": self.trained_on,
            "drawn": self.drawn,
            "sent": asdict(self.sent),
        }
        return (json.dumps(content) + "\n").encode()


def sent(job: Job, site: Site, frame: bytes, returned: int) -> Sent:
    """What the upload's frame tells, as the site was told before it was sent."""
    trailer = TRAILER if job.signed else 0
    message = check_upload(frame, job.federation)
    told = disclosure(message, job.federation, trailer, site.graph)
    return Sent(
        told.frame + told.signature,
        told.dense,
        returned,
        tuple((item.name, item.words, item.bytes) for item in told.items),
        tuple(revealed(told, job.features, job.classes)),
    )


def read(folder: Path, job: Job) -> Result | None:
    """None where a folder was made before models kept it."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        found = untrusted.json(regular.read(path, LARGEST))
        if found["format"] != FORMAT:
            raise ValueError(f"format {found['format']!r}")
        return Result(
            {
                mask: {name: _counts(each, job.model.classes) for name, each in readings.items()}
                for mask, readings in found["counts"].items()
            },
            int(found["trained_on"]),
            None if found["drawn"] is None else tuple(map(float, found["drawn"])),
            _sent(found["sent"]),
        )
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RuntimeError,
        ArithmeticError,
    ) as error:
        raise FileError(f"{path} is damaged ({error!r}): restore it, or remove it") from error


def _counts(found: Mapping[str, Any], classes: int) -> Counts:
    confusion = torch.tensor(found["confusion"], dtype=torch.int64)
    if confusion.shape != (classes, classes) or (confusion < 0).any():
        raise ValueError(f"a confusion matrix is not of {classes} classes")
    bins = tuple(Bin(int(nodes), int(hits), float(mean)) for nodes, hits, mean in found["bins"])
    if sum(each.nodes for each in bins) != int(confusion.sum()):
        raise ValueError("calibration and confusion are of different nodes")
    return Counts(confusion, bins)


def _sent(found: Mapping[str, Any]) -> Sent:
    tensors = tuple((str(name), str(words), int(size)) for name, words, size in found["tensors"])
    sizes = {key: int(found[key]) for key in ("bytes", "dense", "returned")}
    return Sent(**sizes, tensors=tensors, sentences=tuple(map(str, found["sentences"])))
