"""The file server path with many uploads, one in a hundred hostile."""

from pathlib import Path

import pytest
from benchmarks import load


@pytest.mark.fault(1)
@pytest.mark.parametrize("uploads", [200, pytest.param(10_000, marks=pytest.mark.slow)])
def test_every_good_client_is_served_and_every_bad_file_named(tmp_path: Path, uploads: int) -> None:
    """`measure` compares who was served, and each refusal's code, with who sent what."""
    found = load.measure(tmp_path, uploads)
    assert found["served"] == uploads - uploads // load.HOSTILE
