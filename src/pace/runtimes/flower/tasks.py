"""Flower's tasks, carried out by this package as it is installed here, whatever app a run brings.

Flower gives a task, with the app to load, to a process that asks its SuperLink or SuperNode for one and
knows their secret. `flower-superexec` would load that app; the processes here read the task's message
and leave the app unopened. Most of what is imported is private to Flower: a name that another version
moved is an ImportError before anything runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass

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

from pace.runtimes.network.exchange import Words, known_words, log

RECORD = "pace"
QUERY = "query."  # Flower's kind of message that our kinds are names of
PROTECTED = ("/flwr.proto.Runtime/AcquireTask",)  # the call that Flower wants the secret for
LOOK = 0.2  # seconds between two looks for a task

Respond = Callable[[str, Words], Words]


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


def reply_message(message: Message, respond: Respond) -> Message:
    """A node's reply to a message of the server."""
    kind = message.metadata.message_type.removeprefix(QUERY)
    words = unpack(message.content) if message.has_content() else {}
    return Message(pack(respond(kind, words)), reply_to=message)


def answer_tasks(runtime: Runtime, respond: Respond) -> None:
    """Reply to the messages that a SuperNode receives, one after the other, as long as this runs."""
    while True:
        try:
            if acquired := runtime.acquire():
                with closing(runtime.task(acquired[1])) as client:
                    _answer_task(client, respond)
        except httpx.TransportError:  # the SuperNode is about to start, or to end
            time.sleep(1.0)
        except (httpx.HTTPError, RunNotRunningException, RuntimeError) as error:
            log(f"a message could not be answered: {error!r}")
        time.sleep(LOOK)


def _answer_task(client: RuntimeHttpClient, respond: Respond) -> None:
    def beat() -> bool:
        with suppress(httpx.HTTPError):
            client.SendTaskHeartbeat(SendTaskHeartbeatRequest())
        return True

    heart = HeartbeatSender(beat)
    heart.start()
    try:
        message, context, _, _ = pull_task_input(client)
        push_message(client, reply_message(message, respond), context)
        push_task_output(client, context, SubStatus.COMPLETED, "")
    finally:
        heart.stop()
