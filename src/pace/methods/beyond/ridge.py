"""A closed form beside Local: one ridge regression over everybody's training rows. Not in the paper."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import ClassVar

import torch
from torch import Tensor

from pace.errors import NumberError, SettingError
from pace.gates.gate import Gate, Mixture
from pace.gates.mixture import RIDGE
from pace.graph import Graph
from pace.merging.ridge import (
    compressed,
    condensed,
    expanded,
    own_residual,
    public_matrix,
    sketched,
    solve_gram,
    solve_rows,
    solve_sketch,
)
from pace.models.unit_rows import unit_rows
from pace.params import Params
from pace.protocol.explain import ATTACKS, NO_PROMISE
from pace.protocol.federation import Federation
from pace.protocol.method import Explanation, External, Message, Method, Uploads
from pace.protocol.number_formats import KINDS
from pace.task import targets

HOPS = (0, 2)  # a node's own features, and those of its neighbourhood
STRENGTHS = (1.0, 3.0, 10.0)  # λ
ROWS = 12  # that stand for a client's, and that a hop's answers are returned in
SMALLEST_CLASS = 5  # training nodes of a class that is sent
NODES_PER_ROW = 5  # training nodes for each row that is sent
OWN = 3.0  # μ
SCALE = 10.0  # of the logits: answers lie between 0 and 1
EXACT = 1024  # rows or features up to which the server's solution is exact
PARTS = ("rows", "labels")  # Z and M
NO_NODE = f"It holds no edge, and no feature value or label of a node as it is. {NO_PROMISE}"
Sums = tuple[Tensor, Tensor, Tensor]  # GΩ, B and tr G
LARGEST = 1e5  # rows have length one: larger numbers would take 10^10 training nodes


@dataclass(frozen=True)
class Regressed(Method):
    """What a receiver makes of W_λ at each hop, however the server came by them.

    The return holds [W_λ …] of a hop as a product of two thin matrices. The receiver weighs Local, each
    10 h W_λ and, for each hop, 10 h V with V corrected on its own training nodes, by `gates.mixture`.
    Nothing is trained, and what Local is does not matter.
    """

    tensors: ClassVar[Mapping[str, str]] = {
        "hop/rows": "rows that stand for your training nodes' features after {} hops",
        "hop/labels": "how these rows are spread over the classes",
        "hop/class sums": "sum of your training nodes' features after {} hops, by class",
        "hop/gram": "products of every two features after {} hops, summed over training nodes",
        "hop/sketch": "random sums of these products after {} hops",
        "hop/nodes": "how many training nodes you have",
        "hop/basis": "everybody's regressions after {} hops: the directions they read",
        "hop/mixing": "everybody's regressions after {} hops: how directions make classes",
    }

    hops: tuple[int, ...] = HOPS
    strengths: tuple[float, ...] = STRENGTHS
    own: float | None = OWN  # None: no correction on one's own training nodes
    ridge: float = RIDGE  # of the gate
    numbers: str = KINDS[2]

    def __post_init__(self) -> None:
        if not self.hops or min(self.hops) < 0 or len(set(self.hops)) < len(self.hops):
            raise SettingError(f"hops are {self.hops}, expected different numbers, 0 or more")
        positive = (*self.strengths, *(() if self.own is None else (self.own,)))
        if not self.strengths or not all(0 < value < math.inf for value in positive):
            raise SettingError(f"ridge strengths are {positive}, expected numbers above 0")
        if not 0 <= self.ridge < math.inf:
            raise SettingError(f"the ridge is {self.ridge}, expected a number, 0 or more")

    def check(self, upload: Message, federation: Federation) -> None:
        for name, value in upload.items():
            if (highest := float(value.abs().max())) > LARGEST:
                raise NumberError(
                    f"tensor {name!r} goes up to {highest:.3g}, expected at most {LARGEST:g}"
                )

    def returned(self, answers: Iterable[Tensor]) -> dict[str, Tensor]:
        """The message that carries a hop's answers, (strengths, d, classes), of each hop."""
        message = {}
        for hop, found in zip(self.hops, answers, strict=True):
            parts = compressed(found, self.rank(found.shape[2]))
            message[f"hop{hop}/basis"], message[f"hop{hop}/mixing"] = parts
        return message

    def rank(self, classes: int) -> int:
        """Of a hop's answers in the return; with int8, twelve cost at most what PACE's return does."""
        return ROWS

    def adopt(
        self, local: Params, returned: Message, graph: Graph, federation: Federation
    ) -> list[External]:
        found: list[External] = []
        for hop in self.hops:
            answers = list(self._answers(returned, hop))
            if self.own is not None:
                rows, labels = training_rows(graph, hop, federation.model.classes)
                middle = answers[len(answers) // 2]
                answers.append(own_residual(rows, labels, middle, self.own))
            found += self.regressions(hop, answers)
        return found

    def regressions(self, hop: int, answers: Sequence[Tensor]) -> Iterator[External]:
        """The Externals of a hop: an answer for each strength, perhaps one corrected here."""
        reads = f"ridge on {hop} hops" if hop else "ridge on own features"
        names = [f"{reads}, λ = {strength:g}" for strength in self.strengths]
        for name, answer in zip((*names, f"{reads}, corrected here"), answers, strict=False):
            yield External({f"hop{hop}": answer.contiguous()}, name, Regression(hop))

    def _answers(self, returned: Message, hop: int) -> tuple[Tensor, ...]:
        basis, mixing = returned[f"hop{hop}/basis"], returned[f"hop{hop}/mixing"]
        return expanded(basis, mixing, len(self.strengths))

    @property
    def gate(self) -> Gate:
        return Mixture(self.ridge)


@dataclass(frozen=True)
class Regression:
    """How an External of a ridge regression predicts: 10 h W at its hop."""

    hop: int

    def __call__(self, params: Params, graph: Graph) -> Tensor:
        return SCALE * (unit_rows(graph, self.hop) @ params[f"hop{self.hop}"])


@dataclass(frozen=True)
class PaceRidge(Regressed):
    """Everybody's ridge regression from a few rows of each client, mixed with Local.

    Upload: 12 rows a hop that stand for the client's training rows, with their classes, in int8.

    Classes with fewer than `smallest_class` training nodes here are left out, and a site with few
    training nodes sends fewer rows: one for every `nodes_per_row` of them.
    """

    needs: ClassVar[str] = "its server reads every client's rows (that of pace-ridge-sums does not)"

    rows: int = ROWS
    smallest_class: int = SMALLEST_CLASS
    nodes_per_row: int = NODES_PER_ROW

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("rows", "smallest_class", "nodes_per_row"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} is {getattr(self, name)}, expected 1 or more")

    def share(self, local: Params, graph: Graph, federation: Federation) -> dict[str, Tensor]:
        message = {}
        for hop in self.hops:
            rows, labels = training_rows(graph, hop, federation.model.classes)
            kept = in_large_classes(labels, self.smallest_class)
            rows, labels = rows[kept], labels[kept]
            sent = min(self.rows, len(rows) // self.nodes_per_row)
            for part, value in zip(PARTS, condensed(rows, labels, sent), strict=True):
                whole = value.new_zeros(self.rows, value.shape[1])
                whole[:sent] = value
                message[f"hop{hop}/{part}"] = whole
        return message

    def explain(
        self, message: Message, federation: Federation, features: Sequence[str] = ()
    ) -> Explanation:
        labels = message[f"hop{self.hops[0]}/labels"]
        told = (
            f"{int(labels.any(1).sum())} rows at each hop are weighted sums of your training nodes' "
            f"features and of what surrounds them, one row for every {self.nodes_per_row} nodes or "
            "more. Together with their labels they tell the server, nearly exactly, the sum of these "
            "features over each class and how many training nodes it has: of "
            f"{int(labels.any(0).sum())} classes here. Classes with fewer than {self.smallest_class} "
            "training nodes are not in it."
        )
        tensors = super().explain(message, federation).tensors
        return Explanation(tensors, (NO_NODE, told, ATTACKS))

    def merge(self, uploads: Uploads, federation: Federation) -> Iterator[Message]:
        solve = self._sketched
        if self.rows * len(uploads) <= EXACT:
            solve = self._stacked
        elif federation.model.features <= EXACT:
            solve = self._summed
        returned = self.returned(solve(uploads, federation))
        return repeat(returned, len(uploads))

    def _stacked(self, uploads: Uploads, federation: Federation) -> Iterator[Tensor]:
        """All rows at once, but for those that small sites left empty: exact."""
        every = list(uploads.batches())
        for hop in self.hops:
            parts = zip(*(stacked_rows(batch, hop) for batch in every), strict=True)
            rows, labels = map(torch.cat, parts)
            sent = torch.linalg.vector_norm(rows, dim=1) > 0
            if not sent.all():
                rows, labels = rows[sent], labels[sent]
            yield solve_rows(rows, labels, self.strengths)

    def _summed(self, uploads: Uploads, federation: Federation) -> Iterator[Tensor]:
        """One pass, and memory for one batch: with few features G itself is small. Exact."""
        identity = torch.eye(federation.model.features)
        for gram, sums, _ in self._totals(uploads, [identity] * len(self.hops)):
            yield solve_gram(gram, sums, self.strengths)

    def _sketched(self, uploads: Uploads, federation: Federation) -> Iterator[Tensor]:
        """The same with a sketch of G."""
        omegas = [omega_of(hop, federation) for hop in self.hops]
        totals = self._totals(uploads, omegas)
        for omega, (sketch, sums, trace) in zip(omegas, totals, strict=True):
            yield solve_sketch(sketch, sums, omega, self.strengths, float(trace))

    def _totals(self, uploads: Uploads, omegas: Sequence[Tensor]) -> list[Sums]:
        """GΩ, B and tr G of all rows, for each hop."""
        totals: list[Sums] = []
        for batch in uploads.batches():
            found = [
                sketched(*stacked_rows(batch, hop), omega)
                for hop, omega in zip(self.hops, omegas, strict=True)
            ]
            totals = list(map(_added, totals, found)) if totals else found
        return totals


def stacked_rows(batch: Message, hop: int) -> tuple[Tensor, Tensor]:
    """The rows of a batch of clients at a hop, and their labels, one below the other."""
    return batch[f"hop{hop}/rows"].flatten(0, 1), batch[f"hop{hop}/labels"].flatten(0, 1)


def _added(total: Sums, more: Sums) -> Sums:
    return total[0] + more[0], total[1] + more[1], total[2] + more[2]


def omega_of(hop: int, federation: Federation) -> Tensor:
    """Ω of a hop, from the federation's seed."""
    return public_matrix(federation.model.features, federation.random(f"ridge sketch, hop {hop}"))


def training_rows(graph: Graph, hop: int, classes: int) -> tuple[Tensor, Tensor]:
    """H and Y: the training nodes' rows, and their classes as unit vectors."""
    labels = targets(graph.training_labels, classes)
    return unit_rows(graph, hop)[graph.train], labels


def in_large_classes(labels: Tensor, smallest: int) -> Tensor:
    """Which training nodes (one-hot) are of classes that have at least `smallest` of them."""
    large = labels.sum(0) >= smallest
    return labels[:, large].any(1)
