"""The ridge regressions from sums alone, which can be added up under encryption. Not in the paper."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from pace.errors import WeightError
from pace.graph import Graph
from pace.merging import SiteSums, nystrom, sketched, solve_sums
from pace.methods.beyond.ridge import NO_NODE, Regressed, Regression, Sums, added
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
        """G or S with tr G, and B, added up over blocks of rows."""
        message, graph, classes = {}, self.grouped(graph), federation.model.classes
        for regression in self.sent():
            omega, prefix = regression.omega(federation), regression.key
            blocks = graph.blocks() if isinstance(graph, RowTable) else (graph,)
            fitted = (regression.fitted_rows(block, classes) for block in blocks)
            products, sums, trace = added(sketched(*rows, omega) for rows in fitted)
            if omega is None:
                half = products[tuple(torch.triu_indices(*products.shape))]
                message[f"{prefix}/gram"] = half.float()
            else:
                message[f"{prefix}/sketch"] = products.float()
                message[f"{prefix}/nodes"] = trace.float()[None]
            message[f"{prefix}/class sums"] = sums.float()
        return message

    def rank(self, classes: int) -> int:
        least = super().rank(classes)
        return least if classes <= FEW_CLASSES else max(least, classes - 1)

    def explain(self, uploads: Uploads, federation: Federation) -> Explanation:
        sums = next(iter(uploads))[f"{self.maps[0]}/class sums"]
        single = int(((sums.norm(dim=0) - 1).abs() < SINGLE).sum())
        sentence = (
            "The class sums are the sum of your training nodes' features, scaled to length one, over "
            "each class. A class with one training node sends that node's features: here "
            f"{single} of {sums.shape[1]} classes look like that. Meant for jobs whose sums are sealed."
        )
        return replace(super().explain(uploads, federation), sentences=(NO_NODE, sentence))

    def statistic_of(self, upload: Message, federation: Federation) -> dict[str, Tensor]:
        return {name: value.double() for name, value in upload.items()}

    def check(self, upload: Message, federation: Federation) -> None:
        super().check(upload, federation)
        self.check_total(upload, 1, federation)

    def check_total(self, total: Message, clients: int, federation: Federation) -> None:
        """Of rows of length one and labels of one: Σ_c |B_jc| ≤ Σ_v |h_vj| ≤ √(n G_jj), n = tr G.

        Of a sketch only n is known. What a liar says of nodes that he might have passes.
        """
        for regression in (part for part in self.sent() if part.map != LABELS):
            products, sums, *nodes = (part.double() for part in sent_sums(total, regression))
            squares = products.diagonal()  # a root below zero is nan
            limit = nodes[0] if nodes else (squares.sum().clamp_min(0) * squares).sqrt()
            most = sums.abs().sum(1)
            if not (most <= 1.01 * limit + 0.01 * clients).all():
                raise WeightError(
                    f"{regression.map}'s class sums go up to {float(most.max()):.3g}, more than its "
                    "rows of length one can add up to"
                )

    def reading(self, uploads: Uploads, federation: Federation) -> Reading:
        """B and G, or a sketch of G: F with FᵀF = G spans the rows."""
        total, factors = self.total(uploads, federation), {}
        for name in self.maps[: len(self.hops)]:
            regression = Regression(name, self.fits[0])
            products, *_ = sent_sums(total, regression)
            if (omega := regression.omega(federation)) is not None:
                factors[name] = nystrom(products, omega).float()
            else:
                values, vectors = torch.linalg.eigh(products)
                factors[name] = (values.clamp_min(0).sqrt()[:, None] * vectors.T).float()
        sums = total[f"{self.maps[0]}/class sums"].float()
        return self.read_answer(self.answer(total, federation), factors, sums)

    def answer(self, total: Message, federation: Federation) -> dict[str, Tensor]:
        def solve(parts: Sequence[Regression]) -> Tensor:
            sums = added(sent_sums(total, part) for part in parts)
            return solve_sums(sums, parts[0].omega(federation), self.strengths)

        return self.returned(solve)

    def site_sums(self, uploads: Uploads, federation: Federation) -> dict[str, SiteSums]:
        """Exact where G was sent, else by what its sketch knows of it."""
        by_map = {}
        for name in self.maps:
            parts = self.parts(Regression(name, self.fits[-1]))
            statistics = (self.statistic_of(upload, federation) for upload in uploads)
            sites = (added(sent_sums(each, part) for part in parts) for each in statistics)
            products, sums, *nodes = zip(*sites, strict=True)
            if (omega := parts[0].omega(federation)) is None:
                grams = torch.stack(products)
                traces = grams.diagonal(dim1=1, dim2=2).sum(1)
                by_map[name] = SiteSums(grams, torch.stack(sums), traces)
            else:
                rows = pad_sequence([nystrom(part, omega) for part in products], batch_first=True)
                by_map[name] = SiteSums.of_rows(rows, torch.stack(sums), torch.cat(nodes[0]))
        return by_map


@dataclass(frozen=True)
class FullSums(RidgeSums):
    """Ridge regressions on every label, against the paper's rule for validation labels, from sums.

    Upload: the sums of training and of validation nodes apart, by four maps. They are mixed with a
    refitted Local. The paper's rule: validation labels may only weigh.
    """

    version: ClassVar[int] = 3  # with very many labels, trained once
    every_label: ClassVar[bool] = True


def sent_sums(total: Message, regression: Regression) -> Sums:
    """G and B or, where G was sketched, S, B and tr G."""
    sums = total[f"{regression.key}/class sums"]
    if (half := total.get(f"{regression.key}/gram")) is not None:  # of a symmetric matrix
        upper = half.new_zeros(len(sums), len(sums))
        upper[tuple(torch.triu_indices(*upper.shape))] = half
        return upper + upper.triu(1).T, sums
    return total[f"{regression.key}/sketch"], sums, total[f"{regression.key}/nodes"]
