"""Flower's tasks, carried out by this package as it is installed here, whatever app a run brings.

Flower gives a task, with the app to load, to a process that asks its SuperLink or SuperNode for one and
knows their secret. `flower-superexec` would load that app; the processes here read the task's message
and leave the app unopened. Most of what is imported is private to Flower: a name that another version
moved is an ImportError before anything runs.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import httpx
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.constant import SubStatus
from flwr.proto.runtime_pb2 import AcquireTaskRequest, SendTaskHeartbeatRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from pace_network.exchange import Letter, Words, known_words

RECORD = "pace"
QUERY = "query."  # Flower's kind of message that our kinds are names of
PROTECTED = ("/flwr.proto.Runtime/AcquireTask",)  # the call that Flower wants the secret for
LOOK = 0.2  # seconds between two looks for a task
PATIENCE = 60.0  # seconds that a task's message may take to come; the server asks again


@dataclass(frozen=True)
class Runtime:
    """The Runtime API of a SuperLink or a SuperNode, and the secret that it gives tasks for."""

    address: str
    secret: bytes
    certificate: bytes | None = None  # of the CA; a SuperNode is asked on loopback without TLS

    def acquire(self) -> tuple[int, str] | None:
        """The oldest task that waits: its run, and the token with which it is carried out."""
        secret = SuperExecAuthHttpInterceptor(
            master_secret=self.secret, protected_methods=PROTECTED
        )
        with closing(self._client(secret)) as client:
            task = client.AcquireTask(AcquireTaskRequest(supported_task_types=list(TaskType)))
        return (task.task.run_id, task.token) if task.token else None

    def task(self, token: str) -> RuntimeHttpClient:
        """What a task is carried out with."""
        return self._client(RuntimeTokenHttpInterceptor(token))

    def _client(self, interceptor: object) -> RuntimeHttpClient:
        interceptors = [RuntimeVersionHttpInterceptor(component_name="SuperExec"), interceptor]
        ca = self.certificate
        return RuntimeHttpClient.from_server_address(self.address, ca is None, ca, interceptors)


def pack(words: Words) -> RecordDict:
    """Our words in Flower's."""
    return RecordDict({RECORD: ConfigRecord(dict(words))} if words else {})


def unpack(content: RecordDict) -> Words:
    """Ours of Flower's."""
    record = content.get(RECORD)
    return known_words(record) if isinstance(record, ConfigRecord) else {}


@dataclass(eq=False)
class TaskInbox:
    """The messages that a SuperNode receives, each a task of Flower's."""

    runtime: Runtime

    def letters(self) -> Iterator[Letter]:
        """The next message, if there is one; its task lives until it is answered."""
        with reaching():
            acquired = self.runtime.acquire()
        if acquired is None:
            return
        with reaching(), closing(self.runtime.task(acquired[1])) as client, beating(client):
            message, context, *_ = pulled(client)
            yield letter(message, (client, message, context))

    def reply(self, letter: Letter, words: Words) -> None:
        """Flower's reply, and the end of the task."""
        client, message, context = letter.ticket
        with reaching():
            push_message(client, Message(pack(words), reply_to=message), context)
            push_task_output(client, context, SubStatus.COMPLETED, "")


def pulled(client: RuntimeHttpClient) -> tuple[Any, ...]:
    """A task's input.

    A run that ends while its message is received leaves a task behind whose message never comes.
    Flower would wait two hours for it, and the node would answer nobody meanwhile.
    """
    found: SimpleQueue[Any] = SimpleQueue()

    def pull() -> None:
        try:
            found.put(pull_task_input(client))
        except Exception as error:
            found.put(error)

    Thread(target=pull, daemon=True).start()
    try:
        result = found.get(timeout=PATIENCE)
    except Empty:
        raise TimeoutError(
            f"a message did not come within {PATIENCE:.0f} s: its run has ended"
        ) from None
    if isinstance(result, Exception):
        raise result
    return tuple(result)


def letter(message: Message, ticket: object = None) -> Letter:
    """A message of Flower's as ours."""
    kind = message.metadata.message_type.removeprefix(QUERY)
    return Letter(kind, unpack(message.content) if message.has_content() else {}, ticket)


@contextmanager
def reaching() -> Iterator[None]:
    """What Flower's client raises, as errors that a site's loop survives."""
    try:
        yield
    except httpx.TransportError as error:  # the SuperNode is about to start, or to end
        raise ConnectionError(
            f"Flower's SuperNode does not answer ({type(error).__name__})"
        ) from error
    except (httpx.HTTPError, RunNotRunningException, RuntimeError) as error:
        raise ConnectionError(f"a message could not be answered: {error!r}") from error


@contextmanager
def beating(client: RuntimeHttpClient) -> Iterator[None]:
    """Say meanwhile that the task is being worked on."""

    def beat() -> bool:
        with suppress(httpx.HTTPError):
            client.SendTaskHeartbeat(SendTaskHeartbeatRequest())
        return True

    heart = HeartbeatSender(beat)
    heart.start()
    try:
        yield
    finally:
        heart.stop()
