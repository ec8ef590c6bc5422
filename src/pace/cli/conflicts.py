"""Combinations of versions that are each allowed and are known not to work together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet


@dataclass(frozen=True)
class Conflict:
    """Libraries that were seen to fail together."""

    versions: dict[str, str]
    """Which versions of each, such as `>=3.6,<3.7`."""
    fails: str
    """What does not work."""
    do: str


CONFLICTS = (
    Conflict(
        {"triton": "<3.7", "numpy": ">=2.5"},
        "Triton's interpreter fails; kernels on a GPU work",
        "to run the kernels' tests without a GPU: pip install 'numpy<2.5'",
    ),
)


def present(installed: Callable[[str], str | None]) -> Iterator[Conflict]:
    """The conflicts among what is installed; `installed` gives a library's version, if any."""
    for conflict in CONFLICTS:
        found = {name: installed(name) for name in conflict.versions}
        if all(
            version is not None and SpecifierSet(wanted).contains(version, prereleases=True)
            for version, wanted in zip(found.values(), conflict.versions.values(), strict=True)
        ):
            yield conflict
