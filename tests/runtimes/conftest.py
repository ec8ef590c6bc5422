"""What the tests of rounds share."""

import pytest

from tests.networked import Clock, stopped


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The round's clock, which only `sleep` moves."""
    return stopped(monkeypatch)
