"""PACE: a propagation-aware, receiver-anchored correction (the paper's method)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from pace import merging, protocol
from pace.errors import SettingError, WeightError
from pace.gates import CHANCE, Gate, Guarded, cnll
from pace.graph import Graph
from pace.merging import CLIENTS, EPS
from pace.params import Params, add, subtract
from pace.protocol import Explanation, External, Federation, Message, Reading, Uploads, Weight

AVERAGED = "; it multiplies no rows, so the plain mean is taken"
MOMENTS = "By feature, layer 1's moments tell how strongly it occurs around your training nodes."


@dataclass(frozen=True)
class Pace(protocol.Summable):
    """The paper's method: a correction of each client's own model, weighed by propagated moments.

    Ablations replace a part of it.

        upload    P_r(W_L - W_0) and the moments
        return    P_r(Δ - own carrier)
        External  W_L + return

    Example:
        >>> from pace import Pace
        >>> Pace(rank=2).rank
        2
    """

    rank: int | None = merging.RANK
    """Of the factors that are sent; None sends dense updates."""
    geometry: merging.Geometry = merging.propagated
    """Whose second moments weigh the consensus: propagated rows, `raw` ones, or `uniform`."""
    gate: Gate = cnll
    """How a receiver chooses α; `Fixed(0.5)` takes one α for everyone."""

    tensors: ClassVar[Mapping[str, str]] = {CLIENTS: "a one, to count by"}

    def __post_init__(self) -> None:
        if self.rank is not None and self.rank < 1:
            raise SettingError(f"rank is {self.rank}, expected 1 or more, or 'dense'")

    def share(self, local: Params, graph: Graph, federation: Federation) -> dict[str, Tensor]:
        carrier = merging.compress(subtract(local, federation.start), self.rank)
        moments = self.geometry(federation.network(local, graph), graph)
        if self.geometry is not merging.uniform:
            merging.check_complete(moments, federation.start, federation.model.averaged)
        return merging.pack(carrier) | {f"{name}/m": moment for name, moment in moments.items()}

    def check(self, upload: Message, federation: Federation) -> None:
        protocol.bounded(upload)
        for name, moment in read(upload, federation.start)[1].items():
            merging.check(f"{name}/m", moment)

    def statistic_of(self, upload: Message, federation: Federation) -> dict[str, Tensor]:
        """Δ_k C_k, C_k and a one to count by; `total` makes the sum of all without any of these."""
        return self.total(protocol.Messages([upload]), federation)

    def total(self, uploads: Uploads, federation: Federation) -> dict[str, Tensor]:
        return merging.summed(pairs(uploads, federation.start))

    def check_total(self, total: Message, clients: int, federation: Federation) -> None:
        for name, moments in read(total, federation.start)[1].items():
            merging.check(f"{name}/m", moments, clients)
        if float(total[CLIENTS]) != clients:
            raise WeightError(f"the sum counts {float(total[CLIENTS]):g} clients, not {clients}")

    def answer(self, total: Message, federation: Federation) -> dict[str, Tensor]:
        return merging.mean(total)

    def personal(self, answer: Message, local: Params, federation: Federation) -> Message:
        own = merging.compress(subtract(local, federation.start), self.rank)
        return merging.pack(merging.correction(answer, own, self.rank))

    def merge(self, uploads: Uploads, federation: Federation) -> Iterable[Message]:
        shared = self.answer(self.total(uploads, federation), federation)
        owns = (carriers for carriers, _ in pairs(uploads, federation.start))
        for batch in merging.corrections(shared, owns, self.rank):
            yield from merging.unbatched(merging.pack(batch))

    def explain(self, uploads: Uploads, federation: Federation) -> Explanation:
        message = next(iter(uploads))
        more = {name: AVERAGED for name in federation.model.averaged if not name.endswith("bias")}
        tensors = {
            name: protocol.tensor_sentence(name, self.tensors, update=True) + more.get(name, "")
            for name in message
        }
        explained = replace(super().explain(uploads, federation), tensors=tensors)
        moment = next((value for name, value in message.items() if name.endswith("/m")), None)
        if moment is None:
            return explained
        return replace(explained, sentences=(*explained.sentences, MOMENTS), unused=moment == 0)

    def reading(self, uploads: Uploads, federation: Federation) -> Reading:
        """The carrier is an update of W_0, and a column that no training node uses has no moment."""
        total, start = self.total(uploads, federation), federation.start
        _, sums = read(total, start)
        moments = {name: (m - EPS * len(uploads)).clamp_min(0) for name, m in sums.items()}
        update = {name: value.float() for name, value in merging.mean(total).items()}
        first = next((m for m in moments.values() if len(m) == federation.model.features), None)
        return Reading(External(add(start, update)), moments, first)

    def weights(self, uploads: Uploads, federation: Federation) -> list[Weight]:
        """A client's share is its weight C_k / Σ C in a column, averaged over all numbers of the model.

        Where there is no moment, as for a bias, every client weighs the same.
        """
        total, start = self.total(uploads, federation), federation.start
        weights: list[Weight] = []
        numbers = sum(value.numel() for value in start.values())
        for carriers, moments in pairs(uploads, start):
            lengths = merging.norms(carriers)
            share = torch.zeros_like(lengths)
            for name, value in start.items():
                part: Tensor | float = 1 / len(uploads)
                if name in moments:
                    part = ((moments[name].double() + EPS) / total[f"{name}/m"]).mean(1)
                share += value.numel() / numbers * part
            weights += map(Weight, share.tolist(), lengths.tolist())
        return weights

    def adopt(
        self, local: Params, returned: Message, graph: Graph, federation: Federation
    ) -> list[External]:
        return [External(merging.apply(local, merging.unpack(returned, local)))]


@dataclass(frozen=True)
class Limited(Pace):
    """PACE whose correction goes as far as the receiver's own nodes bear it out.

    PACE's messages; the receiver shortens columns of the weights to what its update and validation
    nodes allow (`column_factors`). A hidden unit is seen by the nodes at which Local's fires: one that
    only a trigger wakes has no say. The gate has a temperature, and validation accuracy may not fall by
    more than chance.
    """

    version: ClassVar[int] = 2  # columns are shorter

    gate: Gate = Guarded(level=CHANCE)  # noqa: RUF009 - a frozen setting

    def adopt(
        self, local: Params, returned: Message, graph: Graph, federation: Federation
    ) -> list[External]:
        (whole,) = super().adopt(local, returned, graph, federation)
        params = dict(whole.params)
        with torch.no_grad():
            inputs = federation.network(local, graph).inputs
        for name, rows in inputs.items():
            change, own = params[name] - local[name], local[name] - federation.start[name]
            factors = merging.column_factors(change, own, merging.seen(rows[graph.val]))
            params[name] = local[name] + change * factors.to(change.dtype)
        return [External(params, whole.name, returned=whole.params)]


def pairs(uploads: Uploads, start: Params) -> Iterator[merging.Batch]:
    """The carriers and moments of uploads, in batches."""
    return (read(batch, start) for batch in uploads.batches())


def read(upload: Message, start: Params) -> merging.Batch:
    """The carrier and the moments of an upload, or of a batch of them."""
    moments = {name: upload[f"{name}/m"] for name in start if f"{name}/m" in upload}
    return merging.unpack(upload, start), moments
