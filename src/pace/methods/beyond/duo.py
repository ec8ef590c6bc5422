"""PACE with a second correction, a temperature and a guard, at half the bytes. Not in the paper."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pace.errors import SettingError
from pace.gates import LEVEL, RIDGE, Gate, Guarded
from pace.graph import Graph
from pace.merging import (
    LARGEST,
    SHARPNESS,
    apply,
    correction,
    pack,
    peer_consensus,
    peer_weights,
    uniform,
    unpack,
)
from pace.methods.pace import Pace, pairs, read
from pace.params import Params
from pace.protocol import KINDS, External, Federation, Message, Uploads

BLOCK = 8  # receivers whose peers' consensus is summed in one pass over the uploads
CORRECTIONS = 2


@dataclass(frozen=True)
class PaceDuo(Pace):
    """PACE with two corrections, of everybody's consensus and of one's peers', and a guarded mixture.

    Upload: as PACE. Return: P_r(Δ - own) and P_r(Δ_i - own), with Δ_i the consensus of i's peers.

    The receiver weighs Local and both Externals together; the weights need not sum to one, and have to
    prove themselves on held-out validation nodes. Numbers are int8 on the wire.
    """

    needs: ClassVar[str] = "it finds each client's peers by their moments"
    quadratic: ClassVar[bool] = True

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
