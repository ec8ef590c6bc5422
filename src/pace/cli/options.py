"""What the command line's words mean."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from pace.errors import SettingError
from pace.io.settings import split_settings
from pace.methods import make
from pace.models import Model, TorchModel, sized
from pace.protocol.federation import SEEDS
from pace.protocol.method import Method
from pace.protocol.number_formats import KINDS
from pace.registry import METHODS, MODELS


def seeds(text: str) -> list[int]:
    """`3` is the first three of the paper's seeds; `7,8` or any larger number are seeds themselves."""
    try:
        numbers = [int(word) for word in text.split(",")]
    except ValueError:
        raise SettingError(
            f"--seeds is {text!r}, expected a count from 1 to {len(SEEDS)} or seeds like 7,8,9"
        ) from None
    if len(numbers) == 1 and 1 <= numbers[0] <= len(SEEDS):
        return list(SEEDS[: numbers[0]])
    if min(numbers) < 0 or (len(numbers) == 1 and numbers[0] == 0):
        raise SettingError(f"--seeds is {text!r}, expected a count of at least 1 or positive seeds")
    if max(numbers) >= 2**63:
        raise SettingError(f"--seeds is {text!r}, expected seeds below 2^63")
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


def numbers(text: str | None) -> str:
    """How numbers are written on the wire; empty for each method's own way."""
    if text is not None and text not in KINDS:
        raise SettingError(f"--numbers is {text!r}, expected one of {', '.join(KINDS)}")
    return text or ""


def methods(text: str, rank: int | None) -> dict[str, Method]:
    """The named methods, in order, each once."""
    names = method_names(text)
    if not names:
        raise SettingError("--methods is empty: name at least one method, such as pace")
    return {name: make(name, rank) for name in names}


def method(text: str) -> tuple[str, dict[str, str]]:
    """One method of a job: its name, by which every site finds it, and its settings in words."""
    name, settings = split_settings(text)
    if name in METHODS.groups:
        raise SettingError(f"--method is {name!r}, which stands for several: name one of them")
    (listed,) = METHODS.expand(METHODS.allow(name))
    return METHODS.code(listed) or listed, settings


def models(
    text: str,
    features: int,
    hidden: int,
    layers: int,
    classes: int,
    dropout: float | None = None,
) -> dict[str, Model]:
    """The named models, in order, each once, with `layers - 1` hidden layers of one width."""
    at_least_one("--layers", layers)
    at_least_one("--hidden", hidden)
    names = words(text)
    if not names:
        raise SettingError("--model is empty: name one, such as gcn")
    return {
        name: with_dropout(sized(MODELS.allow(name), features, hidden, layers, classes), dropout)
        for name in names
    }


def with_dropout(model: Model, dropout: float | None) -> Model:
    """The model with this dropout in place of its own."""
    if dropout is None:
        return model
    if isinstance(model, TorchModel):
        raise SettingError(
            f"--dropout is {dropout}, but {model.name} has dropout layers of its own: set them there"
        )
    if not 0 <= dropout < 1:
        raise SettingError(f"--dropout is {dropout}, expected 0 or more and less than 1")
    return replace(model, dropout=dropout)  # type: ignore[type-var]


def file_name(name: str) -> str:
    """A name as that of a folder: `gat:heads=4` is `gat_heads=4`."""
    return re.sub(r"[^\w.=,-]", "_", name)


def device(text: str) -> str:
    """`auto` is the GPU where there is one."""
    import torch

    if text not in ("auto", "cpu", "cuda"):
        raise SettingError(f"--device is {text!r}, expected auto, cpu or cuda")
    if text == "cuda" and not torch.cuda.is_available():
        raise SettingError("--device is cuda, but torch finds no GPU here: use --device cpu")
    return ("cuda" if torch.cuda.is_available() else "cpu") if text == "auto" else text


def words(text: str | None) -> list[str] | None:
    """The words of a list separated by commas; None stays None.

    A comma before `key=` does not separate: it belongs to `synthetic:nodes=500,degree=6`.
    """
    if text is None:
        return None
    return [word.strip() for word in re.split(r",(?!\s*[^\W\d]\w*\s*=)", text) if word.strip()]


def method_names(text: str | None) -> list[str] | None:
    """The names of known methods, groups written out; None stays None."""
    named = words(text)
    if named is None:
        return None
    return [method for name in named for method in METHODS.expand(METHODS.allow(name))]


def at_least_one(option: str, value: int) -> None:
    if value < 1:
        raise SettingError(f"{option} is {value}, expected 1 or more")


def need(command: str, extra: str, *libraries: str) -> None:
    """Refuse a command whose optional libraries are not installed, naming the extra that has them."""
    missing = [name for name in libraries if find_spec(name) is None]
    if missing:
        raise SettingError(
            f"{command} needs {' and '.join(missing)}: pip install 'pace-fgl[{extra}]'"
        )


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
