"""FedPub, one round: masked models, mixed by what they do to a random graph (Baek et al., 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from pace.graph import Graph
from pace.models import Model
from pace.params import Params
from pace.protocol import Federation
from pace_study.baselines.masked import Headed, Masked, MaskedMixing, only_gcn

BLOCKS, BLOCK_NODES, INSIDE = 5, 100, 0.1  # the proxy graph: a random partition graph, p_out = 0


@dataclass(frozen=True)
class FedPub(MaskedMixing):
    """Every client's own average of models that act alike, with masks of its own (Baek et al., 2023).

    W_i* = Σ_j softmax_j(τ cos(e_i, e_j)) W_j, evaluated with the receiver's own masks.

    e_i is the mean over a random proxy graph, agreed by seed, of the layer below the head. Masks are
    trained with the weights and stay at home: the release sends them too, but no receiver reads them.

    The released penalties, an L1 norm of the masks and a proximal norm from the second round on, are
    computed on detached tensors and move no gradient: there are none here. With the 1e-3 that the
    FED-PUB paper writes, Cora falls to 72.5, where the paper has 77.4. The backbone is the release's,
    two masked convolutions and a masked linear head, and τ = 10 (OpenFGL's) fits.
    """

    needs: ClassVar[str] = "it mixes clients whose models act alike"
    tensors: ClassVar[Mapping[str, str]] = {"embedding": "mean activation of your nodes"}
    signature: ClassVar[str] = "embedding"

    def network(self, model: Model) -> Masked:
        return Masked(Headed.on(only_gcn(model, "FedPub")))

    def share(self, local: Params, graph: Graph, federation: Federation) -> dict[str, Tensor]:
        seen = federation.network(local, proxy(federation, graph.x.device))
        return super().share(local, graph, federation) | {"embedding": seen.outputs[-2].mean(0)}


@lru_cache(maxsize=1)
def proxy(federation: Federation, device: torch.device | str = "cpu") -> Graph:
    """The graph all clients are compared on: blocks of random edges, normal features."""
    random = federation.random("fedpub proxy")
    nodes = BLOCKS * BLOCK_NODES
    chosen = torch.rand(BLOCKS, BLOCK_NODES, BLOCK_NODES, generator=random) < INSIDE
    block, source, target = chosen.triu(1).nonzero().t()
    edges = torch.stack([source, target]) + block * BLOCK_NODES
    x = torch.randn(nodes, federation.model.features, generator=random)
    return Graph.build(x, edges, torch.zeros(nodes, dtype=torch.int64)).to(device)
