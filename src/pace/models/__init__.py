"""What a client trains: networks as functions of their parameters. A new one is a line of `registry`.

The names in `__all__` are for everybody. Other rooms use `base`, `from_torch`, `gcn`,
`initialisation`, `operator`, `propagation` and `unit_rows`.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

from pace.errors import SettingError
from pace.io.plugins import allow
from pace.io.settings import split_settings
from pace.models.appnp import APPNP
from pace.models.base import Model, Network, Pass
from pace.models.from_torch import TorchModel, from_torch
from pace.models.gat import GAT
from pace.models.gcn import GCN
from pace.models.gin import GIN
from pace.models.mlp import MLP
from pace.models.sage import SAGE
from pace.models.sgc import SGC
from pace.registry import MODELS

COMMON = ("widths", "dropout")  # fields that every model has; the others are its own settings


def parse_model(text: str) -> tuple[str, dict[str, Any]]:
    """The kind and the settings of a model in a command, such as `gat:heads=4`."""
    name, given = split_settings(text)
    kind = MODELS.listed(name)
    if _is_model(MODELS.factory(kind)):
        return MODELS.parse(text)
    if given:
        raise SettingError(f"the model {kind!r} has no settings of ours: its factory has them")
    return kind, {}


def _is_model(factory: Callable[..., Any]) -> bool:
    """Whether it is a class of models, and not a function that gives a torch module."""
    return hasattr(factory, "sized")


def sized(text: str, features: int, hidden: int, layers: int, classes: int) -> Model:
    """The model that `text` names, with `layers - 1` hidden layers of one width."""
    kind, settings = parse_model(text)
    factory: Any = MODELS.factory(kind)
    if not _is_model(factory):
        return from_torch_factory(kind, factory, features, classes)
    model: Model = factory.sized(features, hidden, layers, classes, **settings)
    return model


def make(kind: str, widths: Sequence[int], dropout: float = 0.5, **settings: Any) -> Model:
    """The model of that kind; one that PACE does not ship must be allowed here."""
    factory = MODELS.factory(kind)
    if not _is_model(factory):
        if settings.keys() - {"structure"} or len(widths) != 2:
            raise SettingError(f"the model {kind!r} has no settings of ours: its factory has them")
        return from_torch_factory(kind, factory, widths[0], widths[-1])
    _, settings = MODELS.parse(kind, settings)
    model: Model = factory(tuple(widths), dropout, **settings)
    return model


def from_torch_factory(
    name: str, factory: Callable[..., Any], features: int, classes: int
) -> TorchModel:
    """The model of a function of features and classes that gives a torch module."""
    code = MODELS.code(name) or name
    try:
        return from_torch(factory, features, classes, name=code)
    except TypeError as error:
        raise SettingError(
            f"the model {name!r} cannot be made ({error}): expected a class or a function of features "
            "and classes that gives a torch.nn.Module"
        ) from error


def kind_by_names(names: Iterable[str]) -> str | None:
    """Which kind of model tensors of these names belong to: every kind has names of its own."""
    kinds = {re.sub(r"^\d+\.|/[LRm]$", "", name) for name in names}
    fitting = {kind: own for kind in MODELS if (own := _names(kind)) <= kinds}
    return max(fitting, key=lambda kind: len(fitting[kind]), default=None)


@cache
def _names(kind: str) -> frozenset[str]:
    shapes = sized(kind, 8, 8, 1, 8).shapes
    return frozenset(name.partition(".")[2] for name in shapes)


def kind_of(model: Model) -> str:
    """The name a model is listed under, or that of its code, `package.module:Name`."""
    if isinstance(model, TorchModel):
        if not model.name:
            raise SettingError(
                "a job carries no code: a module of one's own needs a name, as in "
                "from_torch(…, name='package.module:factory')"
            )
        return model.name
    return MODELS.name_of(type(model))


def in_words(model: Model) -> str:
    """What it is told, in a sentence: `, dropout 0.5, heads 8`; a module of one's own by its name."""
    if isinstance(model, TorchModel):
        return f", {model.name}" if model.name else ""
    told = {"dropout": model.dropout, **settings_of(model)}
    return "".join(f", {key} {value}" for key, value in told.items())


def settings_of(model: Model) -> dict[str, object]:
    """What a model was told beside its widths and dropout."""
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
    "parse_model",
    "settings_of",
    "sized",
]
