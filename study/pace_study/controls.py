"""Methods that only the study runs: controls and other readings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from typing import ClassVar

from pace.gates import Gate, Mixture
from pace.graph import Graph
from pace.merging import RANK, solve_rows
from pace.methods import LABELS, Pace, Regressed, Regression, fitted_rows, make
from pace.params import Params
from pace.protocol import KINDS, External, Federation, Message, Method, Uploads
from pace.registry import METHODS
from pace.training import Recipe
from pace_study.baselines.fedrcl import FedRCL

RELEASED = Recipe(epochs=5, rate=0.1, decay=1e-3, optimiser="sgd", clip=10.0)  # FedRCL's release


@dataclass(frozen=True)
class Rounded(Pace):
    """PACE as published, with messages in int8."""

    numbers: str = KINDS[2]


@dataclass(frozen=True)
class Tempered(Pace):
    """PACE with a temperature: the receiver's two weights need not sum to one."""

    gate: Gate = Mixture()  # noqa: RUF009 - a frozen setting
    numbers: str = KINDS[0]


@dataclass(frozen=True)
class OwnRidge(Regressed):
    """`pace-ridge`'s regressions on the receiver's own training rows alone. Nothing is sent."""

    own: float | None = None

    def share(self, local: Params, graph: Graph, federation: Federation) -> Message:
        return {}

    def merge(self, uploads: Uploads, federation: Federation) -> Iterator[Message]:
        return repeat({}, len(uploads))

    def externals(
        self, returned: Message, graph: Graph, fit: str, federation: Federation
    ) -> list[External]:
        externals: list[External] = []
        for name in self.maps:
            rows, labels = fitted_rows(graph, name, fit, federation.model.classes)
            for strength, answer in zip(
                self.strengths, solve_rows(rows, labels, self.strengths), strict=True
            ):
                title = f"own ridge on {name}, λ = {strength:g}"
                externals.append(External({name: answer.float()}, title, Regression(name, fit)))
        return externals


@dataclass(frozen=True)
class Alone(OwnRidge):
    """A site that stays alone and uses every label: Local and its own ridges, all maps, refitted."""

    every_label: ClassVar[bool] = True

    strengths: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)

    @property
    def maps(self) -> tuple[str, ...]:
        """Without neighbours' labels, by which a site alone gains nothing."""
        return tuple(name for name in super().maps if name != LABELS)


CONTROLS: Mapping[str, Callable[[], Method]] = {
    "fedrcl-released": partial(FedRCL, solver=RELEASED, levels=(0,)),
    "pace-int8": Rounded,
    "pace-tempered": Tempered,
    "pace-ridge-alone": OwnRidge,
    "alone": Alone,
}


def study_method(name: str, rank: int | None = RANK) -> Method:
    """A method by the study's name for it; `rank` is PACE's and its variants'."""
    if name in CONTROLS:
        method = CONTROLS[name]()
        return replace(method, rank=rank) if isinstance(method, Pace) else method
    return make(name, rank)


def spelled(name: str) -> str:
    """The one spelling of a method's name and settings."""
    return name if name in CONTROLS else METHODS.expand(name)[0]
