"""What runs inside NVFlare: the round as a controller, a site's steps as an executor.

A message is bytes in a Shareable; NVFlare's names of clients are the ids of nodes.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from nvflare.apis.client import Client
from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.executor import Executor
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from pace.errors import PaceError
from pace.jobs import read_job
from pace_network.exchange import (
    EngineError,
    Reply,
    Words,
    code_of,
    decode_words,
    encode_words,
    log,
)
from pace_network.node import Node, read_settings
from pace_network.nvflare import SETTINGS
from pace_network.progress import Event
from pace_network.round import Settings, round_sentences, run_round
from pace_network.site_steps import respond

PART = "pace"  # of a Shareable


def pack(kind: str, words: Words) -> Shareable:
    """A message of ours as NVFlare carries it."""
    content = Shareable()
    content[PART] = encode_words(kind, words)
    return content


def unpack(content: object) -> Words:
    """The words of one of NVFlare's; none, if it is not ours."""
    part = content.get(PART) if isinstance(content, Mapping) else None
    try:
        return decode_words(part)[1] if isinstance(part, bytes) else {}
    except PaceError:
        return {}


class SiteExecutor(Executor):  # type: ignore[misc]
    """A site's two steps, by its own local/pace.toml."""

    def execute(
        self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal
    ) -> Shareable:
        """The reply to one message; it raises nothing."""
        try:
            node = Node.read(_settings(fl_ctx))
            return pack("reply", respond(node, task_name, unpack(shareable)))
        except Exception as error:
            return pack("reply", {"code": code_of(error)})


class ControllerExchange:
    """The clients of an NVFlare job as the nodes of a round."""

    def __init__(self, controller: Controller, fl_ctx: FLContext, aborted: Signal) -> None:
        self.controller, self.fl_ctx, self.aborted = controller, fl_ctx, aborted
        self.came: dict[str, Reply] = {}
        self.count, self.lock = 0, threading.Lock()

    def nodes(self) -> set[str]:
        if self.aborted.triggered:
            raise EngineError("the NVFlare job was aborted: submit it again")
        return {client.name for client in self.fl_ctx.get_engine().get_clients()}

    def send(self, kind: str, messages: Mapping[str, Words], *, expires: float) -> dict[str, str]:
        tickets = {}
        for node, words in messages.items():
            self.count += 1
            ticket = str(self.count)
            tickets[ticket] = node
            task = Task(
                kind,
                pack(kind, words),
                props={PART: ticket},
                timeout=max(1, int(expires)),
                result_received_cb=self._received,
                task_done_cb=self._done,
            )
            self.controller.send(task, self.fl_ctx, targets=[node])
        return tickets

    def replies(self, tickets: Collection[str]) -> Iterator[Reply]:
        with self.lock:
            came = [self.came.pop(ticket) for ticket in tickets if ticket in self.came]
        yield from came

    def _received(self, client_task: ClientTask, fl_ctx: FLContext) -> None:
        self._put(client_task.task, unpack(client_task.result))

    def _done(self, task: Task, fl_ctx: FLContext) -> None:
        status = getattr(task.completion_status, "value", "")
        if status != "ok":
            self._put(task, {}, f"nvflare-{status}"[:64])

    def _put(self, task: Task, words: Words, lost: str = "") -> None:
        ticket = task.props[PART]
        with self.lock:
            self.came[ticket] = Reply(ticket, words, lost)


class RoundController(Controller):  # type: ignore[misc]
    """The server's round, by its own local/pace.toml."""

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Nothing: the journal knows how far an earlier run came."""

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Nothing: every file is whole or absent."""

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Play the round; what failed is the NVFlare job's failure."""
        try:
            settings = read_settings(Settings, _settings(fl_ctx))
            if not settings.nodes:  # clients are called as participants are
                same = {name: name for name in read_job(settings.job).participants}
                settings = replace(settings, nodes=same)
            exchange = ControllerExchange(self, fl_ctx, abort_signal)
            report = run_round(exchange, settings, _tell)
            why = "" if report.finished else " ".join(round_sentences(report))
        except (PaceError, OSError) as error:
            why = str(error)
        log(why or "the round is finished")
        if why and not abort_signal.triggered:
            self.system_panic(why, fl_ctx)

    def process_result_of_unknown_task(
        self,
        client: Client,
        task_name: str,
        client_task_id: str,
        result: Shareable,
        fl_ctx: FLContext,
    ) -> None:
        """An answer after its message expired: the node is asked again, and has it ready."""
        log(f"{client.name}: an answer to {task_name} came after its time")


def _settings(fl_ctx: FLContext) -> Path:
    """The pace.toml of this site; in NVFlare's simulator all share `local`, and have NAME.toml each."""
    local = Path(fl_ctx.get_engine().get_workspace().get_site_config_dir())
    mine = local / f"{fl_ctx.get_identity_name()}.toml"
    return mine if mine.is_file() else local / SETTINGS


def _tell(event: Event) -> None:
    log(event.sentence(event.name or event.node))
