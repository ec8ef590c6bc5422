"""What a client trains: networks as functions of their parameters. A new one is a line of `registry`."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from pace.errors import SettingError
from pace.io import split_settings
from pace.models import refitted
from pace.models.base import Drop, Field, Model, Network, Pass, Rows, identity
from pace.models.from_torch import TorchModel, from_torch
from pace.models.gat import GAT
from pace.models.layers import Layered, glorot
from pace.models.mapped import Excerpt, MappedGraph, RowTable, forget_logits
from pace.models.networks import APPNP, GCN, GIN, MLP, SAGE, SGC
from pace.models.operator import SPARSE_BELOW, Operator, Product, csr_tensor, density
from pace.models.propagation import SymbolicGraph
from pace.models.refitted import (
    ALL,
    FITS,
    Refitted,
    fit_of,
    fitted_labels,
    fitted_nodes,
    fitted_on,
    regrouped,
    trained_fits,
)
from pace.models.unit_rows import LABELS, NEIGHBOURHOOD, row_key, rows_by, unit_rows
from pace.registry import MODELS


def sized(text: str, features: int, hidden: int, layers: int, classes: int) -> Model:
    """The model that `text` names, with `layers - 1` hidden layers of one width."""
    kind, given = split_settings(text)
    factory: Any = MODELS.factory(kind)
    if not hasattr(factory, "sized"):
        return _from_factory(kind, (features, classes), given)
    _, settings = MODELS.parse(kind, given)
    model: Model = factory.sized(features, hidden, layers, classes, **settings)
    return model


def make(kind: str, widths: Sequence[int], dropout: float = 0.5, **settings: Any) -> Model:
    """The model of that kind; one that PACE does not ship must be allowed here."""
    factory = MODELS.factory(kind)
    if not hasattr(factory, "sized"):
        settings.pop("structure", None)
        return _from_factory(kind, widths, settings)
    _, settings = MODELS.parse(kind, settings)
    model: Model = factory(tuple(widths), dropout, **settings)
    return model


def _from_factory(kind: str, widths: Sequence[int], settings: Mapping[str, Any]) -> TorchModel:
    """The model of a function, not a class of models, that gives a torch module."""
    if settings or len(widths) != 2:
        raise SettingError(f"the model {kind!r} has no settings of ours: its factory has them")
    try:
        return from_torch(MODELS.factory(kind), *widths, name=MODELS.code(kind) or kind)
    except TypeError as error:
        raise SettingError(
            f"the model {kind!r} cannot be made ({error}): expected a class or a function of features "
            "and classes that gives a torch.nn.Module"
        ) from error


def kind_of(model: Model) -> str:
    """The name a model is listed under, or that of its code, `package.module:Name`."""
    if isinstance(model, TorchModel):
        if not model.name:
            raise SettingError(
                "a job carries no code: a module needs a name, from_torch(…, name='package.module:f')"
            )
        return model.name
    return MODELS.name_of(type(model))


def in_words(model: Model) -> str:
    """What it is told, in a sentence: `, dropout 0.5, heads 8`; a module of one's own by its name."""
    if isinstance(model, TorchModel):
        return f", {model.name}" if model.name else ""
    settings = {"dropout": model.dropout, **settings_of(model)}
    return "".join(f", {key} {value}" for key, value in settings.items())


def settings_of(model: Model) -> dict[str, object]:
    """What a model was told beside its widths and dropout."""
    if isinstance(model, TorchModel):
        return {"structure": model.structure}
    named = (field.name for field in fields(model))  # type: ignore[arg-type]
    return {name: getattr(model, name) for name in named if name not in MODELS.common}
