"""A federation in the world: its file, keys, participants, disclosure and the server's journal."""

from pace.jobs import disclosure, editions, explain, job, roll, signatures
from pace.jobs.admission import admit, exact_size
from pace.jobs.disclosure import SMALL, Brought, Disclosure, Influence, Item, influence
from pace.jobs.editions import WITHDRAWAL_SUFFIX, files_of_job, newest_edition, read_edition
from pace.jobs.explain import MessageSizes, check_promise, message_sizes
from pace.jobs.job import JOB_SUFFIX, SERVER, Job, check_name, read_job, render_job, write_job
from pace.jobs.journal import DOWN, UP, Journal, Refusal, newest_job
from pace.jobs.roll import LARGEST, ROLL_SUFFIX, Roll, roll_sentences, roll_writer
from pace.jobs.signatures import ephemeral_seals
