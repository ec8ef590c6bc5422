"""Methods that only the study runs: controls and other readings, and how it names variants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat

from torch import Tensor

from pace.gates.mixture import RIDGE, Weights, weigh
from pace.graph import Graph
from pace.merging.carrier import RANK
from pace.merging.ridge import solve_rows
from pace.methods import FedRCL, Pace, make
from pace.methods.beyond.ridge import Regressed, training_rows
from pace.params import Params
from pace.protocol.federation import Federation
from pace.protocol.method import Message, Method, Uploads
from pace.protocol.number_formats import KINDS
from pace.training.recipe import Recipe

RELEASED = Recipe(epochs=5, rate=0.1, decay=1e-3, optimiser="sgd", clip=10.0)  # FedRCL's release


@dataclass(frozen=True)
class Rounded(Pace):
    """PACE as published, with messages in int8."""

    numbers: str = KINDS[2]


@dataclass(frozen=True)
class Tempered(Pace):
    """PACE with a temperature: the receiver's two weights need not sum to one."""

    ridge: float = RIDGE
    level: float = 1.0
    numbers: str = KINDS[0]

    def weigh(self, sets: Sequence[Tensor], labels: Tensor) -> Weights:
        return weigh(sets, labels, self.ridge)


@dataclass(frozen=True)
class OwnRidge(Regressed):
    """`pace-ridge`'s regressions on the receiver's own training rows alone. Nothing is sent."""

    own: float | None = None

    def share(self, local: Params, graph: Graph, federation: Federation) -> Message:
        return {}

    def merge(self, uploads: Uploads, federation: Federation) -> Iterator[Message]:
        return repeat({}, len(uploads))

    def externals(
        self, local: Params, returned: Message, graph: Graph, federation: Federation
    ) -> tuple[Params, ...]:
        return tuple(
            {f"hop{hop}": answer.float()}
            for hop in self.hops
            for answer in solve_rows(
                *training_rows(graph, hop, federation.model.classes), self.strengths
            )
        )


CONTROLS: Mapping[str, Callable[[], Method]] = {
    "fedrcl-released": partial(FedRCL, solver=RELEASED, levels=(0,)),
    "pace-int8": Rounded,
    "pace-tempered": Tempered,
    "pace-ridge-alone": OwnRidge,
}
VARIANTS = {  # the study's names for settings of a method
    "pace-duo-float32": "pace-duo:numbers=float32",
    "pace-duo-simplex": "pace-duo:ridge=1e6,level=1",
    "pace-duo-free": "pace-duo:level=1",
    "pace-duo-guard20": "pace-duo:level=0.2",
    "pace-duo-guard5": "pace-duo:level=0.05",
    "pace-ridge-uncorrected": "pace-ridge:own=none",
    "pace-ridge-neighbours": "pace-ridge:hops=2",
    "pace-ridge-features": "pace-ridge:hops=0",
    "pace-ridge-one": "pace-ridge:strengths=3",
    "pace-ridge-every-class": "pace-ridge:smallest_class=1,nodes_per_row=1",
    "pace-ridge-float32": "pace-ridge:numbers=float32",
}


def study_method(name: str, rank: int | None = RANK) -> Method:
    """A method by the study's name for it; `rank` is PACE's and its variants'."""
    if name in CONTROLS:
        method = CONTROLS[name]()
        return replace(method, rank=rank) if isinstance(method, Pace) else method
    return make(VARIANTS.get(name, name), rank)
