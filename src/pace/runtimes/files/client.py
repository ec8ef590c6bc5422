"""A client's two steps: train once and make the one upload; apply the return once, keep the model."""

from __future__ import annotations

import glob
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from unicodedata import normalize

from pace import errors, jobs
from pace.errors import FileError, SettingError
from pace.io import atomic, untrusted
from pace.jobs import UP, Job, signatures
from pace.jobs import roll as rolls
from pace.models import RowTable
from pace.protocol import Adoption, steps
from pace.registry import installed
from pace.runtimes.files import egress, sealed_jobs
from pace.runtimes.files import model as models
from pace.runtimes.files import outcome as outcomes
from pace.runtimes.files.model import KeptModel, SiteModel, read_kept
from pace.runtimes.files.outcome import Outcome
from pace.runtimes.files.policy import Policy
from pace.runtimes.files.site import Members, Site
from pace.task import nll

LIBRARIES = ("pace-fgl", "torch", "numpy", "scipy")  # which may change the last digit of a number


def fit_files(
    job: Job,
    site: Site,
    keep: Path,
    upload: Path,
    *,
    key: Path | None = None,
    device: str = "cpu",
    overlapping: bool = False,
    editions: bool = False,
    policy: Policy | None = None,
    tell: Callable[[egress.Egress], object] = lambda report: None,
    confirm: Callable[[], bool] = lambda: True,
    by: str = "a program",
    progress: Callable[[int], None] | None = None,
) -> egress.Egress | None:
    """Train, unless an earlier run did; write Local, then the upload. The report on it, if it may leave.

    Killed in between, the upload is made from what was kept: one job never gets two uploads. Before it
    is written it is attacked; NAME.egress.html and .json beside `keep` have the result, and are the
    record of what was sent. A `policy` may refuse it or agree; otherwise, after `tell`, `confirm` is
    asked, `by` whom the site's log says. Where the answer is no, the result is None. With `editions` it
    is signed that the upload may serve later editions.

    Raises:
        PolicyError: a limit of the policy is passed.
    """
    name, private = identity(job, upload, key)
    if editions:
        jobs.editions.check_editions(job)
    overlaps = []
    if job.sealed and private is not None:
        overlaps = sealed_jobs.check_overlap(private, job, agreed=overlapping)
    with atomic.held(keep.with_name(f".{keep.name}.lock"), f"another fit is at work on {keep}"):
        earlier = _earlier(job, site, name, keep=keep, upload=upload)
        kept = earlier or _train(job, site, name, private, device=device, progress=progress)
        disclosed, content = upload_disclosure(job, site, kept), kept.frame
        disclosed = replace(disclosed, sentences=(*disclosed.sentences, *overlaps))
        if private is not None:
            kind = jobs.editions.upload_kinds(job, name)[editions]
            content = signatures.sign(content, private, kind=kind, job=job.digest, name=name)
        if upload.exists() and not untrusted.same(upload, content):
            raise FileError(
                f"{upload} is another file, or was signed for another edition or without --editions: "
                "move it, then run the command again"
            )
        report = egress.earlier_egress(keep, name, job, content) or egress.measure_egress(
            job, site, kept, content, disclosed, device=device
        )
        report = egress.decide(
            report, job, policy, keep, editions=editions, tell=tell, ask=confirm, by=by
        )
        if not report.agreed:
            return None
        if job.sealed and private is not None:
            sealed_jobs.remember(private, job, kept.frame, agreed=overlapping)
        if earlier is None and not atomic.create(keep, kept.encode(job), private=True):
            raise FileError(
                f"{keep} appeared while this ran, or is a link to nothing: look at it, then run the "
                "command again"
            )
        if not atomic.create(upload, content) and not (
            upload.exists() and untrusted.same(upload, content)
        ):
            raise FileError(
                f"{upload} appeared while this ran, or is a link to nothing: move it, then run the "
                "command again"
            )
    return report


def apart(files: Mapping[str, Path | None]) -> None:
    """No two files of a command may be one: a model would be sent in place of an upload."""
    seen: dict[Path, str] = {}
    for option, path in files.items():
        if path is not None and (other := seen.setdefault(path.resolve(), option)) != option:
            raise SettingError(f"{other} and {option} are both {path}: give each its own file")


def identity(job: Job, upload: Path, key: Path | None) -> tuple[str, signatures.Key | None]:
    """With keys, the participant whose key it is; without, the one the upload is named after."""
    if upload.suffix != UP:
        raise SettingError(f"--upload is {upload}, expected a name that ends in {UP}")
    if not job.signed:
        name = normalize("NFC", upload.stem)
        if job.participants and name not in job.participants:
            raise errors.ParticipantError(
                f"--upload is {upload.name}, and {name!r} is not among the job's participants "
                f"({', '.join(job.participants[:12])}): the server knows an upload by its file's "
                f"name, such as {job.participants[0]}.up"
            )
        jobs.check_name(name, "the upload's name")
        return name, None
    if key is None:
        raise SettingError("this job's uploads are signed: give your private key with --key")
    private = signatures.load_key(key)
    public = signatures.public_key(private)
    for name in job.participants:
        if job.keys[name] == public:
            return name, private
    raise errors.SignatureError(
        f"{key} is key {signatures.fingerprint(public).hex()}, which the job does not list"
    )


def upload_disclosure(job: Job, site: Site, kept: KeptModel) -> jobs.Disclosure:
    """What a kept model's upload tells, as the site was told before it was sent."""
    return jobs.disclosure.disclosure(
        kept.message,
        job.federation,
        signature=signatures.TRAILER if job.signed else 0,
        graph=site.graph,
        features=job.features,
        classes=job.classes,
    )


def _train(
    job: Job, site: Site, name: str, key: signatures.Key | None, **options: Any
) -> KeptModel:
    """Train from W_0. The upload is checked here as the server will check it."""
    if site.graph.has_edges and not (site.graph.train | site.graph.val | site.graph.test).any():
        raise errors.GraphError(
            "the graph has no labels: PACE learns classes of nodes, neither numbers nor links; "
            "import it with --label COLUMN"
        )
    began = time.perf_counter()
    seal = job.seal(name, key) if job.sealed and key else None
    if not site.graph.has_edges:
        assert isinstance(site.graph, RowTable)
        kept, frame = steps.fit_rows(site.graph, job.federation, seal)
    else:
        kept, frame = steps.fit(site.graph, job.federation, seal=seal, **options)
    about = models.Trained(
        name=name,
        graph=site.graph.fingerprint,
        trained=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=round(time.perf_counter() - began, 3),
        device=options["device"],
        versions=installed(LIBRARIES),
    )
    message = steps.check_upload(frame, job.federation)
    return KeptModel(kept, frame, message, about, Members.of(site.graph, site.nodes))


def _earlier(job: Job, site: Site, name: str, *, keep: Path, upload: Path) -> KeptModel | None:
    """What an earlier run of this job kept."""
    for path in (keep, upload, *egress.egress_files(keep, name)):
        atomic.sweep(path)
    if not keep.exists():
        if upload.exists():
            raise FileError(
                f"{upload} exists, but {keep}, the model that made it, was not found: restore {keep} "
                f"or, if the upload was never sent, remove it"
            )
        return None
    earlier = read_kept(keep, job)
    if earlier.about.name != name:
        raise FileError(f"{keep} belongs to {earlier.about.name!r}, you are {name!r}")
    if earlier.about.graph != site.graph.fingerprint:
        raise FileError(
            f"{keep} was trained on another graph, and a job takes one upload a client: use the "
            "graph it was trained on, or ask for a new job"
        )
    return earlier


def adopt_files(
    job: Job,
    site: Site,
    keep: Path,
    out: Path,
    *,
    returned: bytes,
    roll: bytes | None,
    withdrawals: Sequence[Path] = (),
) -> Outcome:
    """Apply a return to the kept model and write the folder `out`; asked again, the same answer.

    `keep` is what `fit_files` kept; `roll` is None to adopt without knowing who was in; `withdrawals`
    are files of those the site knows of. A model of an earlier edition is moved to OUT.edition-N.
    A folder with numbers that are no model's is made anew; the old one goes to OUT.replaced-N.
    """
    atomic.sweep(out)
    kept = read_kept(keep, job)
    if kept.about.graph != site.graph.fingerprint:
        raise FileError(
            f"{keep} was trained on another graph: adopt on the one it was trained on; for other "
            "graphs, `pace client predict` uses the model"
        )
    aside = None
    if out.exists():
        if not models.is_model(out):
            raise FileError(
                f"{out} already exists and is not a model: choose another --out or move it"
            )
        try:
            older = models.read_model(out).outcome
        except (
            errors.NumberError
        ):  # an older version wrote what came back whatever it was: make it anew
            names = (out.with_name(f"{out.name}.replaced-{number}") for number in count(1))
            aside = next(path for path in names if not path.exists())
        else:
            question = (job.digest, hashlib.sha256(returned).hexdigest(), kept.kept.upload.hex())
            if (older.job, older.returned, older.upload) == question:
                return older
            before = older.edition
            later = roll is not None and rolls.read_roll(roll, job, kept.about.name).number > before
            aside = _of_edition(out, before)
            if older.job != job.digest or not later or aside.exists():
                raise FileError(
                    f"{out} holds another model, of edition {before}: choose another --out or move it"
                )
    known = known_job(job, out)
    model = _adopted(known, site, kept, returned, roll, withdrawals=withdrawals)
    models.write_model(out, model, aside)
    return model.outcome


def withdraw_files(
    job: Job, keep: Path, out: Path, *, key: Path, reason: str = ""
) -> tuple[str, str]:
    """Sign that the upload of a kept model is withdrawn; who withdrew, and the upload's SHA-256."""
    kept = read_kept(keep, job)
    name, private = identity(job, Path(f"{kept.about.name}{UP}"), key)
    if name != kept.about.name or private is None:
        raise FileError(f"{keep} belongs to {kept.about.name!r}, you are {name!r}")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    content = jobs.editions.withdraw(job, name, kept.frame, private, reason=reason, time=now)
    if not atomic.create(out, content):
        raise FileError(f"{out} already exists: send it, or choose another --out")
    return name, hashlib.sha256(kept.frame).hexdigest()


def _of_edition(out: Path, number: int) -> Path:
    """Where the model of an earlier edition is kept."""
    return out.with_name(f"{out.name}.edition-{number}")


def known_job(job: Job, out: Path) -> Job:
    """The job in the newest edition that a model here is of: what comes has to follow that one.

    Also after the older model was moved away and the command killed before the new one was there.
    """
    folders = (out, *out.parent.glob(f"{glob.escape(out.name)}.edition-*"))
    outcomes = [models.read_outcome(folder) for folder in folders if models.is_model(folder)]
    told = [one.roll.edition for one in outcomes if one.job == job.digest and one.roll]
    editions = [edition for edition in told if edition is not None]
    return jobs.editions.enrol(job, max(editions, key=lambda one: one.number)) if editions else job


def edition_changes(out: Path, outcome: Outcome) -> list[str]:
    """What the models of earlier editions beside `out` differ in, for people; the last one first."""
    lines: list[str] = []
    edition = outcome.roll.edition if outcome.roll else None
    for number in range(outcome.edition - 1, 0, -1):
        path = _of_edition(out, number)
        if not models.is_model(path):
            continue
        older = models.read_outcome(path)
        if not lines:
            nll = (older.validation.adopted.nll, outcome.validation.adopted.nll)
            scores = "" if None in nll else f", validation NLL {nll[0]:.4f} and now {nll[1]:.4f}"
            lines.append(
                f"Edition {number} had α = {older.alpha:.2f}{scores}; it is kept as {path}."
            )
        merged = set(older.roll.merged) if older.roll else set()
        if edition and (gone := sorted(merged & edition.left.keys())):
            lines.append(f"{path} still holds the part of {', '.join(gone)}, who left: delete it.")
    return lines


def _adopted(
    job: Job,
    site: Site,
    kept: KeptModel,
    returned: bytes,
    roll: bytes | None,
    *,
    withdrawals: Sequence[Path],
) -> SiteModel:
    """The model that a return makes of the kept one."""
    name, classes, graph = kept.about.name, job.model.classes, site.graph
    frame, called = returned, None
    if job.signed:
        number = 1 if roll is None else rolls.read_roll(roll, job, name).number
        frame = jobs.editions.verify_return(returned, job, name, number)
    local, start = kept.kept.local, job.federation.start
    adoption = steps.adopt(graph, kept.kept, frame, job.federation)
    baseline = outcomes.baseline_logits(graph, classes)
    heat = outcomes.temperatures(adoption, graph, baseline)
    scored = partial(
        outcomes.mask_scores, adoption, graph, classes=classes, heat=heat, baseline=baseline
    )
    if roll is not None:
        called = rolls.check_roll(
            roll, job, name, upload=kept.frame, returned=returned, withdrawals=withdrawals
        )
    weighed = bool(graph.val.any())
    outcome = Outcome(
        job=job.digest,
        name=name,
        alpha=adoption.alpha,
        weights=tuple(adoption.weights),
        decision=_decision(adoption, weighed),
        upload=kept.kept.upload.hex(),
        returned=hashlib.sha256(returned).hexdigest(),
        roll=called,
        noticed=tuple(
            sentence
            for external in adoption.model.externals
            if external.predict is None  # one of another kind changes nothing of Local
            for sentence in jobs.disclosure.noticed(external, local, start, job.features)
        ),
        validation=scored(graph.val, mask="val"),
        test=scored(graph.test, mask="test"),
        temperature=heat["adopted"],
        local_temperature=heat["local"],
        rehearsed=outcomes.on_unseen(nll, adoption, graph)
        if adoption.rehearsals and weighed
        else {},
        trained_on=int(graph.training_counts(classes).sum()),
        drawn=site.drawn,
        sent=upload_disclosure(job, site, kept),
        adopted=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=installed(LIBRARIES),
    )
    return SiteModel(
        job, local, adoption.model.externals, outcome, kept.members, mapping=site.mapping
    )


def _decision(adoption: Adoption, validated: bool) -> str:
    """What alpha means, in words."""
    alpha = adoption.alpha
    if adoption.problem:
        return f"Local kept: {adoption.problem}"
    if not validated:
        return "Local kept: without validation nodes there is nothing to decide by"
    if alpha == 0:
        return "Local kept: what came back does not help on the validation nodes"
    return "External admitted whole" if alpha == 1 else f"External admitted with weight {alpha:.2f}"
