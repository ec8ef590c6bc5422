"""PACE with a second correction, a temperature and a guard, at half the bytes. Not in the paper."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pace.errors import SettingError
from pace.gates import LEVEL, RIDGE, Gate, Guarded
from pace.graph import Graph
from pace.merging import EPS, Batch, apply, correction, pack, uniform, unpack
from pace.merging.carrier import LowRank
from pace.methods import Pace, pairs, read
from pace.params import Params
from pace.protocol import KINDS, External, Federation, Message, Uploads

BLOCK = 8  # receivers whose peers' consensus is summed in one pass over the uploads
CORRECTIONS = 2
SHARPNESS, LARGEST = 10.0, 0.5  # of peers' weights


@dataclass(frozen=True)
class PaceDuo(Pace):
    """PACE with two corrections, of everybody's consensus and of one's peers', and a guarded mixture.

    Upload: as PACE. Return: P_r(Δ - own) and P_r(Δ_i - own), with Δ_i the consensus of i's peers.

    The receiver weighs Local and both Externals together; the weights need not sum to one, and have to
    prove themselves on held-out validation nodes. Numbers are int8 on the wire.
    The server sums all uploads anew for every client: some 5e-5 s a pair of clients at Cora's shape.
    """

    needs: ClassVar[str] = "it finds each client's peers by their moments"

    gate: Gate = Guarded()  # noqa: RUF009 - of the ridge and level below
    ridge: float = RIDGE
    level: float = LEVEL  # 1 is no guard
    numbers: str = KINDS[2]
    sharpness: float = SHARPNESS
    most: float = LARGEST

    def __post_init__(self) -> None:
        super().__post_init__()
        for title, value in {"the ridge": self.ridge, "the sharpness": self.sharpness}.items():
            if not 0 <= value < math.inf:
                raise SettingError(f"{title} is {value}, expected a number, 0 or more")
        for title, value in {"the guard's level": self.level, "a peer's most": self.most}.items():
            if not 0 < value <= 1:
                raise SettingError(f"{title} is {value}, expected above 0, at most 1")
        object.__setattr__(self, "gate", Guarded(self.ridge, self.level))
        if self.geometry is uniform:
            raise SettingError(
                "pace-duo finds peers by their moments: a geometry without them has none"
            )

    def merge(self, uploads: Uploads, federation: Federation) -> Iterator[dict[str, Tensor]]:
        of_all = iter(super().merge(uploads, federation))
        start = federation.start
        first = [next(iter(moments.values())) for _, moments in pairs(uploads, start)]  # layer
        weights = peer_weights(torch.cat(first), self.sharpness, self.most)
        owns = (read(upload, start)[0] for upload in uploads)
        for rows in weights.split(BLOCK):
            for view in peer_consensus(pairs(uploads, start), rows):
                of_peers = pack(correction(view, next(owns), self.rank))
                yield joined([next(of_all), of_peers])

    def adopt(
        self, local: Params, returned: Message, graph: Graph, federation: Federation
    ) -> list[External]:
        return [
            External(apply(local, unpack(message, local)), f"External {number}")
            for number, message in enumerate(parted(returned, local), start=1)
        ]


def joined(messages: Sequence[Message]) -> dict[str, Tensor]:
    """Corrections as one message: factors side by side, so that names and tables are sent once."""
    return {
        name: torch.stack([message[name] for message in messages])
        if value.ndim == 1
        else torch.cat([message[name] for message in messages], dim=int(name.endswith("/L")))
        for name, value in messages[0].items()
    }


def parted(message: Message, params: Params) -> list[dict[str, Tensor]]:
    """The corrections again."""
    corrections: list[dict[str, Tensor]] = [{} for _ in range(CORRECTIONS)]
    for name, value in message.items():
        flat = name in params and params[name].ndim == 1
        parts = value.unbind() if flat else value.chunk(CORRECTIONS, dim=int(name.endswith("/L")))
        for correction_, part in zip(corrections, parts, strict=True):
            correction_[name] = part
    return corrections


def peer_weights(moments: Tensor, sharpness: float = SHARPNESS, largest: float = LARGEST) -> Tensor:
    """Weights of each receiver's peers, (K, K): softmax over j ≠ i of sharpness · cos(m_i, m_j).

    A client is not among its own peers: its own view is Local, which it has already. A federation of
    one has no other, and its peer is itself. A row whose largest weight exceeds `largest` is shrunk
    towards uniform until it does not, so that nobody is sent another's update alone. `moments` are
    those of the first layer, (K, features).
    """
    if len(moments) == 1:
        return torch.ones(1, 1, dtype=torch.float64)
    directions = torch.nn.functional.normalize(moments.double(), dim=1)
    similarity = sharpness * (directions @ directions.t())
    weights = similarity.fill_diagonal_(-torch.inf).softmax(1)
    uniform_weight = 1 / (len(moments) - 1)
    uniform = (similarity > -torch.inf).double() / (len(moments) - 1)
    highest = weights.amax(1, keepdim=True)
    excess = (highest - largest).clamp_min(0)
    shrinkage = (excess / (highest - uniform_weight).clamp_min(EPS)).clamp_max(1)
    return weights + shrinkage * (uniform - weights)


def peer_consensus(batches: Iterable[Batch], weights: Tensor) -> list[dict[str, Tensor]]:
    """RegMean with weights of its own for each receiver, a row of `weights` (receivers, K):

        Δ_i = (Σ_j w_ij Δ_j C_j) (Σ_j w_ij C_j)^-1,   C_j = diag(m_j + ε)

    With equal weights each is the `consensus`. Parameters without a moment take the weighted mean.
    """
    above: dict[str, Tensor] = {}  # Σ_j w_ij Δ_j C_j, (receivers, *shape)
    below: dict[str, Tensor] = {}  # Σ_j w_ij C_j, (receivers, in), or (receivers, 1)
    seen = 0
    for updates, moments in batches:
        many = len(next(iter(moments.values())))
        share = weights[:, seen : seen + many]
        seen += many
        for name, value in updates.items():
            column = (
                moments[name].double() + EPS if name in moments else torch.ones(many, 1).double()
            )
            above[name] = above.get(name, 0) + _weighted(value, column, share)
            below[name] = below.get(name, 0) + share @ column
    means = {
        name: total / below[name].clamp_min(EPS).view(len(weights), *[1] * (total.ndim - 2), -1)
        for name, total in above.items()
    }
    return [{name: each[place] for name, each in means.items()} for place in range(len(weights))]


def _weighted(updates: LowRank | Tensor, column: Tensor, share: Tensor) -> Tensor:
    """Σ_j w_ij Δ_j C_j over a batch; of factors, [w_i1 L_1 …] [R_1 C_1; …] for every receiver i."""
    if isinstance(updates, LowRank):
        right = updates.right.double() * column[:, None]
        left = updates.left.double() * share[..., None, None]  # (receivers, many, out, r)
        return left.transpose(1, 2).flatten(2) @ right.flatten(0, 1)
    inner = column.view(len(column), *[1] * (updates.ndim - 2), -1)
    total: Tensor = torch.tensordot(share, updates.double() * inner, 1)
    return total
