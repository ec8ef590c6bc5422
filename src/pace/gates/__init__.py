"""Section 4.4: how a receiver weighs Local against what came back, on its own validation nodes."""

from pace.gates.gate import (
    CHANCE,
    LEVEL,
    Fixed,
    Gate,
    Guarded,
    Mixture,
    cnll,
    keep_local,
    no_worse_than_local,
    promises,
    weigh_receivers,
)
from pace.gates.mixture import RIDGE, Weights, local_alone, mix, weigh
