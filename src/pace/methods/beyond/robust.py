"""PACE with a consensus that a few lying clients cannot carry away; see `pace.merging.robust`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from torch import Tensor

from pace.merging.robust import Clipped, Median, Rule, Trimmed
from pace.methods.pace import Pace, Pairs
from pace.protocol.federation import Federation
from pace.protocol.method import Method, Uploads


@dataclass(frozen=True)
class Robust(Pace):
    """PACE with a consensus that a few lying clients cannot carry away.

    PACE's messages and steps; only how the server makes Δ is another.
    """

    rule: Rule = Clipped()  # noqa: RUF009 - a frozen setting

    needs: ClassVar[str] = "its rule compares the clients' updates"

    def consensus(self, uploads: Uploads, federation: Federation) -> dict[str, Tensor]:
        return self.rule(Pairs(uploads, federation.start))


ROBUST: Mapping[str, Callable[[], Method]] = {
    "pace-clipped": partial(Robust, rule=Clipped()),
    "pace-trimmed": partial(Robust, rule=Trimmed()),
    "pace-median": partial(Robust, rule=Median()),
}
