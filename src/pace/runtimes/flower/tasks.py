"""Flower's tasks, carried out by this package as it is installed here, whatever app a run brings.

Flower gives a task, with the app to load, to a process that asks its SuperLink or SuperNode for one and
knows their secret. `flower-superexec` would load that app; the processes here read the task's message
and leave the app unopened. Most of what is imported is private to Flower: a name that another version
moved is an ImportError before anything runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from queue import Queue

import httpx
from flwr.app import Message
from flwr.common.constant import SubStatus
from flwr.common.serde import run_from_proto
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    PullTaskInputRequest,
    PushTaskOutputRequest,
    SendTaskHeartbeatRequest,
)
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.logger import flush_logs, start_log_uploader, stop_log_uploader
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from pace.errors import FlowerError
from pace.runtimes.network.messages import log

PROTECTED = ("/flwr.proto.Runtime/AcquireTask",)  # the call that Flower wants the secret for
LOOK = 0.2  # seconds between two looks for a task
STARTS = 60.0  # seconds until a run that was started has its task
OUTAGE = 30.0  # seconds without the SuperLink after which a run is given up
NOT_OURS = "this SuperLink carries out only what `pace flower run` starts"


@dataclass(frozen=True)
class Runtime:
    """The Runtime API of a SuperLink or a SuperNode, and the secret that it gives tasks for."""

    address: str
    secret: bytes
    certificate: bytes | None = None
    """Of the CA; None for a SuperNode, which is asked on loopback without TLS."""

    def acquire(self) -> tuple[int, str] | None:
        """The oldest task that waits: its run, and the token with which it is carried out."""
        secret = SuperExecAuthHttpInterceptor(
            master_secret=self.secret, protected_methods=PROTECTED
        )
        with closing(self._client(secret)) as client:
            found = client.AcquireTask(AcquireTaskRequest(supported_task_types=list(TaskType)))
        return (found.task.run_id, found.token) if found.token else None

    def task(self, token: str) -> RuntimeHttpClient:
        return self._client(RuntimeTokenHttpInterceptor(token))

    def _client(self, interceptor: object) -> RuntimeHttpClient:
        version = RuntimeVersionHttpInterceptor(component_name="SuperExec")
        insecure = self.certificate is None
        return RuntimeHttpClient.from_server_address(
            self.address, insecure, self.certificate, [version, interceptor]
        )


def answer_tasks(runtime: Runtime, answer: Callable[[Message], Message]) -> None:
    """Reply to the messages that a SuperNode receives, one after the other, as long as this runs."""
    while True:
        try:
            if acquired := runtime.acquire():
                with closing(runtime.task(acquired[1])) as client:
                    _answer_task(client, answer)
        except httpx.TransportError:  # the SuperNode is about to start, or to end
            time.sleep(1.0)
        except (httpx.HTTPError, RunNotRunningException, RuntimeError) as error:
            log(f"a message could not be answered: {error!r}")
        time.sleep(LOOK)


def _answer_task(client: RuntimeHttpClient, answer: Callable[[Message], Message]) -> None:
    def beat() -> bool:
        with suppress(httpx.HTTPError):
            client.SendTaskHeartbeat(SendTaskHeartbeatRequest())
        return True

    heart = HeartbeatSender(beat)
    heart.start()
    try:
        message, context, _, _ = pull_task_input(client)
        push_message(client, answer(message), context)
        push_task_output(client, context, SubStatus.COMPLETED, "")
    finally:
        heart.stop()


@contextmanager
def carrying_out(runtime: Runtime, run: int) -> Iterator[tuple[HttpGrid, Callable[[str], None]]]:
    """The grid of a run that was just started, and what appends a line to the run's log.

    An error inside is the run's failure. If the run is stopped, Flower interrupts this process.
    """
    grid = HttpGrid(
        runtime.address, root_certificates=runtime.certificate, token=_token(runtime, run)
    )
    grid._retry_invoker.max_time = OUTAGE
    client = grid._runtime_client
    task = client.PullTaskInput(PullTaskInputRequest())
    TaskIdentity.task_id, TaskIdentity.run_id = task.task_id, run
    TaskIdentity.node_id = task.context.node_id
    grid.set_run(run_from_proto(task.run))
    lines: Queue[str | None] = Queue()
    uploader = start_log_uploader(lines, 0, run, client)
    heart = HeartbeatSender(make_task_heartbeat_fn_http(client))
    heart.start()
    ending = PushTaskOutputRequest(sub_status=SubStatus.FAILED, details="interrupted")
    try:
        yield grid, lines.put
        ending = PushTaskOutputRequest(sub_status=SubStatus.COMPLETED)
    except Exception as error:
        ending.details = str(error)
        raise
    finally:
        grid._retry_invoker.max_tries = 1
        flush_logs(lines)
        stop_log_uploader(lines, uploader)
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
