"""Direct: the consensus itself is returned, in place of a correction (the paper's ablation)."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from pace.merging.carrier import compress, dense, pack, unpack
from pace.merging.consensus import consensus
from pace.methods.pace import Pace, read
from pace.params import Params, add
from pace.protocol.federation import Federation
from pace.protocol.method import Message, Uploads


@dataclass(frozen=True)
class Direct(Pace):
    """PACE's upload; everyone is returned P_r(Δ), and External = W_0 + P_r(Δ).

    What a receiver knew beyond its carrier is lost: W_0 + P_r(Δ) says nothing of W_L. CNLL still
    chooses between the two.
    """

    def merge(self, uploads: Uploads, federation: Federation) -> Iterator[dict[str, Tensor]]:
        shared = consensus(read(upload, federation.start) for upload in uploads)
        returned = pack(compress(shared, self.rank))
        return (returned for _ in uploads)

    def adopt(self, local: Params, returned: Message, federation: Federation) -> dict[str, Tensor]:
        return add(federation.start, dense(unpack(returned, federation.start)))
