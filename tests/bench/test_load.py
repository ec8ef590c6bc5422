"""The file server path with many uploads, one in a hundred hostile."""

import pytest
from benchmarks import load


@pytest.mark.fault(1)
@pytest.mark.parametrize("uploads", [200, pytest.param(10_000, marks=pytest.mark.slow)])
def test_every_good_client_is_served_and_every_bad_file_named(uploads: int) -> None:
    """`main` compares who was served, and each refusal's code, with who sent what."""
    (found,) = load.main(uploads)
    assert found["served"] == uploads - uploads // load.HOSTILE
