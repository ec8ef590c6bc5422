"""A task of Flower's whose message never comes does not keep a node from the next one."""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs pace-network[flower]: run `make test-flower`")
from pace_network.flower import tasks


def test_a_message_that_never_comes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    never = Event()
    monkeypatch.setattr(tasks, "pull_task_input", lambda client: never.wait(60))
    monkeypatch.setattr(tasks, "PATIENCE", 0.05)
    with pytest.raises(OSError, match="its run has ended"):  # which a site's loop survives
        tasks.pulled(None)
    never.set()


def test_what_flower_says_of_a_task_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "pull_task_input", lambda client: ("message", "context", 1, 2))
    assert tasks.pulled(None) == ("message", "context", 1, 2)

    def gone(client: Any) -> None:
        raise RuntimeError("No messages received")

    monkeypatch.setattr(tasks, "pull_task_input", gone)
    with pytest.raises(RuntimeError, match="No messages"):
        tasks.pulled(None)
