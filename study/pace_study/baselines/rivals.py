"""One-shot rivals of 2025 and 2026: SPEAR, the LDA of GH-OFL, and O-pFGL.

Each from its paper, as far as that says; what differs from it is listed in its docstring.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div

from pace.gates import Gate, Mixture
from pace.graph import Graph
from pace.methods.beyond.ridge import SCALE
from pace.models import fitted_labels, unit_rows
from pace.models.propagation import neighbour_sum
from pace.models.unit_rows import degrees_of
from pace.params import Params
from pace.protocol import External, Federation, Message, Method, Reading, Summable, Uploads
from pace.task import called, targets
from pace.training import Optimiser, Recipe, train

HOP = 2  # the rows that rivals read: features that travelled two hops
PROJECTED = 512  # columns of GH-OFL's rows, where there are more features


@dataclass(frozen=True)
class Linear:
    """How a linear External predicts: rows after some hops, perhaps projected, times W plus b."""

    projected: Tensor | None = None  # of the seed, not sent
    hop: int = HOP

    def __call__(self, params: Params, graph: Graph) -> Tensor:
        weight = params["weight"]
        if self.projected is not None:
            weight = self.projected @ weight
        return unit_rows(graph, self.hop) @ weight + params["bias"]


class Rival(Method):
    """A method that gives everybody one model, which a receiver weighs beside Local as pace-ridge's."""

    @property
    def gate(self) -> Gate:
        return Mixture()

    def predictor(self, federation: Federation) -> Callable[[Params, Graph], Tensor] | None:
        """How its model predicts; None: as the network does."""
        return None

    def adopt(
        self, local: Params, returned: Message, graph: Graph, federation: Federation
    ) -> list[External]:
        return [External(dict(returned), type(self).__name__, self.predictor(federation))]

    def reading(self, uploads: Uploads, federation: Federation) -> Reading:
        """It is read as the model that these uploads alone give."""
        returned = next(iter(self.merge(uploads, federation)))
        return Reading(External(dict(returned), predict=self.predictor(federation)))


def trained_on(graph: Graph, epochs: int, federation: Federation) -> dict[str, Tensor]:
    """The federation's model, trained on a graph that the server made."""
    model, seed = federation.model, federation.seed
    return train(graph, model, model.start(seed), recipe=Recipe(epochs), seed=seed)


class ClassSums(Rival, Summable):
    """A linear model from sums of training nodes' rows by class."""

    def projection(self, federation: Federation) -> Tensor | None:
        """What rows are multiplied with before they are summed, of the seed; None: nothing."""
        return None

    def share(self, local: Params, graph: Graph, federation: Federation) -> Message:
        rows, projection = unit_rows(graph, HOP)[graph.train], self.projection(federation)
        labels = targets(graph.training_labels, federation.model.classes)
        return self.summed(rows if projection is None else rows @ projection, labels)

    def summed(self, rows: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """What is sent of the training nodes' rows."""
        return {"sums": labels.T @ rows, "counts": labels.sum(0)}

    def statistic_of(self, upload: Message, federation: Federation) -> Message:
        return {name: value.double() for name, value in upload.items()}

    def predictor(self, federation: Federation) -> Linear:
        return Linear(self.projection(federation))


SUMS = {"sums": "sum of your training nodes' rows, by class", "counts": "training nodes by class"}


@dataclass(frozen=True)
class Spear(ClassSums):
    """SPEAR: class prototypes of rows smoothed along edges, shrunk by sample size (arXiv 2609.06154).

    p_c = (Σ h_v + τ m) / (n_c + τ),   m the mean of all rows; a node is of the nearest prototype's class

    Known by its abstract alone: rows are this study's (two hops, length one), τ is ours. Global; nothing
    is trained. Classes that nobody has are never called.
    """

    tensors: ClassVar[Mapping[str, str]] = SUMS | {
        "weight": "the classes' prototypes",
        "bias": "half their squared lengths",
    }

    shrinkage: float = 5.0  # τ

    def answer(self, total: Message, federation: Federation) -> Message:
        sums, counts = total["sums"], total["counts"]
        mean = sums.sum(0) / counts.sum().clamp_min(1)
        prototypes = (sums + self.shrinkage * mean) / (counts + self.shrinkage)[:, None]
        bias = -prototypes.square().sum(1) / 2
        bias = torch.where(counts > 0, bias, torch.full_like(bias, -2.0))
        return {"weight": SCALE * prototypes.T.float(), "bias": SCALE * bias.float()}


@dataclass(frozen=True)
class GaussianHead(ClassSums):
    """GH-OFL's LDA from class sums and second moments (arXiv 2602.01186), on hop rows.

    Σ = (B - Σ_c n_c μ_c μ_cᵀ) / (n - C), shrunk towards its mean variance; logits x Σ⁻¹μ_c + b_c

    The authors read a pretrained image network's features; here they are rows after two hops, through a
    public random projection where there are more than 512 features. Global; nothing is trained.
    """

    tensors: ClassVar[Mapping[str, str]] = SUMS | {
        "moments": "products of every two columns, summed over training nodes",
        "weight": "the discriminant's directions",
        "bias": "its offsets",
    }

    shrinkage: float = 0.05

    def projection(self, federation: Federation) -> Tensor | None:
        """From the seed; None where there are few features."""
        features = federation.model.features
        if features <= PROJECTED:
            return None
        random = federation.random("gh-ofl projection")
        return torch.randn(features, PROJECTED, generator=random).div(PROJECTED**0.5)

    def summed(self, rows: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return super().summed(rows, labels) | {"moments": rows.T @ rows}

    def answer(self, total: Message, federation: Federation) -> Message:
        sums, counts, moments = total["sums"], total["counts"], total["moments"]
        nodes, (classes, columns) = counts.sum().clamp_min(1), sums.shape
        means = sums / counts.clamp_min(1)[:, None]
        within = moments - (counts[:, None] * means).T @ means
        pooled = within / (nodes - classes).clamp_min(1)
        one = torch.eye(columns, dtype=torch.float64)
        shrunk = (1 - self.shrinkage) * pooled + self.shrinkage * pooled.trace() / columns * one
        weight = torch.linalg.solve(shrunk + 1e-6 * one, means.T)  # 1e-6 is the authors'
        prior = (counts / nodes).clamp_min(1e-12).log()
        bias = prior - (means * weight.T).sum(1) / 2
        return {"weight": weight.float(), "bias": bias.float()}


@dataclass(frozen=True)
class OpFGL(Rival):
    """O-pFGL: a surrogate graph from class statistics, then personal training (arXiv 2411.11304).

    Upload: class sums of features after one hop. The server trains the model on a graph with one node a
    class, at its mean; a receiver fine-tunes it on its training nodes with

        CE + mean_v a_v KL(global ‖ own),   a_v from label propagation and the homophily of each class

    and keeps the checkpoint that its validation nodes like best. It trains after the return.

    Differs from the authors' code: the surrogate has no edges and matches the propagated means exactly,
    where they condense means and edges by gradient; a hundred epochs in each stage where they take up to
    3,000 at a fiftieth of the rate; labels are not extended by propagation.
    """

    needs: ClassVar[str] = "its server trains"
    tensors: ClassVar[Mapping[str, str]] = {
        "sums": "sum of your training nodes' features after one hop, by class",
        "counts": "training nodes by class",
    }

    version: ClassVar[int] = 2  # what is kept is what validation nodes saw

    strength: float = 0.2
    largest: float = 0.15
    epochs: int = 100
    rate: float = 1e-3

    def share(self, local: Params, graph: Graph, federation: Federation) -> Message:
        labels = targets(graph.training_labels, federation.model.classes)
        root = (1 + degrees_of(graph)).rsqrt()
        rows = root * (root * graph.x + neighbour_sum(graph, 0.0) @ (root * graph.x))
        return {"sums": labels.T @ rows[graph.train], "counts": labels.sum(0)}

    def merge(self, uploads: Uploads, federation: Federation) -> Iterator[Message]:
        every = list(uploads)
        sums, counts = (
            torch.stack([upload[name] for upload in every]).sum(0) for name in ("sums", "counts")
        )
        held = (counts > 0).nonzero().flatten()
        no_edges = torch.zeros(2, 0, dtype=torch.int64)
        surrogate = Graph.build(
            sums[held] / counts[held, None], no_edges, held, train=torch.ones_like(held).bool()
        )
        return repeat(trained_on(surrogate, self.epochs, federation), len(every))

    def adopt(
        self, local: Params, returned: Message, graph: Graph, federation: Federation
    ) -> list[External]:
        """The second stage: the received model, fine-tuned where the site's labels reach."""
        model, labels = federation.model, fitted_labels(graph, "val")
        field, coefficient = model.field(graph), self.coefficients(graph, model.classes)
        teacher = model.forward(returned, field).logits.log_softmax(1)
        optimiser = Optimiser(returned, Recipe(rate=self.rate, decay=0.0))
        leaves, best, most = optimiser.leaves(), optimiser.result(), -1
        for epoch in range(self.epochs + 1 if graph.train.any() else 0):
            logs = model.forward(leaves, field).logits.log_softmax(1)
            if epoch % 10 == 0:
                hits = int((called(logs[graph.val]) == labels).sum())
                if hits >= most:
                    best, most = optimiser.result(), hits
            apart = kl_div(logs, teacher, reduction="none", log_target=True).sum(1)
            error = cross_entropy(logs[graph.train], graph.training_labels)
            optimiser.slope.zero_()
            (error + (coefficient * apart).mean()).backward()
            optimiser.step()
        return [External(best, "O-pFGL")]

    def coefficients(self, graph: Graph, classes: int) -> Tensor:
        """a_v: how far a node holds on to the global model: little where its class is at home."""
        known = graph.x.new_zeros(graph.nodes, classes)
        known[graph.train] = targets(graph.training_labels, classes)
        around = neighbour_sum(graph, 0.0)
        near = around @ known
        alike = (near * known).sum(1) / near.sum(1).clamp_min(1)
        at_home = alike @ known  # homophily of the training nodes of each class, summed
        by_class = 1 / (1 + at_home.log1p())
        root = degrees_of(graph).clamp_min(1).rsqrt()
        spread = known
        for _ in range(2):
            along = root * (around @ (root * spread))
            spread = (0.9 * along + 0.1 * known).clamp(0, 1)
        spread[spread.sum(1) == 0] = 1 / classes  # unreached
        return (self.strength * spread @ by_class).clamp_max(self.largest)
