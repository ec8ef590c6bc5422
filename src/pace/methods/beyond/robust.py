"""PACE with a consensus that a few lying clients cannot carry away; see `pace.merging.robust`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from pace.merging.carrier import Carrier, pack
from pace.merging.correction import corrections
from pace.merging.moments import Moments
from pace.merging.robust import Clipped, Median, Rule, Trimmed
from pace.methods.pace import Pace, read
from pace.params import Params
from pace.protocol.federation import Federation
from pace.protocol.method import Method, Uploads


@dataclass(frozen=True)
class Robust(Pace):
    """PACE's messages and steps; only how the server makes Δ is another."""

    rule: Rule = Clipped()  # noqa: RUF009 - a frozen setting

    def merge(self, uploads: Uploads, federation: Federation) -> Iterator[dict[str, Tensor]]:
        pairs = _Pairs(uploads, federation.start)
        carriers = (carrier for carrier, _ in pairs)
        return map(pack, corrections(self.rule(pairs), carriers, self.rank))


@dataclass(frozen=True)
class _Pairs:
    """The uploads, read anew each time."""

    uploads: Uploads
    start: Params

    def __iter__(self) -> Iterator[tuple[Carrier, Moments]]:
        return (read(upload, self.start) for upload in self.uploads)


ROBUST: Mapping[str, Callable[[], Method]] = {
    "pace-clipped": partial(Robust, rule=Clipped()),
    "pace-trimmed": partial(Robust, rule=Trimmed()),
    "pace-median": partial(Robust, rule=Median()),
}
