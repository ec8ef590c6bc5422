"""The ridge regression from sums alone, which can be added up under encryption. Not in the paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pace.graph import Graph
from pace.merging.ridge import sketched, solve_gram, solve_sketch
from pace.methods.beyond.ridge import NO_NODE, ROWS, Regressed, omega_of, training_rows
from pace.params import Params
from pace.protocol.explain import ATTACKS
from pace.protocol.federation import Federation
from pace.protocol.method import Explanation, Message, Summable
from pace.protocol.number_formats import KINDS

WHOLE = 1024  # features up to which G itself is sent
SINGLE = 1e-3  # from one, the length of one node's row
FEW_CLASSES = 16  # up to which twelve directions are enough


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
        f"trained on it, but not which. {ATTACKS}"
    )

    numbers: str = KINDS[0]

    def share(self, local: Params, graph: Graph, federation: Federation) -> dict[str, Tensor]:
        message = {}
        for hop in self.hops:
            rows, labels = training_rows(graph, hop, federation.model.classes)
            for part, value in self._sums(rows, labels, hop, federation):
                message[f"hop{hop}/{part}"] = value
        return message

    def _sums(
        self, rows: Tensor, labels: Tensor, hop: int, federation: Federation
    ) -> Iterator[tuple[str, Tensor]]:
        if is_whole(federation):
            gram = rows.T @ rows
            yield "gram", gram[upper(len(gram))]
            yield "class sums", rows.T @ labels
            return
        sketch, sums, trace = sketched(rows, labels, omega_of(hop, federation))
        yield "sketch", sketch.float()
        yield "class sums", sums.float()
        yield "nodes", trace.float()[None]

    def explain(
        self, message: Message, federation: Federation, features: Sequence[str] = ()
    ) -> Explanation:
        sums = message[f"hop{self.hops[0]}/class sums"]
        single = int(((sums.norm(dim=0) - 1).abs() < SINGLE).sum())
        told = (
            "The class sums are the sum of your training nodes' features, scaled to length one, over "
            "each class. A class with one training node sends that node's features: here "
            f"{single} of {sums.shape[1]} classes look like that. Meant for jobs whose sums are sealed."
        )
        tensors = super().explain(message, federation).tensors
        return Explanation(tensors, (NO_NODE, told, ATTACKS))

    def rank(self, classes: int) -> int:
        """A regression tells `classes` classes apart in one direction fewer."""
        return ROWS if classes <= FEW_CLASSES else classes - 1

    def statistic_of(self, upload: Message, federation: Federation) -> dict[str, Tensor]:
        return {name: value.double() for name, value in upload.items()}

    def answer(self, total: Message, federation: Federation) -> dict[str, Tensor]:
        return self.returned(self._solve(total, hop, federation) for hop in self.hops)

    def _solve(self, total: Message, hop: int, federation: Federation) -> Tensor:
        sums = total[f"hop{hop}/class sums"]
        if is_whole(federation):
            return solve_gram(full(total[f"hop{hop}/gram"], len(sums)), sums, self.strengths)
        sketch, nodes = total[f"hop{hop}/sketch"], float(total[f"hop{hop}/nodes"])
        return solve_sketch(sketch, sums, omega_of(hop, federation), self.strengths, nodes)


def is_whole(federation: Federation) -> bool:
    """Whether G itself is sent."""
    return federation.model.features <= WHOLE


def upper(side: int) -> tuple[Tensor, Tensor]:
    """Where the upper half of a symmetric matrix lies, its diagonal included."""
    rows, columns = torch.triu_indices(side, side)
    return rows, columns


def full(half: Tensor, side: int) -> Tensor:
    """The symmetric matrix whose upper half was sent."""
    matrix = half.new_zeros(side, side)
    matrix[upper(side)] = half
    return matrix + matrix.triu(1).T
