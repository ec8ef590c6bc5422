"""What a model folder predicts with, in parts: kinds of network, their weights, and how they add up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from pace.errors import SettingError
from pace.methods.baselines.headed import Headed
from pace.methods.baselines.masked import NEGLIGIBLE, Masked, mask_of, unmasked
from pace.methods.beyond.ridge import SCALE, Regressed
from pace.models import MODELS, Model, TorchModel, kind_of, settings_of
from pace.models.base import Network
from pace.params import Params
from pace.protocol.method import Method
from pace.runtimes.files.model import SiteModel


@dataclass(frozen=True, eq=False)
class Part:
    """One network of the sum: logits = Σ weight · part."""

    name: str
    weight: float
    kind: str
    widths: tuple[int, ...]
    settings: dict[str, Any]
    params: Params
    """By PACE's names, `LAYER.…`."""

    @property
    def about(self) -> dict[str, object]:
        listed = {"name": self.name, "weight": self.weight, "kind": self.kind}
        return {**listed, "widths": list(self.widths), "settings": self.settings}


def parts(model: SiteModel) -> list[Part]:
    """Local, and every External that has a weight.

    Raises:
        SettingError: a network of the method's, or of one's own, has no form outside PACE.
    """
    return list(_parts(model))


def _parts(model: SiteModel) -> Iterator[Part]:
    federation = model.job.federation
    method = federation.method
    local, *weights = model.weights
    yield _part("Local", local, federation.network, model.local)
    for name, weight, params in zip(method.parts, weights, model.externals, strict=True):
        if not weight:
            continue
        if isinstance(method, Regressed):
            yield _ridge(name, weight, params)
        elif type(method).logits is Method.logits:
            yield _part(name, weight, federation.network, params)
        else:
            raise SettingError(
                f"the models that {model.job.method} returns are computed in a way of its own and "
                "cannot be exported: predict with `pace client predict`"
            )


def _part(name: str, weight: float, network: Network, params: Params) -> Part:
    if isinstance(network, Masked):
        return _part(name, weight, network.inner, folded(params))
    if isinstance(network, Headed):
        last = len(network.body.widths) - 1
        renamed = {key.replace("head.", f"{last}."): value for key, value in params.items()}
        widths = (*network.body.widths, network.classes)
        return Part(name, weight, "headed", widths, {}, renamed)
    if isinstance(network, TorchModel):
        raise SettingError(
            f"the model is a network of one's own ({network.name or 'a torch module'}), whose code "
            "PACE does not have: load its parameters from local.safetensors and external.safetensors"
        )
    known: tuple[type, ...] = tuple(kind for kind in MODELS.values() if isinstance(kind, type))
    if not isinstance(network, known):
        raise SettingError(
            f"a {type(network).__name__} network, which the method brings, cannot be exported: "
            "predict with `pace client predict`"
        )
    model: Model = network  # type: ignore[assignment]
    settings = settings_of(model)
    return Part(name, weight, kind_of(model), model.widths, settings, params)


def folded(params: Params) -> dict[str, Tensor]:
    """Weights times their masks, as evaluation takes them."""
    masks = {name: value * (value.abs() >= NEGLIGIBLE) for name, value in params.items()}
    return {
        name: value * masks[mask_of(name)] if mask_of(name) in params else value
        for name, value in unmasked(params).items()
    }


def _ridge(name: str, weight: float, params: Params) -> Part:
    ((hop, answer),) = params.items()
    features, classes = answer.shape
    settings = {"hop": int(hop.removeprefix("hop")), "scale": SCALE}
    return Part(
        name, weight, "ridge", (features, classes), settings, {"0.weight": answer.t().contiguous()}
    )
