"""What a client trains: networks as functions of their parameters. A new one is one line here.

The names in `__all__` are for everybody. Other rooms use `base`, `from_torch`, `gcn`,
`initialisation`, `operator`, `propagation` and `unit_rows`.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

from pace.errors import SettingError, did_you_mean
from pace.io.plugins import allow
from pace.models.appnp import APPNP
from pace.models.base import Model, Network, Pass
from pace.models.from_torch import TorchModel, by_name, from_torch
from pace.models.gat import GAT
from pace.models.gcn import GCN
from pace.models.gin import GIN
from pace.models.mlp import MLP
from pace.models.sage import SAGE
from pace.models.sgc import SGC

MODELS: Mapping[str, Callable[..., Model]] = {
    "gcn": GCN,
    "sage": SAGE,
    "gin": GIN,
    "gat": GAT,
    "sgc": SGC,
    "appnp": APPNP,
    "mlp": MLP,
}
COMMON = ("widths", "dropout")  # fields that every model has; the others are its own settings


def named(text: str) -> tuple[str, dict[str, Any]]:
    """A model in a command: its kind and its settings, such as `gat:heads=4`."""
    kind, _, listed = text.partition(":")
    settings = {}
    for word in filter(None, listed.split(",")):
        key, equals, value = word.partition("=")
        if not equals:
            raise SettingError(f"the model is {text!r}, expected settings such as gat:heads=4")
        settings[key.strip()] = _number(value.strip())
    return _known(kind.strip(), settings), settings


def sized(text: str, features: int, hidden: int, layers: int, classes: int) -> Model:
    """The model that `text` names, with `layers - 1` hidden layers of one width."""
    if ":" in text and "=" not in text:
        return by_name(text, features, classes)
    kind, settings = named(text)
    made: Model = MODELS[kind].sized(features, hidden, layers, classes, **settings)  # type: ignore[attr-defined]
    return made


def kind_by_names(names: Iterable[str]) -> str | None:
    """Which kind of model tensors of these names belong to: every kind has names of its own."""
    kinds = {re.sub(r"^\d+\.|/[LRm]$", "", name) for name in names}
    fitting = {kind: own for kind in MODELS if (own := _names(kind)) <= kinds}
    return max(fitting, key=lambda kind: len(fitting[kind]), default=None)


@cache
def _names(kind: str) -> frozenset[str]:
    shapes = sized(kind, 8, 8, 1, 8).shapes
    return frozenset(name.partition(".")[2] for name in shapes)


def _number(word: str) -> int | float | str:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(word)
    return word


def make(kind: str, widths: Sequence[int], dropout: float = 0.5, **settings: Any) -> Model:
    """The model of that kind; a kind with a colon is a factory that this site must allow."""
    if ":" in kind:
        if settings.keys() - {"structure"} or len(widths) != 2:
            raise SettingError(f"the model {kind!r} has no settings of ours: its factory has them")
        return by_name(kind, widths[0], widths[-1])
    return MODELS[_known(kind, settings)](tuple(widths), dropout, **settings)


def _known(kind: str, settings: Mapping[str, Any]) -> str:
    """Refuse a kind, or a setting, that does not exist."""
    if kind not in MODELS:
        hint = did_you_mean(kind, MODELS)
        raise SettingError(f"there is no model {kind!r}: {hint}known are {', '.join(MODELS)}")
    own = settings_of(MODELS[kind])
    if unknown := sorted(settings.keys() - own.keys()):
        has = ", ".join(sorted(own)) or "none"
        raise SettingError(f"the model {kind!r} has no setting {unknown[0]!r}: it has {has}")
    return kind


def kind_of(model: Model) -> str:
    """The name a model is listed under, or that of its factory, `package.module:factory`."""
    if isinstance(model, TorchModel):
        if not model.name:
            raise SettingError(
                "a job carries no code: a module of one's own needs a name, as in "
                "from_torch(…, name='package.module:factory')"
            )
        return model.name
    return next(kind for kind, made in MODELS.items() if made is type(model))


def in_words(model: Model) -> str:
    """What it is told, in a sentence: `, dropout 0.5, heads 8`; a module of one's own by its name."""
    if isinstance(model, TorchModel):
        return f", {model.name}" if model.name else ""
    told = {"dropout": model.dropout, **settings_of(model)}
    return "".join(f", {key} {value}" for key, value in told.items())


def settings_of(model: Model | Callable[..., Model]) -> dict[str, object]:
    """What a model, or a kind of model, can be told beside its widths and dropout."""
    if isinstance(model, TorchModel):
        return {"structure": model.structure}
    named = (field.name for field in fields(model))  # type: ignore[arg-type]
    return {name: getattr(model, name) for name in named if name not in COMMON}


__all__ = [
    "APPNP",
    "GAT",
    "GCN",
    "GIN",
    "MLP",
    "MODELS",
    "SAGE",
    "SGC",
    "Model",
    "Network",
    "Pass",
    "TorchModel",
    "allow",
    "from_torch",
    "in_words",
    "kind_by_names",
    "kind_of",
    "make",
    "named",
    "settings_of",
    "sized",
]
