"""The methods, by the name the command line knows them by. A new method is one line here."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from pace.errors import SettingError, did_you_mean
from pace.gates.fixed import Fixed
from pace.merging.carrier import RANK
from pace.methods.ablations import ABLATIONS
from pace.methods.baselines.fedaux import FedAux
from pace.methods.baselines.fedavg import FedAvg
from pace.methods.baselines.fedgta import FedGTA
from pace.methods.baselines.fednova import FedNova
from pace.methods.baselines.fedprox import FedProx
from pace.methods.baselines.fedpub import FedPub
from pace.methods.baselines.fedrcl import READINGS, FedRCL
from pace.methods.baselines.fedtad import FedTAD
from pace.methods.beyond.duo import DUO, PaceDuo
from pace.methods.beyond.limited import LIMITED, Limited
from pace.methods.beyond.ridge import REGRESSIONS, PaceRidge
from pace.methods.beyond.ridge_sums import RidgeSums
from pace.methods.beyond.robust import ROBUST, Robust
from pace.methods.direct import Direct
from pace.methods.local import Local
from pace.methods.pace import Pace
from pace.protocol.method import Method

PAPER: Mapping[str, Callable[[], Method]] = {
    "local": Local,
    "fedavg": FedAvg,
    "fedprox": FedProx,
    "fednova": FedNova,
    "fedrcl": FedRCL,
    "fedpub": FedPub,
    "fedtad": FedTAD,
    "fedgta": FedGTA,
    "fedaux": FedAux,
    "pace": Pace,
}
RIDGE: Mapping[str, Callable[[], Method]] = {**REGRESSIONS, "pace-ridge-sums": RidgeSums}
METHODS: Mapping[str, Callable[[], Method]] = {
    **PAPER,
    **READINGS,
    **ABLATIONS,
    **ROBUST,
    **LIMITED,
    **DUO,
    **RIDGE,
}

GROUPS = {  # names that stand for several
    "all": tuple(PAPER),
    "ablations": tuple(ABLATIONS),
    "robust": (*ROBUST, *LIMITED),
    "beyond": (*DUO, *RIDGE),
}
ALIASES = {"fedaux-1r": "fedaux"}


def expand(name: str) -> tuple[str, ...]:
    """The methods a name stands for: a group's members, or the one method of that name."""
    return GROUPS[name] if name in GROUPS else (known(name),)


def make(name: str, rank: int | None = RANK) -> Method:
    """The method of that name; `rank` is PACE's and its ablations', None for dense messages."""
    method = METHODS[known(name)]()
    return replace(method, rank=rank) if isinstance(method, Pace) else method


def known(name: str) -> str:
    """The name a method is listed under, or an error that suggests one."""
    listed = ALIASES.get(name.lower(), name.lower())
    if listed not in METHODS:
        hint = did_you_mean(listed, (*METHODS, *GROUPS)).strip()
        hint = hint or f"choose from {', '.join(METHODS)}"
        raise SettingError(f"there is no method {name!r}: {hint}")
    return listed


__all__ = [
    "ABLATIONS",
    "DUO",
    "GROUPS",
    "METHODS",
    "PAPER",
    "READINGS",
    "RIDGE",
    "ROBUST",
    "Direct",
    "FedAux",
    "FedAvg",
    "FedGTA",
    "FedNova",
    "FedProx",
    "FedPub",
    "FedRCL",
    "FedTAD",
    "Fixed",
    "Limited",
    "Local",
    "Pace",
    "PaceDuo",
    "PaceRidge",
    "RidgeSums",
    "Robust",
    "expand",
    "make",
]
