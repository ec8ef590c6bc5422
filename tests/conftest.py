"""One thread: on small products two are slower than one, and many times slower on a busy machine."""

from collections.abc import Iterator

import pytest
import torch

from tests.preloaded import Preloaded

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def pace() -> Iterator[Preloaded]:
    """The `pace` command, each call a process of its own."""
    server = Preloaded()
    yield server
    server.close()
