"""What all parties agree on beforehand."""

import hashlib
import json
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

import torch

from pace.errors import SettingError
from pace.models import Model, Network
from pace.params import Params
from pace.protocol.method import ClosedForm, Method, Summable
from pace.protocol.number_formats import KINDS
from pace.training import Recipe

SEEDS = (104729, 130363, 155921, 181081, 206639)  # the paper's
SEED = SEEDS[0]
LEAST_SEALED = 3  # clients; of the sum of two, each knows the other's part


@dataclass(frozen=True)
class Federation:
    """What all parties agree on before anything is sent; its digest is in every message.

    Example:
        >>> from pace import GCN, Federation, Pace
        >>> federation = Federation(GCN((12, 8, 3)), Pace(), seed=7)
        >>> {name: tuple(value.shape) for name, value in federation.start.items()}["0.weight"]
        (8, 12)
    """

    model: Model
    """The shared model."""
    method: Method
    """How clients train, what they send, how it is merged and adopted."""
    seed: int = SEED
    """Of the public start W_0."""
    epochs: int | None = None
    """Training steps, in place of the recipe's own budget."""
    job: str = ""
    """The digest of the job it comes from: equal settings, yet two federations."""
    numbers: str = ""
    """How numbers are written: float32, float16 or int8; if not said, the method's own."""
    rate: float | None = None
    """The learning rate, in place of the recipe's own."""
    decay: float | None = None
    """The weight decay, in place of the recipe's own."""
    sealed: bool = False
    """Whether the server sees no upload, only the sum of all clients' statistics."""
    clients: int = 0
    """How many clients a sealed sum is over."""

    def __post_init__(self) -> None:
        if isinstance(self.model, torch.nn.Module):
            raise TypeError("give pace.from_torch(module, features, classes), not a torch module")
        object.__setattr__(self, "numbers", self.numbers or self.method.numbers)
        if not -(2**63) <= self.seed < 2**64:
            raise SettingError(f"the seed is {self.seed}, expected a whole number of 64 bits")
        if self.numbers not in KINDS:
            raise SettingError(f"numbers are {self.numbers!r}, expected one of {', '.join(KINDS)}")
        if self.sealed:
            check_sealable(self.method, type(self.method).__name__, self.clients)

    @property
    def recipe(self) -> Recipe:
        own = {"epochs": self.epochs, "rate": self.rate, "decay": self.decay}
        chosen = {name: value for name, value in own.items() if value is not None}
        return replace(self.method.recipe, **chosen)  # type: ignore[arg-type]

    @property
    def closed_form(self) -> ClosedForm | None:
        """The method, where its models are regressions on rows."""
        return self.method if isinstance(self.method, ClosedForm) else None

    @cached_property
    def network(self) -> Network:
        """What clients train: the shared model, or what the method makes of it."""
        return self.method.network(self.model)

    @cached_property
    def start(self) -> Params:
        """W_0, the same for every client."""
        return self.network.start(self.seed)

    def random(self, purpose: str) -> torch.Generator:
        """The stream of random numbers that the seed gives to one purpose."""
        key = hashlib.sha256(f"{purpose} {self.seed}".encode()).digest()
        return torch.Generator().manual_seed(int.from_bytes(key[:8], "little") >> 1)

    def describe(self) -> dict[str, Any]:
        """The set-up as plain data: every setting, and the recipe and network that follow from them."""
        derived = {"recipe": describe(self.recipe), "network": describe(self.network)}
        settings = {**describe(self), **derived}
        if self.method.version > 1:  # the first needs no mention
            settings["method"]["version"] = self.method.version
        return settings

    @cached_property
    def digest(self) -> bytes:
        """Eight bytes that differ when any setting, what follows from it, or W_0 itself differs."""
        settings = self.describe()
        derived = [settings.pop("recipe"), settings.pop("network")]
        sha = hashlib.sha256(json.dumps([settings, *derived], sort_keys=True).encode())
        for name, value in self.start.items():
            sha.update(name.encode())
            sha.update(value.contiguous().numpy().tobytes())
        return sha.digest()[:8]


def check_sealable(method: Method, name: str, clients: int = LEAST_SEALED) -> None:
    """Refuse a method that needs more than a sum, and too few clients to hide one's part of it."""
    if not isinstance(method, Summable) or method.needs:
        raise SettingError(
            f"{name} cannot be sealed: {method.needs}, and only sums are seen; take pace or fedavg"
        )
    if clients < LEAST_SEALED:
        raise SettingError(f"{clients} sites cannot be sealed, expected {LEAST_SEALED} or more")


def describe(setting: Any) -> Any:
    """A setting as plain data: dataclasses by kind and field, functions by name."""
    if is_dataclass(setting) and not isinstance(setting, type):
        values = {part.name: describe(getattr(setting, part.name)) for part in fields(setting)}
        return {"kind": type(setting).__name__, **values}
    if isinstance(setting, tuple | list):
        return [describe(item) for item in setting]
    if callable(setting):
        if not hasattr(setting, "__name__"):
            raise SettingError(f"{setting!r} has no name to digest: take a function or a dataclass")
        return setting.__name__
    return setting
