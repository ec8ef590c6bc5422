"""FedGTA, one round: an average among clients with similar smoothed labels (Li et al., 2024)."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from pace.graph import Graph
from pace.methods import at_least
from pace.models import Operator, csr_tensor
from pace.models.operator import csr_array
from pace.models.propagation import neighbour_sum
from pace.params import Params
from pace.protocol import Federation, Message, Method, Uploads, bounded
from pace.task import targets
from pace_study.baselines.mixing import cosines, gathered, mixtures


@dataclass(frozen=True)
class FedGTA(Method):
    """Every client's own average of clients whose labels propagate alike (Li et al., 2024).

    W_i* = Σ_{j in J_i} g_j W_j / Σ_{j in J_i} g_j,   J_i = {j : cos(M_i, M_j) > 0.5}

    M_i are moments of the client's propagated labels R = softmax(Z), and the confidence g_i their
    degree-weighted negative entropy at temperature 20; training rows hold the true labels in both.
    Labels are propagated as OpenFGL does, since the paper's partitions are OpenFGL's and its gap to
    FedAvg on Cora is the paper's. Labels leave the client as these statistics: that is the published
    method.
    """

    needs: ClassVar[str] = "it mixes clients whose labels propagate alike"
    tensors: ClassVar[Mapping[str, str]] = {
        "moments": "statistics of propagated labels (from training labels)",
        "confidence": "how sure the propagated labels are",
    }

    threshold: float = 0.5
    orders: int = 10
    temperature: float = 20.0

    def share(self, local: Params, graph: Graph, federation: Federation) -> dict[str, Tensor]:
        classes = federation.model.classes
        truth = graph.x.new_zeros(graph.nodes, classes)
        truth[graph.train] = targets(graph.training_labels, classes)
        soft = federation.network(local, graph).logits.softmax(1)
        spread = spread_labels(soft, graph)
        labelled = graph.train[:, None]
        near = torch.where(labelled, truth, spread.softmax(1))
        far = torch.where(labelled, truth, (spread / self.temperature).softmax(1))
        told = {"moments": moments(near, self.orders), "confidence": confidence(far, graph)}
        return {**local, **told}

    def check(self, upload: Message, federation: Federation) -> None:
        weight = upload["confidence"]
        bounded({name: value for name, value in upload.items() if value is not weight})
        bounded({"confidence": weight}, 1e15)  # it grows with edges times classes
        at_least(upload, "confidence", 0)

    def merge(self, uploads: Uploads, federation: Federation) -> Iterator[Message]:
        peers = cosines(gathered(uploads, "moments")) > self.threshold
        peers.fill_diagonal_(True)
        weights = gathered(uploads, "confidence").clamp_min(1e-12).t()  # (1, K); 0 without an edge
        return mixtures(uploads, peers * weights, federation.start)


def spread_labels(soft: Tensor, graph: Graph) -> Tensor:
    """OpenFGL's Z: the model's soft labels on training rows, propagated.

    Z_0 is zero on other rows; Z ← clamp(A Z / 2 + Z_0 / 2, 0, 1), A normalised without self-loops.
    """
    spread = begin = soft * graph.train[:, None]
    around = graph.derived("A without loops", without_loops)
    for _ in range(5):
        spread = (0.5 * (around @ spread) + 0.5 * begin).clamp(0, 1)
    return spread


def moments(soft: Tensor, orders: int) -> Tensor:
    """mean(R^k), then mean((R - mean R)^k), k = 1..orders, over nodes: 2 · orders · C numbers."""
    soft = soft.double()
    parts = [
        (values**order).mean(0)
        for values in (soft, soft - soft.mean(0))
        for order in range(1, orders + 1)
    ]
    return torch.cat(parts)


def confidence(soft: Tensor, graph: Graph) -> Tensor:
    """g = Σ_v deg_v (C/e + Σ_c D_vc log(D_vc + 1e-8)); C/e bounds the entropy, so g ≥ 0."""
    degree = torch.bincount(graph.edges[0], minlength=graph.nodes).double()
    soft = soft.double()
    certainty = soft.shape[1] / math.e + (soft * (soft + 1e-8).log()).sum(1)
    return (degree @ certainty)[None]


def without_loops(graph: Graph) -> Operator:
    """A normalised by the degrees on both sides; a node without neighbours receives nothing."""
    around = csr_array(neighbour_sum(graph, 0.0).matrix)
    scale = sparse.diags_array(1 / np.sqrt(around.sum(1).clip(min=1)))
    return Operator(csr_tensor((scale @ around @ scale).sorted_indices())).to(graph.x.device)
