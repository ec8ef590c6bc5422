"""A node's two steps, as in the file runtime: make the one upload, adopt the one return.

    FOLDER/JOB/local          the Local model and the upload's frame; never sent
    FOLDER/JOB/NAME.up        the upload, sent again whenever it is asked for
    FOLDER/JOB/NAME.down      the return that was applied
    FOLDER/JOB/NAME.roll      who was in, as the server says
    FOLDER/JOB/model/         the adopted model
    FOLDER/JOB/receipt.json   what was made for sending

Every file is whole or absent, so a step that was killed is simply asked for again.
"""

from __future__ import annotations

from pathlib import Path

from pace.errors import OtherJobError, ParticipantError
from pace.io import atomic, plugins
from pace.jobs.job import Job
from pace.jobs.job_file import read_job
from pace.jobs.journal import DOWN, UP
from pace.jobs.roll import ROLL_SUFFIX, roll_sentences
from pace.runtimes.files.adopt import adopt_files
from pace.runtimes.files.fit import FitFiles, fit_files, identity
from pace.runtimes.files.site import load_site
from pace.runtimes.network.codes import log
from pace.runtimes.network.node import Node

LOCAL, MODEL, RECEIPT = "local", "model", "receipt.json"


def upload(node: Node, digest: str) -> Path:
    """The upload's file; trained for if it is not there yet."""
    with plugins.allowing(node.allow):
        return _upload(node, agreed(node, digest))


def adopt(node: Node, digest: str, returned: bytes, roll: bytes) -> Path:
    """The model folder. A return that is refused leaves no trace; one that was applied stays."""
    with plugins.allowing(node.allow):
        return _adopt(node, agreed(node, digest), returned, roll)


def _upload(node: Node, job: Job) -> Path:
    place = node.place(job.digest)
    sent = place / f"{node.name}{UP}"
    who = identity(job, sent, node.key)
    if who.name != node.name:
        raise ParticipantError(f"{node.key} is the key of {who.name!r}, this is {node.name!r}")
    fit_files(
        job,
        load_site(node.graph, job),
        FitFiles(place / LOCAL, sent, place / RECEIPT),
        key=node.key,
        device=node.device,
        overlapping=node.overlapping,
    )
    return sent


def _adopt(node: Node, job: Job, returned: bytes, roll: bytes) -> Path:
    place = node.place(job.digest)
    site = load_site(node.graph, job)
    outcome = adopt_files(job, site, place / LOCAL, place / MODEL, returned=returned, roll=roll)
    for suffix, content in ((DOWN, returned), (ROLL_SUFFIX, roll)):
        atomic.create(place / f"{node.name}{suffix}", content)
    for sentence in (f"{outcome.decision}.", *roll_sentences(outcome.roll)):
        log(f"{node.name}: {sentence}")
    return place / MODEL


def agreed(node: Node, digest: str) -> Job:
    """The node's own copy of the job, which must be the one that the server names."""
    job = read_job(node.job)
    if job.digest != digest:
        raise OtherJobError(
            f"the server runs job {digest[:16]!r}, this node agreed to {job.digest[:16]}: "
            "get the same job file, or start the node with another"
        )
    return job
