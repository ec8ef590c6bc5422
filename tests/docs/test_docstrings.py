"""The public names are documented where people look, and their examples run."""

import dataclasses
import doctest
import inspect
from typing import Any

import pytest

import pace

PUBLIC = [name for name in pace.__all__ if not name.startswith("__")]
OBJECTS = {name: getattr(pace, name) for name in PUBLIC}
FUNCTIONS = [name for name, value in OBJECTS.items() if inspect.isfunction(value)]
SHOWN = ("GCN", "Federation", "Graph", "Pace", "Recipe", *FUNCTIONS)


def test_dir_shows_the_public_names_and_nothing_else() -> None:
    assert sorted(dir(pace)) == sorted(pace.__all__)


@pytest.mark.parametrize("name", [name for name, value in OBJECTS.items() if callable(value)])
def test_every_public_class_and_function_has_a_docstring(name: str) -> None:
    assert inspect.getdoc(OBJECTS[name])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_argument_is_explained(name: str) -> None:
    told = inspect.getdoc(OBJECTS[name]) or ""
    for section in ("Args:", "Returns:", "Raises:"):
        assert section in told
    for argument in inspect.signature(OBJECTS[name]).parameters:
        assert f"    {argument}: " in told


@pytest.mark.parametrize("name", SHOWN)
def test_examples_run(name: str) -> None:
    value: Any = OBJECTS[name]
    examples = doctest.DocTestFinder(recurse=False).find(value, name, globs={})
    assert examples
    assert examples[0].examples
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    assert runner.run(examples[0]).failed == 0


@pytest.mark.parametrize("name", ["Adoption", "Federation", "Kept", "Pace", "Recipe"])
def test_every_field_is_explained_under_it(name: str) -> None:
    lines = inspect.getsource(OBJECTS[name]).splitlines()
    for field in dataclasses.fields(OBJECTS[name]):
        place = next(i for i, line in enumerate(lines) if line.startswith(f"    {field.name}: "))
        assert lines[place + 1].lstrip().startswith('"""'), field.name
