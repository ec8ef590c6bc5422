"""FedAux-1R: models that smooth along a learnt line, mixed by line (Zhuo et al., 2025)."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from pace.errors import SettingError
from pace.graph import Graph
from pace.models import Field, Model
from pace.params import Params
from pace_study.baselines import only_gcn
from pace_study.baselines.fedpub import Headed, Masked, MaskedMixing


@dataclass(frozen=True)
class FedAux(MaskedMixing):
    """Every client's own average of models whose auxiliary vectors are alike (Zhuo et al., 2025).

    W_i* = Σ_j softmax_j(τ cos(a_i, a_j)) W_j, evaluated with the receiver's own masks.

    a_i is the auxiliary vector, part of the model and of W_0; nothing is trained after the return.
    The repository holds three variants. This is the one its README starts: FedPub's masks over two
    convolutions and the head, which stay at home, with GCN layers, σ = 1, τ = 10 and a from U(0, 1).
    The masks make the spread over seeds that the paper has (Cora ± 7, PubMed ± 10): without them
    PubMed is 82.6 ± 1.9. The README's own σ = 10 takes Cora to 44.4, where the paper has 65.5.
    """

    needs: ClassVar[str] = "it mixes clients whose lines are alike"
    signature: ClassVar[str] = "line"

    sigma: float = 1.0

    def __post_init__(self) -> None:
        if self.sigma < 0.2:
            raise SettingError(f"sigma is {self.sigma}, expected 0.2 or more")

    def network(self, model: Model) -> Masked:
        plain = Headed.on(only_gcn(model, "FedAux"))
        return Masked(Smoothed(plain.body, plain.classes, self.sigma))


@dataclass(frozen=True)
class Smoothed(Headed):
    """H = dropout(ReLU(GCN(X))),   Z = D^-1 κ H,   logits = [H ; Z] W^T + b

    κ_uv = exp(-(s_u - s_v)² / σ²) over all pairs of nodes, with s_v = cos(h_v, a) the place of v on
    the line a, and D its row sums. Whatever the centres, every node is needed.
    """

    sigma: float

    def start(self, seed: int) -> dict[str, Tensor]:
        generator, width = torch.Generator().manual_seed(seed), self.body.classes
        drawn = self.initial(generator, 2 * width)  # before the line, from one stream
        return drawn | {"line": torch.rand(width, generator=generator)}

    def field(self, graph: Graph, centers: Tensor | None = None) -> Field:
        below = self.body.field(graph)
        goal = below.centers[-1] if centers is None else centers.nonzero().flatten()
        among = torch.arange(goal.shape[0], device=goal.device)  # not `len`: it is exported
        return replace(below, centers=(*[goal] * len(below.centers), among))

    def head_rows(self, hidden: Tensor, params: Params, field: Field) -> Tensor:
        place = cosine_similarity(hidden, params["line"][None], dim=1)
        goal = field.centers[0]
        return torch.cat([hidden[goal], smoothed(hidden, place, goal, self.sigma)], dim=1)


def smoothed(hidden: Tensor, place: Tensor, goal: Tensor, sigma: float) -> Tensor:
    """The rows `goal` of D^-1 κ H in time and memory linear in the nodes.

        exp(-(s - t)²/σ²) = Σ_k φ_k(s) φ_k(t),   φ_k(s) = e^{-s²/σ²} s^k sqrt((2/σ²)^k / k!)

    |s|, |t| ≤ 1, so the terms shrink as (2/σ²)^k / k!, and those below rounding are left out.
    """
    waves = basis(place, sigma)  # (n, terms)
    ahead = waves[goal]
    return (ahead @ (waves.t() @ hidden)) / (ahead @ waves.sum(0))[:, None]


def basis(place: Tensor, sigma: float) -> Tensor:
    """φ_0(s), ..., φ_K(s), a row for each node."""
    rate = 2 / sigma**2
    scales = [1.0]  # (2/σ²)^k / k!
    while scales[-1] > 2.0**-26:  # half a unit in the last place of float32
        scales.append(scales[-1] * rate / len(scales))
    roots = place.new_tensor([math.sqrt(scale) for scale in scales])
    powers = place[:, None] ** torch.arange(len(scales), device=place.device)
    return powers * roots * (-(place**2) / sigma**2).exp()[:, None]
