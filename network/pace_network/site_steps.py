"""A node's two steps, as in the file runtime: make the one upload, adopt the one return.

    FOLDER/JOB/local          the Local model and the upload's frame; never sent
    FOLDER/JOB/NAME.up        the upload, sent again whenever it is asked for
    FOLDER/JOB/NAME.down      the return that was applied
    FOLDER/JOB/NAME.roll      who was in, as the server says
    FOLDER/JOB/model/         the adopted model
    FOLDER/JOB/edition-N/     upload, return and roll of a later edition
    FOLDER/JOB/NAME.egress.*  what was made for sending, what attacks learn from it, and who agreed

Every file is whole or absent, so a step that was killed is simply asked for again.

A step runs in a child process, forked from one that has loaded torch (multiprocessing's fork server): of
a node's two steps only the first waits for that. Nothing of one step is left for the next, and a step
that hangs is killed alone. The node's own process never loads torch, so imports are inside the steps.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from pace.errors import FormatError, OtherJobError, PaceError
from pace.io import atomic, plugins
from pace_network.exchange import OK, RETURN, TOO_SLOW, UPLOAD, Words, code_of, known_words, log
from pace_network.node import Node

if TYPE_CHECKING:
    from pace.jobs import Job

LOCAL, MODEL = "local", "model"
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["pace.runtimes.files"])


def respond(node: Node, kind: str, words: Words) -> Words:
    """A node's reply to a message, made in a child process within the node's limit. It raises nothing.

    What the server may choose is the job it names, and nothing else.
    """
    receiver, sender = PROCESSES.Pipe(duplex=False)
    child = PROCESSES.Process(target=_step, args=(sender, node, kind, words), daemon=True)
    try:
        child.start()
        sender.close()  # the child has its own: if that closes too, the child is gone
        if receiver.poll(node.limit):
            reply: Words = receiver.recv()
            return reply
        log(f"the {kind} took more than {node.limit:.0f} s and was ended")
        return {"code": TOO_SLOW}
    except Exception as error:
        return {"code": code_of(error)}
    finally:
        receiver.close()
        if child.pid is not None:
            child.kill()
            child.join()


def _step(sender: Connection, node: Node, kind: str, words: Words) -> None:
    """The child: one step, which ends with the process that asked for it."""
    import torch

    def end_with_parent() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    torch.set_num_threads(1)  # two threads on small products are slower than one
    sender.send(answer_message(node, kind, words))


def answer_message(node: Node, kind: str, words: Mapping[str, object]) -> Words:
    """The upload, or nothing once the return is applied; else a code. It raises nothing."""
    began, known = time.perf_counter(), known_words(words)
    digest, returned = known.get("job", ""), known.get("payload", b"")
    try:
        with plugins.allowing(node.allow):
            if kind == UPLOAD:
                log(f"{node.name}: asked for the upload of job {digest[:16]}")
                upload = make_upload(node, digest).read_bytes()
                seconds = time.perf_counter() - began
                log(f"{node.name}: upload sent, {len(upload):,} bytes, after {seconds:.1f} s")
                return {"code": OK, "name": node.name, "payload": upload}
            if kind == RETURN:
                log(f"{node.name}: the return of job {digest[:16]} came, {len(returned):,} bytes")
                adopt_return(node, digest, returned, known.get("roll", b""))
                log(f"{node.name}: confirmed, after {time.perf_counter() - began:.1f} s")
                return {}
        raise FormatError(f"a message is {kind[:64]!r}, expected {UPLOAD} or {RETURN}")
    except Exception as error:
        return {"code": code_of(error)}


def make_upload(node: Node, digest: str) -> Path:
    """The upload's file; trained for if it is not there yet."""
    from pace.jobs import UP
    from pace.runtimes.files import fit_files, load_site, read_policy

    job = agreed_job(node, digest)
    folder = node.job_folder(job.digest)
    upload = edition_folder(folder, job.number) / f"{node.name}{UP}"
    node.check(job)
    upload.parent.mkdir(parents=True, exist_ok=True)
    fit_files(
        job,
        load_site(node.graph, job),
        folder / LOCAL,
        upload,
        key=node.key,
        device=node.device,
        overlapping=node.overlapping,
        editions=node.editions and job.signed and not job.sealed,
        policy=read_policy(node.policy),
        by="the operator, who put this job into node.toml",
    )
    return upload


def adopt_return(node: Node, digest: str, returned: bytes, roll: bytes) -> Path:
    """The model folder. A return that is refused leaves no trace; one that was applied stays."""
    from pace.jobs import DOWN, ROLL_SUFFIX, WITHDRAWAL_SUFFIX, files_of_job, roll_sentences
    from pace.runtimes.files import adopt_files, edition_changes, load_site

    job = agreed_job(node, digest)
    folder = node.job_folder(job.digest)
    site = load_site(node.graph, job)
    withdrawals = files_of_job(job, node.jobs, WITHDRAWAL_SUFFIX)
    paths = (folder / LOCAL, folder / MODEL)
    outcome = adopt_files(job, site, *paths, returned=returned, roll=roll, withdrawals=withdrawals)
    for suffix, payload in ((DOWN, returned), (ROLL_SUFFIX, roll)):
        place = edition_folder(folder, outcome.edition)
        atomic.create(place / f"{node.name}{suffix}", payload)
    sentences = [*roll_sentences(outcome.roll, job), *edition_changes(folder / MODEL, outcome)]
    for sentence in (f"{outcome.decision}.", *sentences):
        log(f"{node.name}: {sentence}")
    return folder / MODEL


def edition_folder(folder: Path, number: int) -> Path:
    """Where the messages of an edition are: the first one's beside the model."""
    return folder if number == 1 else folder / f"edition-{number}"


def agreed_job(node: Node, digest: str) -> Job:
    """The node's own copy of the job that the server names, in the newest edition that is here."""
    from pace.jobs import newest_edition, read_job

    agreed = []
    for path in node.job_files():
        try:
            job = read_job(path)
        except PaceError:
            if path == node.job:
                raise
            continue  # `check.sh` names it; it keeps no other job from its round
        if job.digest == digest:
            return newest_edition(job, node.jobs)
        agreed.append(job.digest[:16])
    raise OtherJobError(
        f"the server runs job {digest[:16]!r}, this node agreed to {', '.join(agreed)}: get the same "
        f"job file and put it into {node.jobs}, if this site agrees to it"
    )
