"""NVFlare without its processes: a controller whose clients answer in this process."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from nvflare.apis.controller_spec import Task
from nvflare.apis.signal import Signal

from pace_network import site_steps
from pace_network.node import Node
from pace_network.nvflare.components import ControllerExchange, pack, unpack


def home_exchange(nodes: Mapping[str, Node]) -> ControllerExchange:
    """The exchange over NVFlare's own tasks and shareables; the clients are these nodes."""

    def send(task: Task, fl_ctx: Any, targets: list[str]) -> None:
        (name,) = targets
        reply = site_steps.answer_message(nodes[name], task.name, unpack(task.data))
        task.result_received_cb(SimpleNamespace(task=task, result=pack("reply", reply)), fl_ctx)

    clients = [SimpleNamespace(name=name) for name in nodes]
    fl_ctx: Any = SimpleNamespace(get_engine=lambda: SimpleNamespace(get_clients=lambda: clients))
    controller: Any = SimpleNamespace(send=send)
    return ControllerExchange(controller, fl_ctx, Signal())
