"""Versions of what a result was made with."""

import importlib.metadata
import platform
from collections.abc import Iterable


def installed(libraries: Iterable[str]) -> dict[str, str]:
    """Python's version, then that of each library that is installed."""
    found = {"python": platform.python_version()}
    for library in libraries:
        try:
            found[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
