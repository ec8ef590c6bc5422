"""Growth: slow, and never a matter of seconds, only of what depends on what."""

import json

import pytest
from benchmarks.clock import child


def fitted(nodes: int) -> dict[str, float]:
    """In a process of its own."""
    found: dict[str, float] = json.loads(child("-m", "benchmarks.scale", nodes, "pace")[1])
    return found


@pytest.mark.slow
def test_memory_of_a_client_grows_no_faster_than_its_graph() -> None:
    small, large = fitted(20_000), fitted(200_000)
    assert large["edges"] > 9 * small["edges"]
    assert large["peak_mb"] < 10 * small["peak_mb"]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_client_of_a_million_nodes_trains() -> None:
    found = fitted(1_000_000)
    assert found["edges"] > 7_000_000
    assert found["peak_mb"] < 12_000


# The peak of a process never falls: few clients come first, in a process of their own.
MERGES = """
from pace.protocol import wire
from benchmarks.clock import peak
from benchmarks.server import merged, upload
from pace.protocol.federation import Federation
from pace.models.networks import GCN
from pace.methods import Pace

agreed = Federation(GCN((1433, 64, 7)), Pace())
frames = [wire.encode(upload(agreed, seed), agreed.digest) for seed in range(8)]
for count in (100, 2_000):
    merged(frames, count, agreed)
    print(peak())
"""


@pytest.mark.slow
def test_memory_of_the_server_does_not_grow_with_the_clients() -> None:
    few, many = map(float, child("-c", MERGES)[1].split())
    assert many < few + 20
