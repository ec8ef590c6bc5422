"""What of a method's uploads a server has: a site's own, or the sum over all sites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pace.methods import Pace, PaceRidge, RidgeSums
from pace.protocol import Federation, Message, Messages, Method, Reading


@dataclass(frozen=True)
class Seen:
    """One method, and whether the server has sums only."""

    method: Method
    sums: bool = False

    def view(self, uploads: Sequence[Message], site: int, federation: Federation) -> Reading:
        """What can be read about a site; of sums it is the same for every site."""
        seen = uploads if self.sums else [uploads[site]]
        return federation.method.explain(Messages(seen), federation).reading()


VIEWS: Mapping[str, Seen] = {
    "PACE: an upload": Seen(Pace()),
    "PACE: the sums": Seen(Pace(), sums=True),
    "pace-ridge: an upload": Seen(PaceRidge()),
    "pace-ridge-sums: an upload": Seen(RidgeSums()),
    "pace-ridge-sums: the sums": Seen(RidgeSums(), sums=True),
}
