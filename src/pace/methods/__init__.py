"""The methods by name: built in (a line each), of an installed package, or by their code's path.

The names in `__all__` are for everybody. Other rooms use `about`, `baselines.headed`,
`baselines.masked`, `beyond.ridge`, `pace` and `settings`.
"""

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass, replace
from typing import Any

from pace.errors import PaceError, SettingError, did_you_mean
from pace.gates.fixed import Fixed
from pace.io import plugins
from pace.merging.carrier import RANK
from pace.methods.ablations import ABLATIONS
from pace.methods.baselines.fedaux import FedAux
from pace.methods.baselines.fedavg import FedAvg
from pace.methods.baselines.fedgta import FedGTA
from pace.methods.baselines.fednova import FedNova
from pace.methods.baselines.fedprox import FedProx
from pace.methods.baselines.fedpub import FedPub
from pace.methods.baselines.fedrcl import FedRCL
from pace.methods.baselines.fedtad import FedTAD
from pace.methods.beyond.duo import PaceDuo
from pace.methods.beyond.limited import Limited
from pace.methods.beyond.ridge import PaceRidge
from pace.methods.beyond.ridge_sums import RidgeSums
from pace.methods.direct import Direct
from pace.methods.entry_points import advertised, code_of
from pace.methods.local import Local
from pace.methods.pace import Pace
from pace.methods.settings import settings_of, split, together, typed
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
BEYOND: Mapping[str, Callable[[], Method]] = {
    "pace-limited": Limited,
    "pace-duo": PaceDuo,
    "pace-ridge": PaceRidge,
    "pace-ridge-sums": RidgeSums,
}
METHODS: Mapping[str, Callable[[], Method]] = {**PAPER, **ABLATIONS, **BEYOND}

GROUPS = {  # names that stand for several
    "all": tuple(PAPER),
    "ablations": tuple(ABLATIONS),
    "beyond": tuple(BEYOND),
}


def expand(text: str) -> tuple[str, ...]:
    """The methods that a word stands for: a group's members, or one method, with its settings."""
    if text.strip().lower() in GROUPS:
        return GROUPS[text.strip().lower()]
    name, words = split(text)
    listed = known(name)
    return (
        together(listed, typed(listed, settings_of(factory(listed)), words)) if words else listed,
    )


def make(
    text: str, rank: int | None = RANK, settings: Mapping[str, object] | None = None
) -> Method:
    """A method by name, such as `pace`, `fedprox:mu=0.1` or `package.module:Name`.

    Args:
        text: the name, perhaps with settings.
        rank: PACE's and its variants', None for dense messages; their setting `rank` goes first.
        settings: more settings, as words or values.
    Raises:
        NotAllowedError: it is code of somebody's own that nobody here has allowed.
        SettingError: there is no such method or setting, or a value does not fit.
    """
    name, words = split(text)
    listed = known(name)
    maker = factory(listed)
    values = typed(listed, settings_of(maker), {**words, **(settings or {})})
    try:
        made: Any = maker(**values)
    except PaceError as error:
        raise SettingError(f"{listed}: {error}") from error
    except (TypeError, ValueError) as error:
        raise SettingError(f"{listed} cannot be made: {error}") from error
    if not _is_method(made):
        raise SettingError(
            f"{listed} makes a {type(made).__name__}, expected a frozen dataclass that inherits "
            "from pace.Method"
        )
    method: Method = made
    return (
        replace(method, rank=rank) if isinstance(method, Pace) and "rank" not in values else method
    )


def _is_method(made: object) -> bool:
    return Method in type(made).__mro__ and is_dataclass(made)


def factory(name: str) -> Callable[..., Method]:
    """What makes the method of this name."""
    listed = known(name)
    if listed in METHODS:
        return METHODS[listed]
    maker: Any = plugins.load(code_of(listed) or listed, "method")
    if not callable(maker):
        raise SettingError(f"{listed} is a {type(maker).__name__}, expected a method's class")
    made: Callable[..., Method] = maker
    return made


def known(name: str) -> str:
    """The name a method is listed under, or an error that suggests one."""
    if plugins.is_name(name):
        if (built_in := name.partition(":")[0].strip().lower()) in METHODS:
            raise SettingError(f"{name!r} sets nothing: settings are written {built_in}:key=value")
        return name
    listed = name.lower()
    if listed not in METHODS and code_of(listed) is None:
        hint = did_you_mean(listed, (*METHODS, *GROUPS, *advertised())).strip()
        hint = hint or f"choose from {', '.join(METHODS)}, or give package.module:Name"
        raise SettingError(f"there is no method {name!r}: {hint}")
    return listed


def own_code(name: str) -> str | None:
    """`package.module:Name` of a method that is not built in; None for one that is."""
    listed = known(name)
    return None if listed in METHODS else code_of(listed) or listed


__all__ = [
    "ABLATIONS",
    "BEYOND",
    "GROUPS",
    "METHODS",
    "PAPER",
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
    "expand",
    "factory",
    "known",
    "make",
    "own_code",
]
