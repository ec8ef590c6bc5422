"""Closed forms beside Local: ridge regressions over everybody's labelled rows. Not in the paper.

`pace-ridge` reads training labels, as the paper does, and weighs its regressions on validation nodes.
`pace-full` reads every label: it fits on training nodes to weigh on validation nodes, the other way
round, and uses those weights for what is fitted on both. No label chooses the weight of a model that
has seen it.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain, product, repeat
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
OWN = 3.0  # μ
DAMPING = 0.1  # λ of the leverage by which a curious server looks for rows
LOCAL = "local"  # the column of Local's logits in a table of rows
LARGEST = 1e5  # rows have length one: larger numbers would take 10^10 training nodes
SMALLEST_CLASS = 5  # training nodes of a class that is sent
STACKED = 1024  # rows of all clients up to which the server solves with them as they are
GROUPS = 10  # of clients, left out one at a time
FEWEST_GROUPS = 3  # with two clients, what one says has no other to support it
SCALE = 10.0  # of the logits: answers lie between 0 and 1
EXACT = 1024  # columns up to which G itself is summed
PARTS = ("rows", "labels")  # Z and M
Sums = tuple[Tensor, ...]  # GΩ, B and tr G
NO_NODE = f"It holds no edge, and no feature value or label of a node as it is. {NO_PROMISE}"
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
class Regression:
    """From a map's rows of a fit's nodes to their classes."""

    map: str  # `hop0`, `hop1`, …, `neighbourhood` or `labels`
    fit: str  # `train`, `val` or `all`

    @property
    def key(self) -> str:
        """What its tensors begin with."""
        return self.map if self.fit == FITS[0] else f"{self.map}/{self.fit}"

    def columns(self, federation: Federation) -> int:
        """How many columns its rows have."""
        features, classes = federation.model.features, federation.model.classes
        return {NEIGHBOURHOOD: 3 * features + 4, LABELS: 2 * classes + 4}.get(self.map, features)

    def used_columns(self, graph: Graph, classes: int) -> Tensor:
        """Those that some node of the graph has; what the answer says of others is not taken."""
        known = self.map == LABELS
        rows: Tensor = rows_by(self.map, self.fit, graph, classes) if known else graph.x
        used = (rows != 0).any(0)
        return torch.cat([used] * 3 + [used.new_ones(4)]) if self.map == NEIGHBOURHOOD else used

    def fitted_rows(self, graph: Graph, classes: int) -> tuple[Tensor, Tensor]:
        """H and Y: the rows of the fit's nodes, and their classes as unit vectors."""
        rows = rows_by(self.map, self.fit, graph, classes)[fitted_nodes(graph, self.fit)]
        return rows, targets(models.fitted_labels(graph, self.fit), classes)

    def predict(self, params: Params, graph: Graph) -> Tensor:
        """The logits of its answer, (nodes, classes): 10 h W."""
        answer = params[self.map]
        product: Tensor = rows_by(self.map, self.fit, graph, answer.shape[1]) @ answer
        return SCALE * product

    def stacked_rows(self, batch: Message) -> tuple[Tensor, Tensor]:
        """The rows of a batch of clients, and their labels, one below the other."""
        rows, labels = (batch[f"{self.key}/{part}"].flatten(0, 1) for part in PARTS)
        return rows, labels

    def omega(self, federation: Federation) -> Tensor | None:
        """Ω, from the federation's seed; None where columns are few."""
        columns = self.columns(federation)
        if columns <= EXACT:
            return None
        random = federation.random(f"ridge sketch, {self.map.replace('hop', 'hop ')}")
        return merging.public_matrix(columns, random)


Gathered = tuple[dict[Regression, Gram], dict[str, Tensor]]
Solve = Callable[[Sequence[Regression]], Tensor]
"""From those that were sent of a map: W_λ on all their rows, (strengths, columns, classes)."""


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
        positive = self.strengths if self.own is None else (*self.strengths, self.own)
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

    @property
    def regressions(self) -> list[Regression]:
        return [Regression(name, fit) for name, fit in product(self.maps, self.fits)]

    def parts(self, regression: Regression) -> tuple[Regression, ...]:
        """The regressions that are sent apart and whose rows are together those of this one.

        Not so with labels: what is known of a node's neighbours differs from fit to fit.
        """
        if regression.fit != ALL or regression.map == LABELS:
            return (regression,)
        return tuple(replace(regression, fit=fit) for fit in FITS[:2])

    def sent(self) -> list[Regression]:
        """All that a client sends."""
        return list(dict.fromkeys(chain.from_iterable(map(self.parts, self.regressions))))

    def returned(self, solve: Solve) -> dict[str, Tensor]:
        """The message that carries the answers of each map and fit, each fit's for itself.

        Directions that fits shared would carry labels into answers that those labels weigh.
        """
        message: dict[str, Tensor] = {}
        for regression in self.regressions:
            answers, key = solve(self.parts(regression)), regression.key
            basis, mixing = merging.compressed(answers, self.rank(answers.shape[2]))
            message |= {f"{key}/basis": basis, f"{key}/mixing": mixing}
        return message

    def blank_return(self, federation: Federation) -> Message:
        many, classes = len(self.strengths), federation.model.classes
        return self.returned(lambda parts: torch.zeros(many, parts[0].columns(federation), classes))

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
        externals = self.externals(returned, graph, self.fits[-1], federation)
        for fit, held_out in zip(self.fits[:-1], self.fits[-2::-1], strict=True):
            if fit in models.trained_fits(graph):
                predict = partial(self.local_logits, fit=fit, federation=federation)
                weighing = [External(local, predict=predict)]
                weighing += self.externals(returned, graph, fit, federation)
                externals += [replace(external, held_out=held_out) for external in weighing]
        return externals

    def row_columns(self, federation: Federation) -> dict[str, int]:
        return {row_key(part.map, part.fit): part.columns(federation) for part in self.regressions}

    def local_columns(self) -> dict[str, str]:
        return {fit: LOCAL if fit == self.fits[-1] else f"{LOCAL}_{fit}" for fit in self.fits}

    def rows_of(self, graph: Graph, nodes: Tensor, federation: Federation) -> dict[str, Tensor]:
        classes = federation.model.classes
        readers = {row_key(part.map, part.fit): part for part in self.regressions}
        return {row: rows_by(r.map, r.fit, graph, classes)[nodes] for row, r in readers.items()}

    def fit_rows(self, graph: Graph, federation: Federation) -> Params:
        """The ridge regression of a site's own rows, by the last hop, of each fit."""
        if isinstance(graph, RowTable) and set(self.local_columns().values()) <= set(graph.maps):
            return {}
        name, local = f"hop{self.hops[-1]}", {}
        nothing = torch.zeros(federation.model.features, federation.model.classes)
        for fit in self.fits:
            gram = self.gram(graph, Regression(name, fit), federation)
            (own,) = gram.own_residuals([nothing], [ALONE[1]])
            local[name if fit == self.fits[-1] else f"{fit}/{name}"] = own
        return local

    def local_logits(self, local: Params, graph: Graph, fit: str, federation: Federation) -> Tensor:
        """What Local says, from logits that a table brings, a regression of its own or the network."""
        name, column = f"hop{self.hops[-1]}", self.local_columns()[fit]
        if isinstance(graph, RowTable) and column in graph.maps:
            return graph.maps[column]
        own = models.fit_of(local, fit) if len(self.fits) > 1 else local
        if name in own:
            return Regression(name, fit).predict(own, graph)
        if not graph.has_edges:
            raise GraphError(f"the rows have no column {column!r}: give Local's logits or a graph")
        return federation.model(own, graph).logits

    def gram(self, graph: Graph, regression: Regression, federation: Federation) -> Gram:
        """The rows and classes that it reads; of a table, those of all regressions in one pass."""
        if isinstance(graph, RowTable):
            return self.gathered(graph, federation)[0][regression]
        rows, labels = regression.fitted_rows(graph, federation.model.classes)
        return self.empty_gram(regression, federation).add(rows, labels)

    def gathered(self, table: RowTable, federation: Federation) -> Gathered:
        """Of a table, in one pass: the Gram matrix of each regression, and the columns that occur."""

        def gather(_: Graph) -> Gathered:
            grams = {part: self.empty_gram(part, federation) for part in self.regressions}
            widths = self.row_columns(federation)
            used = {row: torch.zeros(width, dtype=torch.bool) for row, width in widths.items()}
            for block in table.blocks():
                used = {row: before | (block.maps[row] != 0).any(0) for row, before in used.items()}
                for regression, gram in grams.items():
                    gram.add(*regression.fitted_rows(block, federation.model.classes))
            return grams, used

        return table.derived(f"gathered by {self} for {federation.digest.hex()}", gather)

    def empty_gram(self, regression: Regression, federation: Federation) -> Gram:
        return Gram(regression.columns(federation), federation.model.classes)

    def externals(
        self, returned: Message, graph: Graph, fit: str, federation: Federation
    ) -> list[External]:
        """Of each map: an answer for each strength, and perhaps one corrected on one's own rows."""
        externals: list[External] = []
        for name in self.maps:
            regression = Regression(name, fit)
            basis, mixing = (returned[f"{regression.key}/{part}"] for part in ("basis", "mixing"))
            if isinstance(graph, RowTable):
                used = self.gathered(graph, federation)[1][row_key(name, fit)]
            else:
                used = regression.used_columns(graph, federation.model.classes)
            answers = list(merging.expanded(basis * used, mixing, len(self.strengths)))
            subject = TITLES.get(name, f"{name.removeprefix('hop')} hops")
            titles = [f"{subject}, λ = {strength:g}" for strength in self.strengths]
            own: list[tuple[Tensor, float]] = []
            if self.own is not None:
                titles.append(f"{subject}, corrected here")
                own.append((answers[len(self.strengths) // 2], self.own))
            if self.every_label and name != LABELS:
                titles += [f"{subject} of this site alone, λ = {strength:g}" for strength in ALONE]
                own += [(torch.zeros_like(answers[0]), strength) for strength in ALONE]
            if own:
                gram = self.gram(graph, regression, federation)
                answers += gram.own_residuals(*zip(*own, strict=True))
            externals += [
                External({name: answer.contiguous()}, f"ridge on {title}", regression.predict)
                for title, answer in zip(titles, answers, strict=True)
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
            parts = [Regression(name, FITS[0]).predict(params, graph) for name in params]
            return torch.stack(parts).sum(0)

        answers = {}
        for name in rows:
            basis, mixing = returned[f"{name}/basis"], returned[f"{name}/mixing"]
            answers[name] = merging.expanded(basis, mixing, len(self.strengths))[0]
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

    def sent_rows(self, regression: Regression, federation: Federation) -> int:
        """How many rows of it a client sends."""
        return self.rows

    def empty_gram(self, regression: Regression, federation: Federation) -> Gram:
        return Gram(regression.columns(federation), federation.model.classes, self.smallest_class)

    def share(self, local: Params, graph: Graph, federation: Federation) -> dict[str, Tensor]:
        message, graph = {}, self.grouped(graph)
        for regression in self.sent():
            most = self.sent_rows(regression, federation)
            sent = self.gram(graph, regression, federation).condensed(most, self.nodes_per_row)
            for part, value in zip(PARTS, sent, strict=True):
                message[f"{regression.key}/{part}"] = value
        return message

    def explain(self, uploads: Uploads, federation: Federation) -> protocol.Explanation:
        labels = next(iter(uploads))[f"{self.maps[0]}/labels"]
        kind = "labelled" if self.every_label else "training"
        sentence = (
            f"{int(labels.any(1).sum())} rows of each kind are weighted sums of your {kind} nodes' "
            f"features and of what surrounds them, one row for every {self.nodes_per_row} nodes or "
            "more. Together with their labels they tell the server, nearly exactly, the sum of these "
            f"features over each class and how many {kind} nodes it has: of "
            f"{int(labels.any(0).sum())} classes here. Classes with fewer than {self.smallest_class} "
            f"{kind} nodes are not in it."
        )
        return replace(super().explain(uploads, federation), sentences=(NO_NODE, sentence))

    def reading(self, uploads: Uploads, federation: Federation) -> Reading:
        """Z and M of each hop: B ≈ ZᵀM by class."""
        (batch,) = uploads.batches()
        hops = self.maps[: len(self.hops)]
        sent = {name: Regression(name, FITS[0]).stacked_rows(batch) for name in hops}
        rows, labels = sent[hops[0]]
        returned = next(iter(self.merge(uploads, federation)))
        spans = {name: rows for name, (rows, _) in sent.items()}
        reading = self.read_answer(returned, spans, rows.T @ labels)
        return replace(reading, classes=labels.square().sum(0))  # MᵀM ≈ YᵀY counts nodes

    def merge(self, uploads: Uploads, federation: Federation) -> Iterator[Message]:
        """From all rows at once where they are few, else from sums over batches of clients.

        Where every label is read, no one group of clients moves an answer far; `pace-ridge` stays as
        the study has it. Sums are added up before anybody could be left out.
        """
        most = max(self.sent_rows(part, federation) for part in self.sent()) * len(self.fits[:2])
        solver = self._from_rows if most * len(uploads) <= STACKED else self._from_sums
        groups, solve = min(GROUPS, len(uploads)), solver(uploads, federation)
        if not self.every_label or groups < FEWEST_GROUPS:
            return repeat(self.returned(solve), len(uploads))
        most_of = (protocol.Without(uploads, group, groups) for group in range(groups))
        without = [solver(others, federation) for others in most_of]
        returned = self.returned(
            lambda parts: merging.limit_rows(solve(parts), [others(parts) for others in without])
        )
        return repeat(returned, len(uploads))

    def site_sums(self, uploads: Uploads, federation: Federation) -> dict[str, SiteSums]:
        """From the rows that sites sent; their squared labels count the nodes, nearly."""
        sums, batches = {}, list(uploads.batches())
        for name in self.maps:
            keys = [part.key for part in self.parts(Regression(name, self.fits[-1]))]
            rows, labels = (
                torch.cat([torch.cat([batch[f"{k}/{part}"] for k in keys], 1) for batch in batches])
                for part in PARTS
            )
            rows, labels = rows.double(), labels.double()
            sums[name] = SiteSums.of_rows(rows, rows.mT @ labels, labels.square().sum((1, 2)))
        return sums

    def _from_rows(self, uploads: Uploads, federation: Federation) -> Solve:
        batches = list(uploads.batches())

        def solve(parts: Sequence[Regression]) -> Tensor:
            stacks = [part.stacked_rows(batch) for part in parts for batch in batches]
            rows, labels = map(torch.cat, zip(*stacks, strict=True))
            sent = torch.linalg.vector_norm(rows, dim=1) > 0  # small sites leave rows empty
            return merging.solve_rows(rows[sent], labels[sent], self.strengths)

        return solve

    def _from_sums(self, uploads: Uploads, federation: Federation) -> Solve:
        """One pass, and memory for one batch: G itself where columns are few, else a sketch of it."""
        omegas = {name: Regression(name, FITS[0]).omega(federation) for name in self.maps}
        totals: dict[Regression, Sums] = {}
        for batch in uploads.batches():
            for part in self.sent():
                sums = merging.sketched(*part.stacked_rows(batch), omegas[part.map])
                totals[part] = added([totals[part], sums]) if part in totals else sums
        return lambda parts: merging.solve_sums(
            added([totals[part] for part in parts]), omegas[parts[0].map], self.strengths
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

    def sent_rows(self, regression: Regression, federation: Federation) -> int:
        """More where features are few: PACE's upload has 28 bytes a feature and some 3,600 more."""
        most = self.rows + 600 // federation.model.features
        return min(regression.columns(federation), most)


def added(parts: Iterable[Sums]) -> Sums:
    """The sums of all rows of the parts, one part at a time."""
    return reduce(lambda total, part: tuple(map(torch.add, total, part)), parts)
