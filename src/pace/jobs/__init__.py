"""A federation in the world: its file, keys, participants, disclosure and the server's journal."""

from pace.jobs import explain, roll, signatures
from pace.jobs.admission import admit, evidence_of, exact_size
from pace.jobs.disclosure import (
    SMALL,
    Brought,
    Disclosure,
    brought,
    disclosure,
    influence,
    noticed,
)
from pace.jobs.editions import (
    EDITION_SUFFIX,
    WITHDRAWAL_SUFFIX,
    Leaver,
    check_editions,
    enrol,
    files_of_job,
    newest_edition,
    next_edition,
    read_edition,
    read_withdrawal,
    signed_as,
    upload_kinds,
    verify_return,
    withdraw,
)
from pace.jobs.explain import MessageSizes, advice, check_promise, message_sizes
from pace.jobs.job import (
    FORMAT,
    JOB_SUFFIX,
    SERVER,
    Job,
    check_name,
    read_job,
    render_job,
    write_job,
)
from pace.jobs.journal import DOWN, UP, Journal, Refusal, newest_job
from pace.jobs.roll import LARGEST, ROLL_SUFFIX, Attendance, Roll, roll_sentences
from pace.jobs.signatures import ephemeral_seals
