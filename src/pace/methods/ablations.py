"""The paper's ablations of PACE: each replaces one part of it."""

from collections.abc import Callable, Mapping
from functools import partial

from pace.gates.fixed import Fixed
from pace.merging.moments import raw, uniform
from pace.methods.direct import Direct
from pace.methods.pace import Pace
from pace.protocol.method import Method

ABLATIONS: Mapping[str, Callable[[], Method]] = {
    "pace-transport": partial(Pace, gate=Fixed(1.0)),  # the correction alone, always taken
    "pace-half": partial(Pace, gate=Fixed(0.5)),
    "pace-mean": partial(Pace, geometry=uniform),
    "pace-raw": partial(Pace, geometry=raw),
    "pace-direct": Direct,
}
