"""The paper's ablations of PACE: each replaces one part of it."""

from dataclasses import dataclass
from functools import partial

from torch import Tensor

from pace.gates import Fixed
from pace.graph import Graph
from pace.merging import compress, pack, raw, uniform, unpack
from pace.merging.carrier import dense
from pace.methods import Pace
from pace.params import Params, add
from pace.protocol import External, Federation, Message, Summable

TRANSPORT = partial(Pace, gate=Fixed(1.0))  # the correction alone, always taken
HALF = partial(Pace, gate=Fixed(0.5))
MEAN = partial(Pace, geometry=uniform)
RAW = partial(Pace, geometry=raw)


@dataclass(frozen=True)
class Direct(Pace):
    """PACE whose receivers are sent the consensus itself in place of a correction.

    PACE's upload; everyone is returned P_r(Δ), and External = W_0 + P_r(Δ).

    What a receiver knew beyond its carrier is lost: W_0 + P_r(Δ) says nothing of W_L. CNLL still
    chooses between the two.
    """

    def answer(self, total: Message, federation: Federation) -> dict[str, Tensor]:
        return pack(compress(super().answer(total, federation), self.rank))

    personal = Summable.personal
    merge = Summable.merge

    def adopt(
        self, local: Params, returned: Message, graph: Graph, federation: Federation
    ) -> list[External]:
        return [External(add(federation.start, dense(unpack(returned, federation.start))))]
