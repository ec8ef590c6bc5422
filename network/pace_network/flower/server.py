"""One round over Flower: a run is started at the SuperLink and carried out in this process."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import ClassVar

import httpx
from flwr.app import Message
from flwr.common.constant import SubStatus
from flwr.common.serde import run_from_proto
from flwr.proto.runtime_pb2 import PullTaskInputRequest, PushTaskOutputRequest
from flwr.serverapp import Grid
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid

from pace.errors import PaceError
from pace_network.exchange import FlowerError, Reply, Words
from pace_network.flower.control import Control, Run
from pace_network.flower.tasks import LOOK, QUERY, Runtime, pack, unpack
from pace_network.progress import Event
from pace_network.round import RoundReport, Settings, round_sentences, run_round

FINAL = (1, 2, 6, 7)  # Flower's errors that asking again does not mend: nothing can run there
STARTS = 60.0  # seconds until a run that was started has its task
OUTAGE = 30.0  # seconds without the SuperLink after which a run is given up
ORPHANED = 60.0  # seconds for an earlier run of the job, until it has given up
LATE = 600.0  # seconds that a reply may come after its time
NOT_OURS = "this SuperLink carries out only what `pace flower run` starts"


class UnfinishedError(PaceError):
    """Too few uploads, or a return that was not confirmed: the same job can be run again."""


@dataclass(frozen=True, eq=False)
class GridExchange:
    """The nodes of one run.

    Flower's own `send_and_receive` looks every three seconds and forgets who did not answer. Replies
    are told apart by the message they reply to: an error reply does not carry its node's number.

    A SuperNode sends what it has to reply when it takes a message. One that a run left with a reply to
    send is therefore late by a message, ever after: who is silent is asked again soon, and the reply to
    the first question, which then comes, still counts.
    """

    grid: Grid
    patience: ClassVar[float] = 30.0

    def nodes(self) -> set[str]:
        with reaching():
            return set(map(str, self.grid.get_node_ids()))

    def send(self, kind: str, messages: Mapping[str, Words], *, expires: float) -> dict[str, str]:
        kind, pairs = f"{QUERY}{kind}", messages.items()
        with reaching():
            lives = expires + LATE
            packed = [Message(pack(words), int(to), kind, ttl=lives) for to, words in pairs]
            tickets = self.grid.push_messages(packed)
        return {ticket: node for ticket, node in zip(tickets, messages, strict=True) if ticket}

    def replies(self, tickets: Collection[str]) -> Iterator[Reply]:
        with reaching():
            came = list(self.grid.pull_messages(list(tickets)))
        for reply in came:
            ticket = reply.metadata.reply_to_message_id
            if not reply.has_error():
                yield Reply(ticket, unpack(reply.content))
                continue
            code = f"flower-{reply.error.code}"  # its text was written by another machine
            final = reply.error.code in FINAL
            yield Reply(ticket, {"code": code} if final else {}, "" if final else code)


@contextmanager
def reaching() -> Iterator[None]:
    """Flower itself tries again for a while; with the SuperLink its run is gone too."""
    try:
        yield
    except httpx.HTTPError as error:
        raise FlowerError(f"the SuperLink was lost: {error}") from error


def play_run(
    control: Control, number: str, settings: Settings, show: Callable[[Event], None]
) -> tuple[Run, RoundReport | None]:
    """Play a run that was just started: what Flower says of it, and the report, if it came to one."""
    kit, played = control.kit, None
    secret, ca = ((kit.folder / name).read_bytes() for name in ("secret", "ca.crt"))
    try:
        with reaching(), carrying_out(Runtime(kit.control, secret, ca), int(number)) as grid:
            played = run_round(GridExchange(grid), settings, show, ORPHANED)
            if played.lost:
                raise FlowerError(played.lost)
            if not played.finished:
                raise UnfinishedError(played.waiting or " ".join(round_sentences(played)))
    except (UnfinishedError, KeyboardInterrupt):
        pass  # Flower's list says what became of the run
    return control.ended(number), played


@contextmanager
def carrying_out(runtime: Runtime, run: int) -> Iterator[HttpGrid]:
    """The grid of a run that was just started.

    An error inside is the run's failure. If the run is stopped, Flower interrupts this process.
    """
    token, ca = _token(runtime, run), runtime.certificate
    grid = HttpGrid(runtime.address, root_certificates=ca, token=token)
    grid._retry_invoker.max_time = OUTAGE
    client = grid._runtime_client
    task = client.PullTaskInput(PullTaskInputRequest())
    TaskIdentity.task_id, TaskIdentity.run_id = task.task_id, run
    TaskIdentity.node_id = task.context.node_id
    grid.set_run(run_from_proto(task.run))
    heart = HeartbeatSender(make_task_heartbeat_fn_http(client))
    heart.start()
    ending = PushTaskOutputRequest(sub_status=SubStatus.FAILED, details="interrupted")
    try:
        yield grid
        ending = PushTaskOutputRequest(sub_status=SubStatus.COMPLETED)
    except Exception as error:
        ending.details = str(error)
        raise
    finally:
        grid._retry_invoker.max_tries = 1
        with suppress(httpx.HTTPError, RunNotRunningException):
            client.PushTaskOutput(ending)
        heart.stop()
        grid.close()


def _token(runtime: Runtime, run: int) -> str:
    """That of this run's task; tasks of other runs are made to fail."""
    end = time.monotonic() + STARTS
    while time.monotonic() < end:
        if (acquired := runtime.acquire()) is None:
            time.sleep(LOOK)
        elif acquired[0] == run:
            return acquired[1]
        else:
            refusal = PushTaskOutputRequest(sub_status=SubStatus.FAILED, details=NOT_OURS)
            with closing(runtime.task(acquired[1])) as client, suppress(httpx.HTTPError):
                client.PullTaskInput(PullTaskInputRequest())  # a task fails only once it has begun
                client.PushTaskOutput(refusal)
    raise FlowerError(f"run {run} has no task after {STARTS:.0f} s: look at the SuperLink's log")
