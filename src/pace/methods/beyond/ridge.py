"""Closed forms beside Local: ridge regressions over everybody's labelled rows. Not in the paper.

`pace-ridge` reads training labels, as the paper does, and weighs its regressions on validation nodes.
`pace-full` reads every label: it fits on training nodes to weigh on validation nodes, the other way
round, and uses those weights for what is fitted on both. No label chooses the weight of a model that
has seen it.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import product, repeat
from typing import ClassVar

import torch
from torch import Tensor

from pace import merging, models, protocol
from pace.errors import GraphError, SettingError
from pace.gates import CHANCE, RIDGE, Gate, Guarded, Mixture
from pace.graph import Graph
from pace.merging import Gram, SiteSums
from pace.models import ALL, FITS, LABELS, NEIGHBOURHOOD, RowTable, fitted_nodes, row_key, rows_by
from pace.params import Params
from pace.protocol import NO_PROMISE, ClosedForm, External, Federation, Message, Reading, Uploads
from pace.task import targets

HOPS = (0, 2)  # a node's own features, and those of its neighbourhood
STRENGTHS = (1.0, 3.0, 10.0)  # λ
ALONE = (0.03, 0.3, 3.0)  # λ of ridges on a site's own rows: they are a tenth of everybody's
ROWS = 12  # condensed rows of a client, and directions of a map's answers
SMALLEST_CLASS = 5  # training nodes of a class that is sent
OWN = 3.0  # μ
DAMPING = 0.1  # λ of the leverage by which a curious server looks for rows
SCALE = 10.0  # of the logits: answers lie between 0 and 1
EXACT = 1024  # rows or columns up to which the server's solution is exact
GROUPS = 10  # of clients, left out one at a time
FEWEST_GROUPS = 3  # with two clients, what one says has no other to support it
LOCAL = "local"  # the column of Local's logits in a table of rows
PARTS = ("rows", "labels")  # Z and M
Sums = tuple[Tensor, ...]  # GΩ, B and tr G
Gathered = tuple[dict[tuple[str, str], Gram], dict[str, Tensor]]
Solve = Callable[[str, Sequence[str]], Tensor]
"""From a map and the fits that were sent: W_λ on all their rows, (strengths, columns, classes)."""
NO_NODE = f"It holds no edge, and no feature value or label of a node as it is. {NO_PROMISE}"
LARGEST = 1e5  # rows have length one: larger numbers would take 10^10 training nodes
SENTENCES = {  # of a map's tensors, for the people whose data they were made of
    "rows": "rows that stand for your {nodes} nodes' features {after}",
    "labels": "how these rows are spread over the classes",
    "class sums": "sum of your {nodes} nodes' features {after}, by class",
    "gram": "products of every two features {after}, summed over {nodes} nodes",
    "sketch": "random sums of these products {after}",
    "nodes": "how many {nodes} nodes you have",
    "basis": "everybody's regressions {after}: the directions they read",
    "mixing": "everybody's regressions {after}: how directions make classes",
}
AFTER = {
    "hop": "after {} hops",
    NEIGHBOURHOOD: "with neighbours and degree apart",
    LABELS: "of neighbours' known labels",
}
NODES = {"": "training", "/val": "validation", "/all": "labelled"}
TITLES = {
    "hop0": "own features",
    NEIGHBOURHOOD: "node, neighbours and degree apart",
    LABELS: "neighbours' known labels",
}


@dataclass(frozen=True)
class Regressed(ClosedForm):
    """What a receiver makes of W_λ of each map, however the server came by them.

    A map makes a row of each node: its features after some hops and, where every label is read,
    `models.neighbourhood`. The return holds [W_λ …] of a map as a product of two thin matrices. The
    receiver weighs Local, each 10 h W_λ, for each map 10 h V with V corrected on its own rows, and
    perhaps ridges on its own rows alone, by `gates.mixture`. Nothing is trained after the return.
    """

    tensors: ClassVar[Mapping[str, str]] = {
        f"{name}{fit}/{part}": sentence.format(nodes=nodes, after=after)
        for name, after in AFTER.items()
        for fit, nodes in NODES.items()
        for part, sentence in SENTENCES.items()
    }
    hops: tuple[int, ...] = HOPS
    strengths: tuple[float, ...] = STRENGTHS
    own: float | None = OWN  # None: no correction on one's own training nodes
    ridge: float = RIDGE  # of the gate
    numbers: str = protocol.KINDS[2]

    def __post_init__(self) -> None:
        if not self.hops or min(self.hops) < 0 or len(set(self.hops)) < len(self.hops):
            raise SettingError(f"hops are {self.hops}, expected different numbers, 0 or more")
        positive = (*self.strengths, *(() if self.own is None else (self.own,)))
        if not self.strengths or not all(0 < value < math.inf for value in positive):
            raise SettingError(f"ridge strengths are {positive}, expected numbers above 0")
        if not 0 <= self.ridge < math.inf:
            raise SettingError(f"the ridge is {self.ridge}, expected a number, 0 or more")

    @property
    def maps(self) -> tuple[str, ...]:
        hops = tuple(f"hop{hop}" for hop in self.hops)
        return (*hops, NEIGHBOURHOOD, LABELS) if self.every_label else hops

    @property
    def fits(self) -> tuple[str, ...]:
        """The nodes that regressions are fitted on; the last are those that are used."""
        return FITS if self.every_label else FITS[:1]

    @property
    def gate(self) -> Gate:
        return Guarded(self.ridge, CHANCE) if self.every_label else Mixture(self.ridge)

    def network(self, model: models.Model) -> models.Network:
        return models.Refitted(model) if self.every_label else model

    def check(self, upload: Message, federation: Federation) -> None:
        protocol.bounded(upload, LARGEST)

    def parts(self, name: str, fit: str) -> tuple[str, ...]:
        """The fits that are sent apart and whose rows of a map are together those of a fit.

        Not so with labels: what is known of a node's neighbours differs from fit to fit.
        """
        return FITS[:2] if fit == ALL and name != LABELS else (fit,)

    def sent(self) -> list[tuple[str, str]]:
        """(map, fit) of all that a client sends."""
        fitted = product(self.maps, self.fits)
        sent = ((name, part) for name, fit in fitted for part in self.parts(name, fit))
        return list(dict.fromkeys(sent))

    def returned(self, solve: Solve) -> dict[str, Tensor]:
        """The message that carries the answers of each map and fit, each fit's for itself.

        Directions that fits shared would carry labels into answers that those labels weigh.
        """
        message = {}
        for name, fit in product(self.maps, self.fits):
            answers = solve(name, self.parts(name, fit))
            factors = merging.compressed(answers, self.rank(answers.shape[2]))
            for part, factor in zip(("basis", "mixing"), factors, strict=True):
                message[f"{key(name, fit)}/{part}"] = factor
        return message

    def blank_return(self, federation: Federation) -> Message:
        strengths, classes = len(self.strengths), federation.model.classes
        return self.returned(
            lambda name, _: torch.zeros(strengths, columns_of(name, federation), classes)
        )

    def grouped(self, graph: Graph) -> Graph:
        """The graph as it is fitted to: `models.regrouped` where every label is read."""
        return models.regrouped(graph) if self.every_label else graph

    def rank(self, classes: int) -> int:
        """Of a map's answers in the return: twelve in int8 cost at most what PACE's return does.

        A regression tells `classes` classes apart in one direction fewer.
        """
        return max(ROWS, classes - 1) if self.every_label else ROWS

    def adopt(
        self, local: Params, returned: Message, graph: Graph, federation: Federation
    ) -> list[External]:
        """With every label also those of training nodes, for validation nodes to weigh, and in reverse.

        Not in reverse where no Local was trained on validation nodes alone.
        """
        graph = self.grouped(graph)
        made = self.externals(returned, graph, self.fits[-1], federation)
        for fit, held_out in zip(self.fits[:-1], self.fits[-2::-1], strict=True):
            if fit in models.trained_fits(graph):
                said = partial(self.local_logits, fit=fit, federation=federation)
                weighing = [External(local, predict=said)]
                weighing += self.externals(returned, graph, fit, federation)
                made += [replace(external, held_out=held_out) for external in weighing]
        return made

    def row_columns(self, federation: Federation) -> dict[str, int]:
        keys = {row_key(name, fit): name for name, fit in product(self.maps, self.fits)}
        return {row: columns_of(name, federation) for row, name in keys.items()}

    def local_columns(self) -> dict[str, str]:
        return {fit: LOCAL if fit == self.fits[-1] else f"{LOCAL}_{fit}" for fit in self.fits}

    def rows_of(self, graph: Graph, nodes: Tensor, federation: Federation) -> dict[str, Tensor]:
        classes = federation.model.classes
        return {
            row_key(name, fit): rows_by(name, fit, graph, classes)[nodes]
            for name, fit in product(self.maps, self.fits)
            if name == LABELS or fit == self.fits[0]
        }

    def fit_rows(self, graph: Graph, federation: Federation) -> Params:
        """The ridge regression of a site's own rows, by the last hop, of each fit."""
        if isinstance(graph, RowTable) and set(self.local_columns().values()) <= set(graph.maps):
            return {}
        name = f"hop{self.hops[-1]}"
        nothing = torch.zeros(columns_of(name, federation), federation.model.classes)
        local = {}
        for fit in self.fits:
            (own,) = self.gram(graph, name, fit, federation).own_residuals([nothing], [ALONE[1]])
            local[name if fit == self.fits[-1] else f"{fit}/{name}"] = own
        return local

    def local_logits(self, local: Params, graph: Graph, fit: str, federation: Federation) -> Tensor:
        """What Local says, from logits that a table brings, a regression of its own or the network."""
        name, column = f"hop{self.hops[-1]}", self.local_columns()[fit]
        if isinstance(graph, RowTable) and column in graph.maps:
            return graph.maps[column]
        own = models.fit_of(local, fit) if len(self.fits) > 1 else local
        if name in own:
            return predicted(own, graph, name, fit)
        if not graph.has_edges:
            raise GraphError(
                f"the rows have no column {column!r}: this model's Local predicts from a graph, or from "
                "rows that bring its logits"
            )
        return federation.model(own, graph).logits

    def gram(self, graph: Graph, name: str, fit: str, federation: Federation) -> Gram:
        """The rows of a fit's nodes by a map, and their classes; of a table, all maps in one pass."""
        if not isinstance(graph, RowTable):
            rows, labels = fitted_rows(graph, name, fit, federation.model.classes)
            return self.empty_gram(name, federation).add(rows, labels)
        return self.gathered(graph, federation)[0][name, fit]

    def gathered(self, table: RowTable, federation: Federation) -> Gathered:
        """Of a table, in one pass: the Gram matrix of each map and fit, and the columns that occur."""

        def gather(_: Graph) -> Gathered:
            grams = {
                (name, fit): self.empty_gram(name, federation)
                for name, fit in product(self.maps, self.fits)
            }
            widths = self.row_columns(federation)
            used = {row: torch.zeros(width, dtype=torch.bool) for row, width in widths.items()}
            for block in table.blocks():
                used = {row: found | (block.maps[row] != 0).any(0) for row, found in used.items()}
                for (name, fit), gram in grams.items():
                    gram.add(*fitted_rows(block, name, fit, federation.model.classes))
            return grams, used

        return table.derived(f"gathered by {self} for {federation.digest.hex()}", gather)

    def empty_gram(self, name: str, federation: Federation) -> Gram:
        return Gram(columns_of(name, federation), federation.model.classes)

    def externals(
        self, returned: Message, graph: Graph, fit: str, federation: Federation
    ) -> list[External]:
        """Of each map: an answer for each strength, and perhaps one corrected on one's own rows."""
        externals: list[External] = []
        for name in self.maps:
            basis, mixing = (returned[f"{key(name, fit)}/{part}"] for part in ("basis", "mixing"))
            if isinstance(graph, RowTable):
                used = self.gathered(graph, federation)[1][row_key(name, fit)]
            else:
                used = used_columns(name, fit, graph, federation.model.classes)
            answers = list(merging.expanded(basis * used, mixing, len(self.strengths)))
            title = TITLES.get(name, f"{name.removeprefix('hop')} hops")
            names = [f"ridge on {title}, λ = {strength:g}" for strength in self.strengths]
            own: list[tuple[Tensor, float]] = []
            if self.own is not None:
                names.append(f"ridge on {title}, corrected here")
                own.append((answers[len(self.strengths) // 2], self.own))
            if self.every_label and name != LABELS:
                names += [f"ridge on {title} of this site alone, λ = {level:g}" for level in ALONE]
                own += [(torch.zeros_like(answers[0]), level) for level in ALONE]
            if own:
                gram = self.gram(graph, name, fit, federation)
                answers += gram.own_residuals(*zip(*own, strict=True))
            predict = partial(predicted, name=name, fit=fit)
            externals += [
                External({name: answer.contiguous()}, called, predict)
                for called, answer in zip(names, answers, strict=True)
            ]
        return externals

    def read_answer(self, returned: Message, rows: Mapping[str, Tensor], sums: Tensor) -> Reading:
        """What the answer, rows that span those sent and the class sums at the first map tell.

        Rows have length one, so a class with more nodes has the larger sum. The model adds up, over the
        maps of features, the regressions of the smallest λ, which fit closest.
        """

        def leverage(graph: Graph) -> Tensor:
            """Σ over maps of hᵀ Zᵀ (ZZᵀ + λI)⁻¹ Z h: near one where h lies in the span of Z."""
            total = torch.zeros(graph.nodes)
            for name, sent in rows.items():
                seen = rows_by(name, FITS[0], graph, sums.shape[1]) @ sent.T
                damped = sent @ sent.T + DAMPING * torch.eye(len(sent))
                total += (seen * torch.linalg.solve(damped, seen.T).T).sum(1)
            return total

        def predict(params: Params, graph: Graph) -> Tensor:
            parts = [predicted(params, graph, name, FITS[0]) for name in params]
            return torch.stack(parts).sum(0)

        answers = {
            name: merging.expanded(
                returned[f"{name}/basis"], returned[f"{name}/mixing"], len(self.strengths)
            )[0]
            for name in rows
        }
        model = External(answers, predict=predict)
        return Reading(model, {}, sums.abs().sum(1), sums.sum(0), sums, leverage=leverage)


@dataclass(frozen=True)
class PaceRidge(Regressed):
    """Everybody's ridge regression from a few rows of each client, mixed with Local.

    Upload: the client's training rows condensed to 12 a hop, with their classes, in int8.

    Classes with fewer than `smallest_class` training nodes here are left out, and a site with few
    training nodes sends fewer rows: one for every `nodes_per_row` of them.
    """

    needs: ClassVar[str] = "its server reads every client's rows (that of pace-ridge-sums does not)"

    rows: int = ROWS
    smallest_class: int = SMALLEST_CLASS
    nodes_per_row: int = 5  # training nodes for each row that is sent

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("rows", "smallest_class", "nodes_per_row"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} is {getattr(self, name)}, expected 1 or more")

    def sent_rows(self, name: str, federation: Federation) -> int:
        """How many rows of a map a client sends."""
        return self.rows

    def empty_gram(self, name: str, federation: Federation) -> Gram:
        return Gram(columns_of(name, federation), federation.model.classes, self.smallest_class)

    def share(self, local: Params, graph: Graph, federation: Federation) -> dict[str, Tensor]:
        message, graph = {}, self.grouped(graph)
        for name, fit in self.sent():
            most = self.sent_rows(name, federation)
            sent = self.gram(graph, name, fit, federation).condensed(most, self.nodes_per_row)
            for part, value in zip(PARTS, sent, strict=True):
                message[f"{key(name, fit)}/{part}"] = value
        return message

    def explain(self, uploads: Uploads, federation: Federation) -> protocol.Explanation:
        labels = next(iter(uploads))[f"{self.maps[0]}/labels"]
        kind = "labelled" if self.every_label else "training"
        told = (
            f"{int(labels.any(1).sum())} rows of each kind are weighted sums of your {kind} nodes' "
            f"features and of what surrounds them, one row for every {self.nodes_per_row} nodes or "
            "more. Together with their labels they tell the server, nearly exactly, the sum of these "
            f"features over each class and how many {kind} nodes it has: of "
            f"{int(labels.any(0).sum())} classes here. Classes with fewer than {self.smallest_class} "
            f"{kind} nodes are not in it."
        )
        return replace(super().explain(uploads, federation), sentences=(NO_NODE, told))

    def reading(self, uploads: Uploads, federation: Federation) -> Reading:
        """Z and M of each hop: B ≈ ZᵀM by class."""
        (batch,) = uploads.batches()
        sent = {name: stacked_rows(batch, name, FITS[0]) for name in self.maps[: len(self.hops)]}
        rows, labels = sent[self.maps[0]]
        returned = next(iter(self.merge(uploads, federation)))
        spans = {name: rows for name, (rows, _) in sent.items()}
        reading = self.read_answer(returned, spans, rows.T @ labels)
        return replace(reading, classes=labels.square().sum(0))  # MᵀM ≈ YᵀY counts nodes

    def merge(self, uploads: Uploads, federation: Federation) -> Iterator[Message]:
        """Exact from all rows at once where they are few, else from sums over batches of clients."""
        most = max(self.sent_rows(name, federation) for name in self.maps) * len(self.fits[:2])
        few = most * len(uploads) <= EXACT
        by_sums = partial(self._from_sums, federation=federation)
        solve = self.supported(uploads, self._from_rows if few else by_sums)
        return repeat(self.returned(solve), len(uploads))

    def supported(self, uploads: Uploads, solver: Callable[[Uploads], Solve]) -> Solve:
        """W_λ of all uploads; where every label is read, as far as no one group of clients made it.

        `pace-ridge` stays as the study has it. Sums are added up before anybody could be left out.
        """
        groups, solve = min(GROUPS, len(uploads)), solver(uploads)
        if not self.every_label or groups < FEWEST_GROUPS:
            return solve
        without = [solver(protocol.Without(uploads, group, groups)) for group in range(groups)]
        return lambda name, fits: merging.limit_rows(
            solve(name, fits), [others(name, fits) for others in without]
        )

    def site_sums(self, uploads: Uploads, federation: Federation) -> dict[str, SiteSums]:
        """From the rows that sites sent; their squared labels count the nodes, nearly."""
        found, batches = {}, list(uploads.batches())
        for name in self.maps:
            keys = [key(name, fit) for fit in self.parts(name, self.fits[-1])]
            rows, labels = (
                torch.cat([torch.cat([batch[f"{k}/{part}"] for k in keys], 1) for batch in batches])
                for part in PARTS
            )
            rows, labels = rows.double(), labels.double()
            found[name] = SiteSums.of_rows(rows, rows.mT @ labels, labels.square().sum((1, 2)))
        return found

    def _from_rows(self, uploads: Uploads) -> Solve:
        batches = list(uploads.batches())

        def solve(name: str, fits: Sequence[str]) -> Tensor:
            stacks = [stacked_rows(batch, name, fit) for fit in fits for batch in batches]
            rows, labels = map(torch.cat, zip(*stacks, strict=True))
            sent = torch.linalg.vector_norm(rows, dim=1) > 0  # small sites leave rows empty
            if not sent.all():
                rows, labels = rows[sent], labels[sent]
            return merging.solve_rows(rows, labels, self.strengths)

        return solve

    def _from_sums(self, uploads: Uploads, federation: Federation) -> Solve:
        """One pass, and memory for one batch: G itself where columns are few, else a sketch of it."""
        omegas = {name: omega_of(name, federation) for name in self.maps}
        totals: dict[tuple[str, str], Sums] = {}
        for batch in uploads.batches():
            for name, fit in self.sent():
                sums = merging.sketched(*stacked_rows(batch, name, fit), omegas[name])
                before = totals.get((name, fit))
                totals[name, fit] = sums if before is None else added([before, sums])
        return lambda name, fits: merging.solve_sums(
            added([totals[name, fit] for fit in fits]), omegas[name], self.strengths
        )


@dataclass(frozen=True)
class PaceFull(PaceRidge):
    """Ridge regressions on every label, against the paper's rule for validation labels, from a few rows.

    Upload: rows of training and of validation nodes apart, by four maps, in int8: at most twice PACE's
    bytes from some 300 features on. They are mixed with a refitted Local. The paper's rule: validation
    labels may only weigh.
    """

    version: ClassVar[int] = 3  # no client moves a row far; with very many labels, trained once
    every_label: ClassVar[bool] = True
    needs: ClassVar[str] = "its server reads every client's rows (that of pace-full-sums does not)"

    rows: int = 5

    def sent_rows(self, name: str, federation: Federation) -> int:
        """More where features are few: PACE's upload has 28 bytes a feature and some 3,600 more."""
        columns = columns_of(name, federation)
        return min(columns, self.rows + 600 // federation.model.features)


def predicted(params: Params, graph: Graph, name: str, fit: str) -> Tensor:
    """The logits of a map's regression, (nodes, classes): 10 h W."""
    answer = params[name]
    product: Tensor = rows_by(name, fit, graph, answer.shape[1]) @ answer
    return SCALE * product


def used_columns(name: str, fit: str, graph: Graph, classes: int) -> Tensor:
    """Which columns of a map some node of the graph has; what the others say is not taken."""
    rows: Tensor = rows_by(name, fit, graph, classes) if name == LABELS else graph.x
    words = (rows != 0).any(0)
    return torch.cat([words] * 3 + [words.new_ones(4)]) if name == NEIGHBOURHOOD else words


def fitted_rows(graph: Graph, name: str, fit: str, classes: int) -> tuple[Tensor, Tensor]:
    """H and Y: the rows of a fit's nodes, and their classes as unit vectors."""
    rows = rows_by(name, fit, graph, classes)[fitted_nodes(graph, fit)]
    return rows, targets(models.fitted_labels(graph, fit), classes)


def columns_of(name: str, federation: Federation) -> int:
    """How many columns a map's rows have."""
    features, classes = federation.model.features, federation.model.classes
    return {NEIGHBOURHOOD: 3 * features + 4, LABELS: 2 * classes + 4}.get(name, features)


def key(name: str, fit: str) -> str:
    """What a map's tensors of a fit begin with."""
    return name if fit == FITS[0] else f"{name}/{fit}"


def stacked_rows(batch: Message, name: str, fit: str) -> tuple[Tensor, Tensor]:
    """The rows of a batch of clients, and their labels, one below the other."""
    rows, labels = (batch[f"{key(name, fit)}/{part}"].flatten(0, 1) for part in PARTS)
    return rows, labels


def added(parts: Sequence[Sums]) -> Sums:
    """The sums of all rows of the parts."""
    return tuple(reduce(torch.add, tensors) for tensors in zip(*parts, strict=True))


def omega_of(name: str, federation: Federation) -> Tensor | None:
    """Ω of a map, from the federation's seed; None where columns are few and G itself is summed."""
    columns = columns_of(name, federation)
    if columns <= EXACT:
        return None
    drawn = federation.random(f"ridge sketch, {name.replace('hop', 'hop ')}")
    return merging.public_matrix(columns, drawn)
