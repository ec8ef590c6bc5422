"""A client's two steps: train once and make the one upload; apply the return once, keep the model."""

import glob
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from unicodedata import normalize

from pace import errors, jobs, task
from pace.errors import FileError, SettingError
from pace.io import atomic, untrusted
from pace.jobs import UP, Job, signatures
from pace.protocol import Adoption, steps
from pace.registry import installed
from pace.runtimes.files import egress, sealed_jobs
from pace.runtimes.files import model as models
from pace.runtimes.files import outcome as outcomes
from pace.runtimes.files.model import KeptModel, SiteModel, read_kept
from pace.runtimes.files.site import Members, Site

LIBRARIES = ("pace-fgl", "torch", "numpy", "scipy")  # which may change the last digit of a number
APPEARED = "appeared while this ran, or is a link to nothing: move it, then run the command again"


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
    policy: egress.Policy | None = None,
    tell: Callable[[egress.Egress], object] = lambda report: None,
    confirm: Callable[[], bool] = lambda: True,
    by: str = "a program",
    progress: Callable[[int], None] | None = None,
) -> egress.Egress | None:
    """Train, unless an earlier run did; write Local, then the upload. The report on it, if it may leave.

    Killed in between, the upload is made from what was kept: one job never gets two uploads. Before it
    is written it is attacked; NAME.egress.html and .json beside `keep` are the record of what was sent.
    A `policy` may refuse it, by a PolicyError, or agree; otherwise, after `tell`, `confirm` is asked,
    `by` whom the site's log says. Where the answer is no, the result is None. With `editions` it may
    serve later editions.
    """
    name, private = identity(job, upload, key)
    if editions:
        jobs.editions.check_editions(job)
    sealer = private if job.sealed else None
    overlaps = sealed_jobs.check_overlap(sealer, job, agreed=overlapping) if sealer else []
    with atomic.held(keep.with_name(f".{keep.name}.lock"), f"another fit is at work on {keep}"):
        earlier = _earlier(job, site, name, keep=keep, upload=upload)
        kept = earlier or _train(job, site, name, sealer, device=device, progress=progress)
        content = kept.frame
        if private is not None:
            kind = jobs.editions.upload_kinds(job, name)[editions]
            content = signatures.sign(content, private, kind=kind, job=job.digest, name=name)
        if upload.exists() and not untrusted.same(upload, content):
            raise FileError(
                f"{upload} is another file, or was signed for another edition or without --editions: "
                "move it, then run the command again"
            )
        report = egress.earlier_egress(keep, name, job, content) or egress.measure_egress(
            job, site, kept, content, overlaps, device=device
        )
        report = egress.decide(
            report, job, policy, keep, editions=editions, tell=tell, ask=confirm, by=by
        )
        if not report.agreed:
            return None
        if sealer is not None:
            sealed_jobs.remember(sealer, job, kept.frame, agreed=overlapping)
        if earlier is None and not atomic.create(keep, kept.encode(job), private=True):
            raise FileError(f"{keep} {APPEARED}")
        sent = atomic.create(upload, content)
        if not sent and not (upload.exists() and untrusted.same(upload, content)):
            raise FileError(f"{upload} {APPEARED}")
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
                f"--upload is {upload.name}, and {name!r} is not among the job's participants: "
                f"{', '.join(job.participants[:12])}"
            )
        jobs.check_name(name, "the upload's name")
        return name, None
    if key is None:
        raise SettingError("this job's uploads are signed: give your private key with --key")
    private = signatures.load_key(key)
    public = signatures.public_key(private)
    if owner := next((name for name in job.participants if job.keys[name] == public), ""):
        return owner, private
    mark = signatures.fingerprint(public).hex()
    raise errors.SignatureError(f"{key} is key {mark}, which the job does not list")


def _train(job: Job, site: Site, name: str, key: signatures.Key | None, **how: Any) -> KeptModel:
    """Train from W_0. The upload is checked here as the server will check it."""
    if site.graph.has_edges and not (site.graph.train | site.graph.val | site.graph.test).any():
        raise errors.GraphError(
            "the graph has no labels: PACE learns classes of nodes, neither numbers nor links; "
            "import it with --label COLUMN"
        )
    began = time.perf_counter()
    seal = job.seal(name, key) if key else None
    kept, frame = steps.fit(site.graph, job.federation, seal=seal, **how)
    about = models.Trained(
        name=name,
        graph=site.graph.fingerprint,
        trained=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=round(time.perf_counter() - began, 3),
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
                f"{upload} exists without {keep}, the model that made it: restore {keep} or, if the "
                "upload was never sent, remove it"
            )
        return None
    earlier = _kept_of(site, keep, job)
    if earlier.about.name != name:
        raise FileError(f"{keep} belongs to {earlier.about.name!r}, you are {name!r}")
    return earlier


def _kept_of(site: Site, keep: Path, job: Job) -> KeptModel:
    """The kept model, if it was trained on the site's graph."""
    kept = read_kept(keep, job)
    if kept.about.graph != site.graph.fingerprint:
        raise FileError(
            f"{keep} was trained on another graph, and a job takes one upload a client: use the graph "
            "it was trained on (`pace client predict` takes others), or ask for a new job"
        )
    return kept


def adopt_files(
    job: Job,
    site: Site,
    keep: Path,
    out: Path,
    *,
    returned: bytes,
    roll: bytes | None,
    withdrawals: Sequence[Path] = (),
) -> outcomes.Outcome:
    """Apply a return to the kept model and write the folder `out`; asked again, the same answer.

    `keep` is what `fit_files` kept; `roll` is None to adopt without knowing who was in; `withdrawals`
    are files of those the site knows of. A model of an earlier edition is moved to OUT.edition-N.
    A folder with numbers that are no model's is made anew; the old one goes to OUT.replaced-N.
    """
    atomic.sweep(out)
    kept, aside, older = _kept_of(site, keep, job), None, None
    if out.exists():
        if not models.is_model(out):
            raise FileError(f"{out} already exists and is not a model: choose another --out")
        try:
            older = models.read_model(out).outcome
        except errors.NumberError:
            names = (out.with_name(f"{out.name}.replaced-{number}") for number in count(1))
            aside = next(path for path in names if not path.exists())
    if older is not None:
        question = (job.digest, signatures.sha256_of(returned), kept.kept.upload.hex())
        if (older.job, older.returned, older.upload) == question:
            return older
        before = older.edition
        later = roll is not None and jobs.roll.read_roll(roll, job, kept.about.name).number > before
        aside = out.with_name(f"{out.name}.edition-{before}")
        if older.job != job.digest or not later or aside.exists():
            raise FileError(f"{out} holds another model, of edition {before}: choose another --out")
    model = _adopted(known_job(job, out), site, kept, returned, roll, withdrawals=withdrawals)
    models.write_model(out, model, aside)
    return model.outcome


def withdraw_files(
    job: Job, keep: Path, out: Path, *, key: Path, reason: str = ""
) -> tuple[str, str]:
    """Sign that the upload of a kept model is withdrawn; who withdrew, and the upload's SHA-256."""
    jobs.editions.check_editions(job)
    kept = read_kept(keep, job)
    name, private = identity(job, Path(f"{kept.about.name}{UP}"), key)
    if name != kept.about.name:
        raise FileError(f"{keep} belongs to {kept.about.name!r}, you are {name!r}")
    assert private is not None  # a job with editions has keys
    now = datetime.now(UTC).isoformat(timespec="seconds")
    content = jobs.editions.withdraw(job, name, kept.frame, private, reason=reason, time=now)
    if not atomic.create(out, content):
        raise FileError(f"{out} already exists: send it, or choose another --out")
    return name, signatures.sha256_of(kept.frame)


def known_job(job: Job, out: Path) -> Job:
    """The job in the newest edition that a model here is of, also one that was moved aside."""
    folders = (out, *out.parent.glob(f"{glob.escape(out.name)}.edition-*"))
    outcomes = [models.read_outcome(folder) for folder in folders if models.is_model(folder)]
    editions = [one.roll.edition for one in outcomes if one.job == job.digest and one.roll]
    newest = max(filter(None, editions), key=lambda edition: edition.number, default=None)
    return jobs.editions.enrol(job, newest) if newest else job


def edition_changes(out: Path, outcome: outcomes.Outcome) -> list[str]:
    """What the models of earlier editions beside `out` differ in, for people; the last one first."""
    lines: list[str] = []
    edition = outcome.roll.edition if outcome.roll else None
    for number in range(outcome.edition - 1, 0, -1):
        path = out.with_name(f"{out.name}.edition-{number}")
        if not models.is_model(path):
            continue
        older = models.read_outcome(path)
        if not lines:
            lines.append(f"Edition {number} had α = {older.alpha:.2f}; it is kept as {path}.")
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
    name, graph = kept.about.name, site.graph
    frame, attended = returned, None
    if job.signed:
        number = 1 if roll is None else jobs.roll.read_roll(roll, job, name).number
        frame = jobs.editions.verify_return(returned, job, name, number)
    local, start = kept.kept.local, job.federation.start
    adoption = steps.adopt(graph, kept.kept, frame, job.federation)
    baseline = outcomes.baseline_logits(graph, job.model.classes)
    heat = outcomes.temperatures(adoption, graph, baseline)
    scored = partial(outcomes.mask_scores, adoption, graph, heat=heat, baseline=baseline)
    if roll is not None:
        messages = {"upload": kept.frame, "returned": returned}
        attended = jobs.roll.check_roll(roll, job, name, **messages, withdrawals=withdrawals)
    weighed = bool(graph.val.any())
    rehearsed = adoption.rehearsals and weighed
    outcome = outcomes.Outcome(
        job=job.digest,
        name=name,
        alpha=adoption.alpha,
        weights=tuple(adoption.weights),
        decision=_decision(adoption, weighed),
        upload=kept.kept.upload.hex(),
        returned=signatures.sha256_of(returned),
        roll=attended,
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
        rehearsed=outcomes.on_unseen(task.nll, adoption, graph) if rehearsed else {},
        drawn=site.drawn,
        adopted=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=installed(LIBRARIES),
    )
    externals = adoption.model.externals
    return SiteModel(job, local, externals, outcome, kept.members, mapping=site.mapping)


def _decision(adoption: Adoption, validated: bool) -> str:
    """What alpha means, in words."""
    if adoption.problem:
        return f"Local kept: {adoption.problem}"
    if not validated:
        return "Local kept: without validation nodes there is nothing to decide by"
    if adoption.alpha == 0:
        return "Local kept: what came back does not help on the validation nodes"
    return f"External admitted with weight {adoption.alpha:.2f}"
