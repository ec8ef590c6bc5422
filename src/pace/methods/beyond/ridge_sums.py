"""The ridge regressions from sums alone, which can be added up under encryption. Not in the paper."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from pace.errors import WeightError
from pace.graph import Graph
from pace.merging import SiteSums, nystrom, sketched, solve_sums
from pace.methods.beyond.ridge import NO_NODE, Regressed, Sums, added, fitted_rows, key, omega_of
from pace.models import LABELS, RowTable
from pace.params import Params
from pace.protocol import KINDS, Explanation, Federation, Message, Reading, Summable, Uploads

FEW_CLASSES = 16  # up to which twelve directions are enough
SINGLE = 1e-3  # from one, the length of one node's row


@dataclass(frozen=True)
class RidgeSums(Regressed, Summable):
    """Everybody's ridge regression from sums over clients, mixed with Local.

    Upload: B = HᵀY and S = HᵀHΩ of each hop, or the upper half of HᵀH where features are few.

    The server needs their sums over clients and nothing else. With HᵀH the answer is the ridge
    regression on all training nodes pooled, however they are divided. Numbers are float32: a sketch
    of G is inverted, which int8 does not survive.
    """

    sums_reveal: ClassVar[str] = (
        "Who reads the sums and holds a node, its features and its edges, can test whether some site "
        "trained on it, but not which."
    )

    numbers: str = KINDS[0]

    def share(self, local: Params, graph: Graph, federation: Federation) -> dict[str, Tensor]:
        message, graph = {}, self.grouped(graph)
        for name, fit in self.sent():
            for part, value in self.sums(graph, name, fit, federation).items():
                message[f"{key(name, fit)}/{part}"] = value
        return message

    def sums(self, graph: Graph, name: str, fit: str, federation: Federation) -> dict[str, Tensor]:
        """G or S with tr G, and B, added up over blocks of rows, as they are sent."""
        blocks = graph.blocks() if isinstance(graph, RowTable) else (graph,)
        classes, omega = federation.model.classes, omega_of(name, federation)
        fitted = (fitted_rows(block, name, fit, classes) for block in blocks)
        parts: Iterator[Sums] = (sketched(*each, omega) for each in fitted)
        products, sums, trace = reduce(lambda a, b: added([a, b]), parts)
        if omega is None:
            half = products[tuple(torch.triu_indices(*products.shape))]
            return {"gram": half.float(), "class sums": sums.float()}
        sketch = {"sketch": products.float(), "nodes": trace.float()[None]}
        return {**sketch, "class sums": sums.float()}

    def rank(self, classes: int) -> int:
        """A regression tells `classes` classes apart in one direction fewer."""
        least = super().rank(classes)
        return least if classes <= FEW_CLASSES else max(least, classes - 1)

    def explain(self, uploads: Uploads, federation: Federation) -> Explanation:
        sums = next(iter(uploads))[f"{self.maps[0]}/class sums"]
        single = int(((sums.norm(dim=0) - 1).abs() < SINGLE).sum())
        told = (
            "The class sums are the sum of your training nodes' features, scaled to length one, over "
            "each class. A class with one training node sends that node's features: here "
            f"{single} of {sums.shape[1]} classes look like that. Meant for jobs whose sums are sealed."
        )
        return replace(super().explain(uploads, federation), sentences=(NO_NODE, told))

    def statistic_of(self, upload: Message, federation: Federation) -> dict[str, Tensor]:
        return {name: value.double() for name, value in upload.items()}

    def check(self, upload: Message, federation: Federation) -> None:
        super().check(upload, federation)
        self.check_total(upload, 1, federation)

    def check_total(self, total: Message, clients: int, federation: Federation) -> None:
        """Of rows of length one and labels of one: Σ_c |B_jc| ≤ Σ_v |h_vj| ≤ √(n G_jj), n = tr G.

        Of a sketch only n is known. What a liar says of nodes that he might have passes.
        """
        for name, fit in (pair for pair in self.sent() if pair[0] != LABELS):
            sums = total[f"{key(name, fit)}/class sums"].double()
            if (half := total.get(f"{key(name, fit)}/gram")) is not None:
                squares = full(half.double(), len(sums)).diagonal()
                limit = (squares.sum().clamp_min(0) * squares).sqrt()  # nan below zero
            else:
                limit = total[f"{key(name, fit)}/nodes"].double()
            most = sums.abs().sum(1)
            if not (most <= 1.01 * limit + 0.01 * clients).all():
                raise WeightError(
                    f"{name}'s class sums go up to {float(most.max()):.3g}, more than its rows of "
                    "length one can add up to"
                )

    def reading(self, uploads: Uploads, federation: Federation) -> Reading:
        """B and G, or a sketch of G: F with FᵀF = G spans the rows."""
        total, factors = self.total(uploads, federation), {}
        for name in self.maps[: len(self.hops)]:
            if (omega := omega_of(name, federation)) is not None:
                factors[name] = nystrom(total[f"{name}/sketch"], omega).float()
                continue
            side = federation.model.features
            values, vectors = torch.linalg.eigh(full(total[f"{name}/gram"], side))
            factors[name] = (values.clamp_min(0).sqrt()[:, None] * vectors.T).float()
        sums = total[f"{self.maps[0]}/class sums"].float()
        return self.read_answer(self.answer(total, federation), factors, sums)

    def answer(self, total: Message, federation: Federation) -> dict[str, Tensor]:
        def solve(name: str, fits: Sequence[str]) -> Tensor:
            omega = omega_of(name, federation)
            return solve_sums(summed_fits(total, name, fits, omega), omega, self.strengths)

        return self.returned(solve)

    def site_sums(self, uploads: Uploads, federation: Federation) -> dict[str, SiteSums]:
        """Exact where G was sent, else by what its sketch knows of it."""
        found = {}
        for name in self.maps:
            omega, fits = omega_of(name, federation), self.parts(name, self.fits[-1])
            statistics = (self.statistic_of(upload, federation) for upload in uploads)
            each = [summed_fits(statistic, name, fits, omega) for statistic in statistics]
            sums = torch.stack([site[1] for site in each])
            if omega is None:
                grams = torch.stack([site[0] for site in each])
                found[name] = SiteSums(grams, sums, grams.diagonal(dim1=1, dim2=2).sum(1))
            else:
                rows = pad_sequence([nystrom(site[0], omega) for site in each], batch_first=True)
                found[name] = SiteSums.of_rows(rows, sums, torch.cat([site[2] for site in each]))
        return found


@dataclass(frozen=True)
class FullSums(RidgeSums):
    """Ridge regressions on every label, against the paper's rule for validation labels, from sums.

    Upload: the sums of training and of validation nodes apart, by four maps. They are mixed with a
    refitted Local. The paper's rule: validation labels may only weigh.
    """

    version: ClassVar[int] = 3  # with very many labels, trained once
    every_label: ClassVar[bool] = True


def summed_fits(total: Message, name: str, fits: Sequence[str], omega: Tensor | None) -> Sums:
    """Of a map and some fits together: G and B or, with Ω, the sketch, B and tr G."""
    parts: list[Sums] = []
    for prefix in (key(name, fit) for fit in fits):
        sums = total[f"{prefix}/class sums"]
        if omega is None:
            parts.append((full(total[f"{prefix}/gram"], len(sums)), sums))
        else:
            parts.append((total[f"{prefix}/sketch"], sums, total[f"{prefix}/nodes"]))
    return added(parts)


def full(half: Tensor, side: int) -> Tensor:
    """The symmetric matrix whose upper half was sent."""
    matrix = half.new_zeros(side, side)
    matrix[tuple(torch.triu_indices(side, side))] = half
    return matrix + matrix.triu(1).T
