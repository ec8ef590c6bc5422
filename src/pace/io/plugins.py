"""Code of somebody's own, named `package.module:Name`. Nothing is imported that was not allowed.

A job names code and carries none. Whoever runs a job allows a name in a command (`--allow`), in a
node's settings, or for a process and its children by the environment variable PACE_ALLOW.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from pace.errors import NotAllowedError, SettingError, did_you_mean

ENVIRONMENT = ("PACE_ALLOW", "PACE_ALLOW_MODEL")  # names separated by commas; the second is older
NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
DIGITS = 16

_allowed: set[str] = set()
_here: ContextVar[frozenset[str]] = ContextVar("allowed", default=frozenset())


def is_name(name: str) -> bool:
    """Whether it names code of somebody's own, as opposed to a built-in thing."""
    return ":" in name


def allow(*names: str) -> None:
    """Let this process import these, `package.module:Name`."""
    _allowed.update(names)


@contextmanager
def allowing(names: Iterable[str]) -> Iterator[None]:
    """Let these be imported inside the block, as one of several nodes in a process does.

    What a block around it allows is not allowed inside: a node's own settings decide.
    """
    before = _here.set(frozenset(names))
    try:
        yield
    finally:
        _here.reset(before)


def allowed() -> set[str]:
    """All that may be imported here."""
    listed = (name for word in ENVIRONMENT for name in os.environ.get(word, "").split(","))
    return _allowed | _here.get() | {name.strip() for name in listed if name.strip()}


def load(name: str, what: str) -> Any:
    """What `package.module:Name` is, if it may be imported; `what` is the word for it in errors.

    Installed packages come first; a file in the current folder is found too.

    Raises:
        NotAllowedError: nobody here has allowed it, and nothing was imported.
        SettingError: it is not installed here, or there is no such name in it.
    """
    if not NAME.fullmatch(name):
        raise SettingError(
            f"the {what} {name!r} is not the name of code: expected package.module:Name"
        )
    if name not in allowed():
        package = name.partition(":")[0]
        raise NotAllowedError(
            f"the {what} {name!r} is code of somebody's own, which would run here with all your "
            f"rights and which nobody here has allowed: look at the package {package!r}, install "
            f'it, then give --allow {name} (or allow = ["{name}"] in a Flower node\'s node.toml)'
        )
    module, _, path = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise SettingError(
            f"the {what} {name!r} cannot be imported ({error}): install it here, or start pace in "
            "the folder that holds its file"
        ) from error
    except Exception as error:
        raise SettingError(
            f"the {what} {name!r} cannot be imported ({type(error).__name__}: {error}): its own "
            f"file fails, as `python -c 'import {module}'` shows"
        ) from error
    for part in path.split("."):
        if not hasattr(found, part):
            near = did_you_mean(part, [each for each in vars(found) if not each.startswith("_")])
            where = getattr(found, "__file__", None) or module
            raise SettingError(f"there is no {part!r} in {where}: {near}check the name")
        found = getattr(found, part)
    return found


def code_digest(loaded: Any) -> str:
    """The first digits of the SHA-256 of the file that defines it; empty where there is no source.

    Line ends do not count, so that a checkout on another system is the same code.
    """
    try:
        source = inspect.getsourcefile(loaded)
        content = Path(source or "").read_bytes().replace(b"\r\n", b"\n")
    except (TypeError, OSError):
        return ""
    return hashlib.sha256(content).hexdigest()[:DIGITS]
