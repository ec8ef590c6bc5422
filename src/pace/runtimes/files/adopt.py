"""A client's last step: apply the return once, choose alpha, keep the model."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

from pace.errors import FileError, RollError, SizeError
from pace.io import atomic, untrusted
from pace.jobs import roll as rolls
from pace.jobs import signatures
from pace.jobs.disclosure import received
from pace.jobs.explain import message_sizes
from pace.jobs.job import SERVER, Job
from pace.protocol import steps
from pace.registry import installed
from pace.runtimes.files.fit import LIBRARIES, upload_disclosure
from pace.runtimes.files.model import (
    KeptModel,
    SiteModel,
    is_model,
    read_kept,
    read_model,
    write_model,
)
from pace.runtimes.files.outcome import Outcome, mask_scores
from pace.runtimes.files.site import Site


def adopt_files(
    job: Job, site: Site, keep: Path, out: Path, *, returned: bytes, roll: bytes | None
) -> Outcome:
    """Apply a return to the kept model and write the folder `out`; asked again, the same answer.

    `keep` is what `fit_files` kept; `roll` is None to adopt without knowing who was in.
    """
    atomic.sweep(out)
    kept = read_kept(keep, job)
    if kept.about.graph != site.graph.fingerprint:
        raise FileError(
            f"{keep} was trained on another graph: adopt on the one it was trained on; for other "
            "graphs, `pace client predict` uses the model"
        )
    if not out.exists():
        model = _adopted(job, site, kept, returned, roll)
        write_model(out, model)
        return model.outcome
    if not is_model(out):
        raise FileError(f"{out} already exists and is not a model: choose another --out or move it")
    model = read_model(out)
    question = (job.digest, hashlib.sha256(returned).hexdigest(), kept.kept.upload.hex())
    if (model.job.digest, model.outcome.returned, model.outcome.upload) != question:
        raise FileError(f"{out} holds another model: choose another --out or move it")
    return model.outcome


def _adopted(
    job: Job, site: Site, kept: KeptModel, returned: bytes, roll: bytes | None
) -> SiteModel:
    """The model that a return makes of the kept one."""
    name, classes, graph = kept.about.name, job.model.classes, site.graph
    if len(returned) != return_size(job):
        raise SizeError(
            f"the return has {len(returned):,} bytes, expected exactly {return_size(job):,}"
        )
    frame, called = returned, None
    if job.signed:
        frame = signatures.verify(
            returned, job.keys[SERVER], kind=signatures.RETURN, job=job.digest, name=name
        )
    local, start = kept.kept.local, job.federation.start
    adoption = steps.adopt(graph, kept.kept, frame, job.federation)
    if roll is not None:
        called = rolls.check_roll(roll, job, name, upload=kept.frame, returned=returned)
    outcome = Outcome(
        job=job.digest,
        name=name,
        alpha=adoption.alpha,
        weights=tuple(adoption.weights),
        decision=_decision(adoption.alpha, bool(graph.val.any())),
        upload=kept.kept.upload.hex(),
        returned=hashlib.sha256(returned).hexdigest(),
        roll=called,
        received=tuple(
            received(external, local, start, job.features)
            for external in adoption.model.externals
            if external.predict is None  # one of another kind changes nothing of Local
        ),
        validation=mask_scores(adoption, graph, graph.val, mask="val", classes=classes),
        test=mask_scores(adoption, graph, graph.test, mask="test", classes=classes),
        trained_on=int(graph.train.sum()),
        drawn=site.drawn,
        sent=upload_disclosure(job, site, kept),
        adopted=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=installed(LIBRARIES),
    )
    return SiteModel(job, local, adoption.model.externals, outcome, kept.members)


def _decision(alpha: float, validated: bool) -> str:
    """What alpha means, in words."""
    if not validated:
        return "Local kept: without validation nodes there is nothing to decide by"
    if alpha == 0:
        return "Local kept: what came back does not help on the validation nodes"
    return "External admitted whole" if alpha == 1 else f"External admitted with weight {alpha:.2f}"


def return_size(job: Job) -> int:
    """Bytes of every return of a job."""
    sizes = message_sizes(job)
    return sizes.return_frame + sizes.signature


def read_roll(path: Path) -> bytes:
    """The roll's bytes, and no more than a roll can have."""
    try:
        return untrusted.read(path, rolls.LARGEST)
    except OSError as error:
        raise RollError(
            f"cannot read {path}: {error.strerror}; the server writes it beside the return, and it "
            "says whose uploads were merged"
        ) from error
