"""PACE: a propagation-aware, receiver-anchored correction (the paper's method)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from torch import Tensor

from pace.errors import SettingError, WeightError
from pace.gates.gate import Gate, cnll
from pace.graph import Graph
from pace.merging.batches import unbatched
from pace.merging.carrier import RANK, Carrier, compress, pack, unpack
from pace.merging.consensus import CLIENTS, Batch, mean, summed
from pace.merging.correction import apply, correction, corrections
from pace.merging.moments import Geometry, check, check_complete, propagated, uniform
from pace.params import Params, subtract
from pace.protocol.bounds import bounded
from pace.protocol.federation import Federation
from pace.protocol.method import External, Message, Summable, Uploads
from pace.protocol.uploads import Messages


@dataclass(frozen=True)
class Pace(Summable):
    """The paper's method: a correction of each client's own model, weighed by propagated moments.

    Ablations replace a part of it.

        upload    P_r(W_L - W_0) and the moments
        return    P_r(Δ - own carrier)
        External  W_L + return

    Raises:
        SettingError: the rank is below 1.

    Example:
        >>> from pace import Pace
        >>> Pace(rank=2).rank
        2
    """

    rank: int | None = RANK
    """Of the factors that are sent; None sends dense updates."""
    geometry: Geometry = propagated
    """Whose second moments weigh the consensus: propagated rows, `raw` ones, or `uniform`."""
    gate: Gate = cnll
    """How a receiver chooses α; `Fixed(0.5)` takes one α for everyone."""

    def __post_init__(self) -> None:
        if self.rank is not None and self.rank < 1:
            raise SettingError(f"rank is {self.rank}, expected 1 or more, or 'dense'")

    def share(self, local: Params, graph: Graph, federation: Federation) -> dict[str, Tensor]:
        carrier = compress(subtract(local, federation.start), self.rank)
        moments = self.geometry(federation.network(local, graph), graph)
        if self.geometry is not uniform:
            check_complete(moments, federation.start, federation.model.averaged)
        return pack(carrier) | {f"{name}/m": moment for name, moment in moments.items()}

    def check(self, upload: Message, federation: Federation) -> None:
        bounded(upload)
        for name, moment in read(upload, federation.start)[1].items():
            check(f"{name}/m", moment)

    def statistic_of(self, upload: Message, federation: Federation) -> dict[str, Tensor]:
        """Δ_k C_k, C_k and a one to count by; `total` makes the sum of all without any of these."""
        return self.total(Messages([upload]), federation)

    def total(self, uploads: Uploads, federation: Federation) -> dict[str, Tensor]:
        return summed(Pairs(uploads, federation.start))

    def check_total(self, total: Message, clients: int, federation: Federation) -> None:
        for name in federation.start:
            if (moments := total.get(f"{name}/m")) is not None:
                check(f"{name}/m", moments, clients)
        if float(total[CLIENTS]) != clients:
            raise WeightError(f"the sum counts {float(total[CLIENTS]):g} clients, not {clients}")

    def answer(self, total: Message, federation: Federation) -> dict[str, Tensor]:
        return mean(total)

    def personal(self, answer: Message, local: Params, federation: Federation) -> Message:
        own = compress(subtract(local, federation.start), self.rank)
        return pack(correction(answer, own, self.rank))

    def consensus(self, uploads: Uploads, federation: Federation) -> dict[str, Tensor]:
        """Δ of uploads that the server may see."""
        return self.answer(self.total(uploads, federation), federation)

    def merge(self, uploads: Uploads, federation: Federation) -> Iterable[Message]:
        shared = self.consensus(uploads, federation)
        owns = (carriers for carriers, _ in Pairs(uploads, federation.start))
        for batch in corrections(shared, owns, self.rank):
            yield from unbatched(pack(batch))

    def adopt(
        self, local: Params, returned: Message, graph: Graph, federation: Federation
    ) -> list[External]:
        return [External(apply(local, unpack(returned, local)))]


@dataclass(frozen=True)
class Pairs:
    """The carriers and moments of uploads, in batches, read anew each time."""

    uploads: Uploads
    start: Params

    def __iter__(self) -> Iterator[Batch]:
        return (read(batch, self.start) for batch in self.uploads.batches())


def read(upload: Message, start: Params) -> tuple[Carrier, Mapping[str, Tensor]]:
    """The carrier and the moments of an upload, or of a batch of them."""
    moments = {name: upload[f"{name}/m"] for name in start if f"{name}/m" in upload}
    return unpack(upload, start), moments
