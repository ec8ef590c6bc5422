"""Methods that only the study runs: controls and other readings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from pace.gates import Fixed, Gate, Mixture
from pace.graph import Graph
from pace.merging import RANK
from pace.methods import Local, Pace, Regressed, Regression, make
from pace.models import ALL, FITS, LABELS, fitted_labels, unit_rows
from pace.protocol import KINDS, External, Federation, Message, Method
from pace.registry import METHODS
from pace.task import called, nll
from pace.training import Recipe, logistic_regression
from pace_study.baselines.fedrcl import FedRCL
from pace_study.baselines.generative import Dense, Ghost, Spire
from pace_study.baselines.rivals import GaussianHead, Linear, OpFGL, Spear
from pace_study.rounds import ROUNDS, Played

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
class OwnRidge(Local, Regressed):
    """`pace-ridge`'s regressions on the receiver's own training rows alone. Nothing is sent."""

    own: float | None = None
    gate = Regressed.gate

    def blank_return(self, federation: Federation) -> Message:
        return {}

    def externals(
        self, returned: Message, graph: Graph, fit: str, federation: Federation
    ) -> list[External]:
        externals: list[External] = []
        for name in self.maps:
            regression = Regression(name, fit)
            gram = self.gram(graph, regression, federation)
            nothing = graph.x.new_zeros(gram.columns, federation.model.classes)
            answers = gram.own_residuals([nothing] * len(self.strengths), self.strengths)
            for strength, answer in zip(self.strengths, answers, strict=True):
                title = f"own ridge on {name}, λ = {strength:g}"
                externals.append(External({name: answer.float()}, title, regression.predict))
        return externals


@dataclass(frozen=True)
class Alone(OwnRidge):
    """A site that stays alone and uses every label: Local and its own ridges, all maps, refitted."""

    version: ClassVar[int] = 2  # a guarded gate
    every_label: ClassVar[bool] = True

    strengths: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)

    @property
    def maps(self) -> tuple[str, ...]:
        """Without neighbours' labels, by which a site alone gains nothing."""
        return tuple(name for name in super().maps if name != LABELS)


@dataclass(frozen=True)
class Logistic(OwnRidge):
    """A multinomial logistic regression on a site's own features, no edges. Nothing is sent.

    min_W,b Σ_v CE(h_v W + b, y_v) + |W|² / 2C over training nodes; the C of the best validation NLL is
    used on every labelled node. It has seen the validation labels, so no gate weighs it beside Local.
    """

    hops: tuple[int, ...] = (0,)
    strengths: tuple[float, ...] = (1.0, 10.0, 100.0)  # C, the inverse of a ridge

    @property
    def gate(self) -> Gate:
        return Fixed(1.0)

    def externals(
        self, returned: Message, graph: Graph, fit: str, federation: Federation
    ) -> list[External]:
        (name,), classes = self.maps, federation.model.classes
        held_out, truth = unit_rows(graph, 0)[graph.val], fitted_labels(graph, FITS[1])
        fits = logistic(*Regression(name, FITS[0]).fitted_rows(graph, classes), self.strengths)
        losses = [nll(held_out @ w + b, truth) if len(truth) else 0.0 for w, b in fits]
        best = self.strengths[losses.index(min(losses))]
        ((weight, bias),) = logistic(*Regression(name, ALL).fitted_rows(graph, classes), [best])
        return [External({"weight": weight, "bias": bias}, "logistic regression", Linear(hop=0))]


def logistic(
    rows: Tensor, labels: Tensor, inverses: Sequence[float]
) -> list[tuple[Tensor, Tensor]]:
    """W (columns, classes) and b of a multinomial logistic regression, one for each inverse strength.

    W lies in the span of the rows: with H = U S Vᵀ, W = V A has the length of A, so fewer rows than
    columns are solved in the coordinates U S, from the eigenproblem of H Hᵀ.
    """
    nodes, columns, classes = *rows.shape, labels.shape[1]
    if not nodes:
        return [(rows.new_zeros(columns, classes), rows.new_zeros(classes))] * len(inverses)
    rows, basis = rows.double(), None
    if nodes < columns:
        values, vectors = torch.linalg.eigh(rows @ rows.T)
        kept = values > values[-1] * nodes * torch.finfo(values.dtype).eps
        lengths, vectors = values[kept].sqrt(), vectors[:, kept]
        rows, basis = vectors * lengths, rows.T @ (vectors / lengths)
    fits = []
    for inverse in inverses:
        found = logistic_regression(rows, called(labels), classes, 1 / (inverse * nodes))
        weight = found[:-1] if basis is None else basis @ found[:-1]
        fits.append((weight.float(), found[-1].float()))
    return fits


CONTROLS: Mapping[str, Callable[[], Method]] = {
    "fedrcl-released": partial(FedRCL, solver=RELEASED, levels=(0,)),
    "pace-int8": Rounded,
    "pace-tempered": Tempered,
    "pace-ridge-alone": OwnRidge,
    "alone": Alone,
    "logistic": Logistic,
    "spear": Spear,
    "gh-ofl": GaussianHead,
    "o-pfgl": OpFGL,
    "spire": Spire,
    "ghost": Ghost,
    "dense": Dense,
}


def study_method(
    name: str, rank: int | None = RANK, graphs: Sequence[Graph] = (), device: str = "cpu"
) -> Method:
    """A method by the study's name for it; `rank` is PACE's and its variants'.

    A method over rounds is played on the clients' graphs, on the device.
    """
    if name in ROUNDS:
        return Played(ROUNDS[name], graphs, device)
    if name in CONTROLS:
        method = CONTROLS[name]()
        return replace(method, rank=rank) if isinstance(method, Pace) else method
    return make(name, rank)


def spelled(name: str) -> str:
    """The one spelling of a method's name and settings."""
    return name if name in CONTROLS or name in ROUNDS else METHODS.expand(name)[0]
