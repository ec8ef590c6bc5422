"""Code that PACE does not ship, named `package.module:Name`. Nothing is imported before it is allowed.

A job names code and carries none. A site allows a name in a node's settings, or for a process and its
children by the environment variable PACE_ALLOW, to which the option `--allow` adds.
"""

import ast
import hashlib
import importlib
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib.machinery import all_suffixes
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pace.errors import NotAllowedError, SettingError, did_you_mean

ENVIRONMENT = "PACE_ALLOW"  # names separated by commas
NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")

_here: ContextVar[frozenset[str]] = ContextVar("allowed", default=frozenset())


def is_code_name(name: str) -> bool:
    """Whether it names code that is not built in."""
    return ":" in name


def allow(*names: str) -> None:
    """Let this process and its children import these, `package.module:Name`."""
    os.environ[ENVIRONMENT] = ",".join([os.environ.get(ENVIRONMENT, ""), *names])


@contextmanager
def allowing(names: Iterable[str]) -> Iterator[None]:
    """Let these, and not a surrounding block's, be imported inside the block, as a node does."""
    before = _here.set(frozenset(names))
    try:
        yield
    finally:
        _here.reset(before)


def allowed() -> frozenset[str]:
    """All that may be imported here."""
    listed = {name.strip() for name in os.environ.get(ENVIRONMENT, "").split(",")}
    return _here.get() | (listed - {""})


def check_allowed(name: str, kind: str) -> None:
    """Refuse the name of code that is not one, or that is not allowed here."""
    if not NAME.fullmatch(name):
        expected = "expected package.module:Name"
        raise SettingError(f"the {kind} {name!r} is not the name of code: {expected}")
    if name not in allowed():
        package = name.partition(":")[0]
        raise NotAllowedError(
            f"the {kind} {name!r} is code from outside PACE, which would run here with all your "
            f"rights and has not been allowed here: look at the package {package!r}, install "
            f'it, then give --allow {name} (or allow = ["{name}"] in a Flower node\'s node.toml)'
        )


def load_code(name: str, kind: str) -> Any:
    """What `package.module:Name` is, if it may be imported; `kind` is the word for it in errors."""
    check_allowed(name, kind)
    module, _, path = name.partition(":")
    _look_here()
    try:
        with _no_bytecode():
            code: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise _missing(name, kind, error) from error
    except Exception as error:
        raise SettingError(
            f"the {kind} {name!r} cannot be imported ({type(error).__name__}: {error}): its own "
            f"file fails, as `python -c 'import {module}'` shows"
        ) from error
    for part in path.split("."):
        if not hasattr(code, part):
            near = did_you_mean(part, [name for name in vars(code) if not name.startswith("_")])
            home = getattr(code, "__file__", None) or module
            raise SettingError(f"there is no {part!r} in {home}: {near}check the name")
        code = getattr(code, part)
    return code


@contextmanager
def _no_bytecode() -> Iterator[None]:
    """Run the files that were looked at and hashed: a compiled one beside them may be of other code."""
    before = sys.pycache_prefix
    with TemporaryDirectory() as empty:
        sys.pycache_prefix = empty
        try:
            yield
        finally:
            sys.pycache_prefix = before


def code_digest(name: str, kind: str) -> str:
    """SHA-256 of all files of the package that holds `package.module:Name`, which are not imported.

    Of a single file in a folder, the files beside it that it imports count too. Line ends do not, so
    that a checkout on another system is the same code.
    """
    _look_here()
    package = name.partition(":")[0].partition(".")[0]
    spec = find_spec(package)
    if spec is None or not (spec.origin or spec.submodule_search_locations):
        raise _missing(name, kind, f"No module named {package!r}")
    if spec.submodule_search_locations:
        sources = _files_of(map(Path, spec.submodule_search_locations))
    else:
        sources = _with_siblings(Path(spec.origin or ""))
    if not sources:
        raise _missing(name, kind, "its files cannot be read, as in an archive")
    sha = hashlib.sha256()
    for path, content in sorted(sources.items()):
        if path.endswith(".py"):
            content = content.replace(b"\r\n", b"\n")
        sha.update(f"{path}\0{len(content)}\0".encode() + content)
    return sha.hexdigest()


def check_code(name: str, kind: str, expected: object) -> None:
    """Refuse code that is not allowed here or has another digest, before any of it is imported."""
    check_allowed(name, kind)
    if (digest := code_digest(name, kind)) != expected:
        raise SettingError(
            f"its {kind}.code is {str(expected)[:16]!r}, here it is {digest[:16]!r}: the files of "
            f"{name} differ from those that the job was made with, and were not run; get those"
        )


def _files_of(folders: Iterable[Path]) -> dict[str, bytes]:
    """Everything below the folders of a package that Python could import, by path."""
    sources = {}
    for folder in folders:
        for parent, _, names in os.walk(folder, followlinks=True):  # as an import does
            for path in (Path(parent, name) for name in names):
                if path.name.endswith(tuple(all_suffixes())) and "__pycache__" not in path.parts:
                    sources[path.relative_to(folder.parent).as_posix()] = path.read_bytes()
    return sources


def _with_siblings(first: Path) -> dict[str, bytes]:
    """A file and what it imports from its own folder, directly or not; alone if it is installed."""
    sources: dict[str, bytes] = {}
    waiting = [first]
    while waiting:
        path = waiting.pop()
        if path.name in sources or not path.is_file():
            continue
        sources[path.name] = path.read_bytes()
        modules: set[str] = set()
        if {"site-packages", "dist-packages"}.isdisjoint(path.parts):
            with suppress(SyntaxError, ValueError):  # no Python: it imports nothing
                for node in ast.walk(ast.parse(sources[path.name])):
                    if isinstance(node, ast.Import):
                        modules.update(alias.name for alias in node.names)
                    elif isinstance(node, ast.ImportFrom) and node.module:
                        modules.add(node.module)
        for name in {module.partition(".")[0] for module in modules}:
            waiting.append(path.with_name(f"{name}.py"))
            sources |= _files_of([path.with_name(name)])
    return sources


def _look_here() -> None:
    """Let the current folder be searched, after everything that is installed."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def _missing(name: str, kind: str, error: object) -> SettingError:
    return SettingError(
        f"the {kind} {name!r} cannot be imported ({error}): install it here, or start pace in "
        "the folder that holds its file"
    )
