"""What everybody agrees on beforehand, and what a one-round method is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from pace.calibration import calibrate
from pace.errors import SettingError
from pace.gcn import GCN, Field, Pass
from pace.graph import Graph
from pace.numerals import KINDS
from pace.params import Params
from pace.weighing import Weights

SEED = 104729  # the first of the paper's five

Message = Mapping[str, Tensor]  # all that any method sends, either way
Gate = Callable[[Tensor, Tensor, Tensor], float]  # (Local logits, External logits, labels) -> alpha


class Model(Protocol):
    """A network as a function of its parameters. The shared GCN is one; a method may bring another."""

    @property
    def dropout(self) -> float: ...

    def start(self, seed: int) -> Params:
        """W_0."""

    def field(self, graph: Graph, centers: Tensor | None = None) -> Field:
        """The constants of a pass that gives the logits of `centers`, or of every node."""

    def forward(
        self, params: Params, field: Field, drop: Callable[[Tensor], Tensor] = ...
    ) -> Pass: ...

    def __call__(self, params: Params, graph: Graph) -> Pass: ...


class Penalty(Protocol):
    """A term added to the training loss. `outputs` are each layer's, at the training nodes."""

    def __call__(
        self, params: Params, start: Params, outputs: tuple[Tensor, ...], labels: Tensor
    ) -> Tensor: ...


@dataclass(frozen=True)
class Recipe:
    """How a client trains: full-batch steps from W_0, the last checkpoint kept.

    `decay` is the coupled kind: decay · W joins the gradient, of biases too.
    """

    epochs: int = 100
    rate: float = 0.01
    decay: float = 5e-4
    optimiser: str = "adam"  # or "sgd"
    momentum: float = 0.0  # of sgd
    clip: float | None = None  # the largest norm of a step's whole gradient
    penalty: Penalty | None = None

    def __post_init__(self) -> None:
        if self.optimiser not in ("adam", "sgd"):
            raise SettingError(f"optimiser is {self.optimiser!r}, expected 'adam' or 'sgd'")
        if self.epochs < 0:
            raise SettingError(f"epochs is {self.epochs}, expected 0 or more")


class Method(Protocol):
    """A one-round method. A client trains by `recipe`, then shares and later adopts; the server merges.

    A method is a frozen dataclass that inherits from this class: its settings are its fields, and
    it has no state. Some parts have defaults; `share`, `merge` and `adopt` are its own.
    """

    @property
    def recipe(self) -> Recipe:
        """How its clients train. Methods with equal recipes and networks share one training."""
        return Recipe()

    @property
    def gate(self) -> Gate:
        """How a receiver chooses alpha from Local logits, External logits and labels: CNLL."""
        return calibrate

    @property
    def numbers(self) -> str:
        """How its messages are written where nobody says otherwise: exactly."""
        return KINDS[0]

    def network(self, gcn: GCN) -> Model:
        """The network its clients train: the shared GCN, unless the method brings its own."""
        return gcn

    def share(self, local: Params, graph: Graph, federation: Federation) -> Message:
        """What a trained client sends."""
        ...

    def check(self, upload: Message, federation: Federation) -> None:
        """Refuse an upload of the agreed shapes whose numbers no honest client would send."""
        return

    def merge(self, uploads: Uploads, federation: Federation) -> Iterable[Message]:
        """One return for each upload, in order."""
        ...

    def adopt(self, local: Params, returned: Message, federation: Federation) -> Params:
        """The External model: parameters of the same network."""
        ...

    def externals(
        self, local: Params, returned: Message, federation: Federation
    ) -> tuple[Params, ...]:
        """All External models, for a method that returns more than one."""
        return (self.adopt(local, returned, federation),)

    def weigh(self, sets: Sequence[Tensor], labels: Tensor) -> Weights:
        """A weight for each set of validation logits, Local's and the Externals': by the gate."""
        alpha = self.gate(sets[0], sets[1], labels)
        return 1 - alpha, alpha


class Uploads(Protocol):
    """The uploads of a federation, read as often as a method likes and never held all at once."""

    def __iter__(self) -> Iterator[Message]: ...
    def __len__(self) -> int: ...


@dataclass(frozen=True)
class Federation:
    """The shared model, the method and the seed of the public start W_0."""

    gcn: GCN
    method: Method
    seed: int = SEED
    epochs: int | None = None  # in place of the recipe's own budget
    job: str = ""  # the digest of the job it comes from: equal settings, yet two federations
    numbers: str = ""  # on the wire: float32, float16 or int8; if not said, the method's own

    def __post_init__(self) -> None:
        if not self.numbers:
            object.__setattr__(self, "numbers", self.method.numbers)
        if not -(2**63) <= self.seed < 2**64:
            raise SettingError(f"the seed is {self.seed}, expected a whole number of 64 bits")
        if self.numbers not in KINDS:
            raise SettingError(f"numbers are {self.numbers!r}, expected one of {', '.join(KINDS)}")

    @property
    def recipe(self) -> Recipe:
        recipe = self.method.recipe
        return recipe if self.epochs is None else replace(recipe, epochs=self.epochs)

    @cached_property
    def model(self) -> Model:
        return self.method.network(self.gcn)

    @cached_property
    def start(self) -> Params:
        """W_0, the same for every client."""
        return self.model.start(self.seed)

    def random(self, purpose: str) -> torch.Generator:
        """The stream of random numbers that the seed gives to one purpose."""
        key = hashlib.sha256(f"{purpose} {self.seed}".encode()).digest()
        return torch.Generator().manual_seed(int.from_bytes(key[:8], "little") >> 1)

    @cached_property
    def digest(self) -> bytes:
        """Eight bytes that differ when any setting, what follows from it, or W_0 itself differs."""
        settings = json.dumps(describe((self, self.recipe, self.model)), sort_keys=True)
        sha = hashlib.sha256(settings.encode())
        for name, value in self.start.items():
            sha.update(name.encode())
            sha.update(value.contiguous().numpy().tobytes())
        return sha.digest()[:8]


def describe(setting: Any) -> Any:
    """A setting as plain data: dataclasses by kind and field, functions by name."""
    if is_dataclass(setting) and not isinstance(setting, type):
        values = {field.name: describe(getattr(setting, field.name)) for field in fields(setting)}
        return {"kind": type(setting).__name__, **values}
    if isinstance(setting, tuple | list):
        return [describe(item) for item in setting]
    if callable(setting):
        if not hasattr(setting, "__name__"):
            raise SettingError(
                f"{setting!r} has no name that a digest could hold: use a function or a dataclass"
            )
        return setting.__name__
    return setting
