"""What a client trains: networks as functions of their parameters. A new one is one line here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from pace.errors import SettingError, did_you_mean
from pace.models.appnp import APPNP
from pace.models.base import Model, Network, Pass
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


def make(kind: str, widths: Sequence[int], dropout: float = 0.5, **settings: Any) -> Model:
    """The model of that kind."""
    if kind not in MODELS:
        hint = did_you_mean(kind, MODELS)
        raise SettingError(f"there is no model {kind!r}: {hint}known are {', '.join(MODELS)}")
    own = settings_of(MODELS[kind])
    if unknown := sorted(settings.keys() - own.keys()):
        known = ", ".join(sorted(own)) or "none"
        raise SettingError(f"the model {kind!r} has no setting {unknown[0]!r}: it has {known}")
    return MODELS[kind](tuple(widths), dropout, **settings)


def kind_of(model: Model) -> str:
    """The name a model is listed under."""
    return next(kind for kind, made in MODELS.items() if made is type(model))


def settings_of(model: Model | Callable[..., Model]) -> dict[str, Any]:
    """What a model, or a kind of model, can be told beside its widths and dropout."""
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
    "kind_of",
    "make",
    "settings_of",
]
