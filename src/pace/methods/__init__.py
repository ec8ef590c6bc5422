"""The methods by name: built in (a line of `pace.registry`), of a package, or by their code's path.

The names in `__all__` are for everybody. Other rooms use `about`, `beyond.ridge` and `pace`.
"""

from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from typing import Any

from pace.errors import PaceError, SettingError
from pace.gates.gate import Fixed
from pace.merging.carrier import RANK
from pace.methods.baselines import FedAvg, FedProx, Local
from pace.methods.beyond.duo import PaceDuo
from pace.methods.beyond.ridge import PaceFull, PaceRidge
from pace.methods.beyond.ridge_sums import FullSums, RidgeSums
from pace.methods.pace import Limited, Pace
from pace.protocol.method import Method
from pace.registry import METHODS


def make(
    text: str, rank: int | None = RANK, settings: Mapping[str, object] | None = None
) -> Method:
    """A method by name, such as `pace`, `fedprox:mu=0.1` or `package.module:Name`.

    Args:
        text: the name, perhaps with settings.
        rank: PACE's and its variants', None for dense messages; their setting `rank` goes first.
        settings: more settings, as words or values.
    Raises:
        NotAllowedError: it is code that PACE does not ship and that is not allowed here.
        SettingError: there is no such method or setting, or a value does not fit.
    """
    listed, values = METHODS.parse(text, settings)
    try:
        method: Any = METHODS.factory(listed)(**values)
    except PaceError as error:
        raise SettingError(f"{listed}: {error}") from error
    except (TypeError, ValueError) as error:
        raise SettingError(f"{listed} cannot be made: {error}") from error
    if Method not in type(method).__mro__ or not is_dataclass(type(method)):
        raise SettingError(
            f"{listed} makes a {type(method).__name__}, expected a frozen dataclass that inherits "
            "from pace.Method"
        )
    if isinstance(method, Pace) and "rank" not in values:
        method = replace(method, rank=rank)
    made: Method = method
    return made


__all__ = [
    "METHODS",
    "FedAvg",
    "FedProx",
    "Fixed",
    "FullSums",
    "Limited",
    "Local",
    "Method",
    "Pace",
    "PaceDuo",
    "PaceFull",
    "PaceRidge",
    "RidgeSums",
    "make",
]
