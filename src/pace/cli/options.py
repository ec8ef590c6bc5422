"""What the values of options mean. The libraries they need are imported when one is looked at."""

import os
import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pace.errors import SettingError
from pace.registry import METHODS


def seeds(text: str) -> list[int]:
    """`3` is the first three of the paper's seeds; `7,8` or any larger number are seeds themselves."""
    from pace.protocol import SEEDS

    numbers = [int(word) if word.strip().isdecimal() else -1 for word in text.split(",")]
    if len(numbers) == 1 and 1 <= numbers[0] <= len(SEEDS):
        return list(SEEDS[: numbers[0]])
    if numbers == [0] or min(numbers) < 0 or max(numbers) >= 2**63:
        expected = f"a count from 1 to {len(SEEDS)}, or seeds below 2^63 like 7,8,9"
        raise SettingError(f"--seeds is {text!r}, expected {expected}")
    if len(set(numbers)) < len(numbers):
        raise SettingError(f"--seeds is {text!r}: a seed occurs twice")
    return numbers


def rank(text: str) -> int | None:
    """A rank, or None for `dense`."""
    if text == "dense":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise SettingError(f"--rank is {text!r}, expected a number of 1 or more, or 'dense'")
    return int(text)


def with_dropout(model: Any, dropout: float | None) -> Any:
    """The model with this dropout in place of its own."""
    from pace.models import TorchModel

    if dropout is None:
        return model
    if isinstance(model, TorchModel):
        raise SettingError(
            f"--dropout is {dropout}, but {model.name} has dropout layers of its own: set them there"
        )
    return replace(model, dropout=dropout)


def device(name: str) -> str:
    """`auto` is the GPU where there is one."""
    import torch

    if name == "cuda" and not torch.cuda.is_available():
        raise SettingError("--device is cuda, but torch finds no GPU here: use --device cpu")
    return ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name


def words(text: str | None) -> list[str] | None:
    """The words of a list separated by commas; None stays None.

    A comma before `key=` does not separate: it belongs to `synthetic:nodes=500,degree=6`.
    """
    if text is None:
        return None
    return [word.strip() for word in re.split(r",(?!\s*[^\W\d]\w*\s*=)", text) if word.strip()]


def method_names(text: str | None) -> list[str] | None:
    """The names of known methods, groups written out; None stays None."""
    listed = words(text)
    if listed is None:
        return None
    return [method for name in listed for method in METHODS.expand(METHODS.allow(name))]


def at_least_one(option: str, value: int) -> None:
    if value < 1:
        raise SettingError(f"{option} is {value}, expected 1 or more")


def need(command: str, package: str, *libraries: str) -> None:
    """Refuse a command whose optional libraries are not installed; `package` with its extra has them."""
    if missing := [name for name in libraries if find_spec(name) is None]:
        raise SettingError(f"{command} needs {' and '.join(missing)}: pip install '{package}'")


def folder(option: str, path: Path | None) -> None:
    """Refuse a folder that cannot be written to before the work is done, and not after it."""
    if path is None:
        return
    nearest = path
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir():
        raise SettingError(f"{option} is {path}, but {nearest} is a file: name a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise SettingError(
            f"{option} is {path}, but {nearest} cannot be written to: name another folder"
        )
