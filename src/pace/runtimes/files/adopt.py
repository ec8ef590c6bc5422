"""A client's last step over files: apply the return once, choose alpha, write the model folder."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

from pace.errors import FileError, RollError, SizeError
from pace.io import atomic, regular
from pace.jobs import roll as rolls
from pace.jobs import signatures
from pace.jobs.job import SERVER, Job
from pace.jobs.received import received
from pace.protocol import steps, wire
from pace.runtimes.files import kept as kept_file
from pace.runtimes.files import model
from pace.runtimes.files.evaluate import counts, scores
from pace.runtimes.files.fit import versions
from pace.runtimes.files.outcome import Outcome
from pace.runtimes.files.result import Result, sent
from pace.runtimes.files.site import Site


def adopt(
    job: Job, site: Site, *, kept: Path, returned: Path, roll: Path | None, out: Path
) -> Outcome:
    """What was decided, also written to the folder `out`; asked again, the same answer.

    Args:
        kept: what `fit` kept.
        returned: the server's return.
        roll: the list of who was in that came with it; None: adopt without knowing.
        out: the model folder.
    """
    atomic.sweep(out)
    mine = kept_file.read(kept, job)
    if mine.about.graph != site.graph.fingerprint:
        raise FileError(
            f"{kept} was trained on another graph: adopt on the one it was trained on; for other "
            "graphs, `pace client predict` uses the model"
        )
    content = _content(returned, job)
    sha256 = hashlib.sha256(content).hexdigest()
    if out.exists():
        return _again(out, job, sha256, mine.kept.upload.hex())
    frame = content
    if job.signed:
        frame = signatures.verify(
            content,
            job.keys[SERVER],
            kind=signatures.RETURN,
            job=job.digest,
            name=mine.about.name,
        )
    local, federation = mine.kept.local, job.federation
    returned_models = steps.externals(site.graph, mine.kept, frame, federation)
    externals = steps.supported(site.graph, local, returned_models, federation)
    told = None
    if roll is not None:
        name = mine.about.name
        called = rolls.check(_roll(roll), job, name, upload=mine.frame, returned=content)
        told = rolls.RollFacts.of(called, job)
    adoption = steps.calibrated(site.graph, local, externals, federation)
    classes = job.model.classes
    about = Outcome(
        name=mine.about.name,
        alpha=adoption.alpha,
        weights=tuple(adoption.weights),
        decision=decision(adoption.alpha, int(site.graph.val.sum())),
        upload=mine.kept.upload.hex(),
        returned=sha256,
        roll=told,
        received=tuple(
            received(as_returned, used, local, federation.start, job.features)
            for as_returned, used in zip(returned_models, externals, strict=True)
            if as_returned.keys() == local.keys()  # one of another kind changes nothing of Local
        ),
        validation=scores(adoption, site.graph, "val", classes),
        test=scores(adoption, site.graph, "test", classes),
        adopted=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=versions(),
    )
    result = Result(
        {mask: counts(adoption, site.graph, mask, classes) for mask in ("val", "test")},
        int(site.graph.train.sum()),
        site.drawn,
        sent(job, site, mine.frame, len(content)),
    )
    made = model.Model(job, local, externals, adoption.weights, about, mine.members, result)
    model.write(out, made)
    return about


def decision(alpha: float, validation: int) -> str:
    """What alpha means, in words."""
    if not validation:
        return "Local kept: without validation nodes there is nothing to decide by"
    if alpha == 0:
        return "Local kept: what came back does not help on the validation nodes"
    if alpha == 1:
        return "External admitted whole"
    return f"External admitted with weight {alpha:.2f}"


def _content(path: Path, job: Job) -> bytes:
    """The return's bytes, if they can be one: its size is known beforehand."""
    expected = wire.size(steps.return_layout(job.federation))
    expected += signatures.TRAILER if job.signed else 0
    try:
        with regular.open_regular(path) as opened:
            size = regular.size_of(opened)
            if size != expected:
                raise SizeError(f"{path} has {size:,} bytes, a return of this job {expected:,}")
            return opened.read(expected)
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}") from error


def _roll(path: Path) -> bytes:
    """The roll's bytes, and no more than a roll can have."""
    try:
        return regular.read(path, rolls.LARGEST)
    except OSError as error:
        raise RollError(
            f"cannot read {path}: {error.strerror}; the server writes it beside the return, and it "
            "says whose uploads were merged"
        ) from error


def _again(out: Path, job: Job, sha256: str, upload: str) -> Outcome:
    """The answer of an earlier run, if it was to the same question."""
    if not model.is_one(out):
        raise FileError(f"{out} already exists and is not a model: choose another --out or move it")
    found = model.read(out)
    asked, answered = (job.digest, sha256, upload), found.about
    if (found.job.digest, answered.returned, answered.upload) != asked or not answered.complete:
        raise FileError(f"{out} holds another model: choose another --out or move it")
    return found.about
