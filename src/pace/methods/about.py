"""What a method is in words, with the sizes of its messages."""

from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass, replace
from typing import Any

from pace.errors import PaceError, SettingError
from pace.io import allow, split_settings
from pace.merging import RANK
from pace.methods.pace import Pace
from pace.models import GCN
from pace.params import size
from pace.protocol import Federation, Method, Summable, layouts
from pace.registry import BUILT_IN, METHODS

# Points above a site alone on average, and over how many settings of `pace reproduce labels`.
GAINS = {"pace-full": (1.6, 46), "pace-full-sums": (1.5, 46)}
EXAMPLE = GCN((1433, 64, 7))  # the paper's model on Cora, for sizes


def proposal(*, sealed: bool = False) -> tuple[str, str]:
    """The method that a new job should take, and why, in a sentence."""
    name = "pace-full-sums" if sealed else "pace-full"
    gain, settings = GAINS[name]
    measured = f"{gain} points above a site alone on average over {settings} settings"
    return name, f"{name}: {measured} (docs/beyond.md); --method pace is the paper's."


@dataclass(frozen=True)
class AboutMethod:
    """A method in words, and what it sends."""

    name: str
    origin: str  # `built in`, or the package or file that it comes from
    sentence: str = ""
    settings: tuple[str, ...] = ()
    problem: str = ""  # what is wrong with an installed package's, of which there is no more to say
    sums: bool = False  # whether the server needs no more than a sum, so that a job can be sealed
    needs: str = ""  # why a sum is not enough
    upload: int = 0  # bytes for the paper's model on Cora; `dense` are those of the model itself
    returned: int = 0
    dense: int = 1

    @property
    def row(self) -> list[str]:
        """Its name, the upload's share of a dense model, whether it can be sealed, what it is."""
        if self.problem:
            return [self.name, "", "", f"{self.origin}: {self.problem}"]
        sentence = self.sentence
        if self.origin != BUILT_IN:
            sentence += f" From {self.origin}."
        sealed = "yes" if self.sums else "no"
        return [self.name, f"{100 * self.upload / self.dense:.0f}%", sealed, sentence]

    def facts(self) -> dict[str, str]:
        """Line by line, for people."""
        sizes = {"upload": self.upload, "return": self.returned}
        shares = (f"{way} {n:,} bytes ({100 * n / self.dense:.1f}%)" for way, n in sizes.items())
        return {
            "": self.sentence,
            "from": self.origin,
            "settings": "; ".join(self.settings) or "none",
            "sealed jobs": "yes: sums are enough" if self.sums else f"no: {self.needs}",
            "sent once": f"{', '.join(shares)} of a model of {self.dense:,} (the paper's on Cora)",
        }


def every_method() -> list[AboutMethod]:
    """Our methods, then those of other packages; a broken one says what is wrong."""
    methods = [about_method(name) for name in METHODS]
    for name, claims in METHODS.advertised().items():
        for code, package in claims.items():
            if package.partition(" ")[0] == METHODS.packages.get(name):
                continue
            origin = f"{code} of {package}"
            allow(code)
            try:
                if name in METHODS:
                    raise SettingError(f"{name} is built in: name this one by {code}")
                methods.append(about_method(code, name, origin))
            except PaceError as error:
                methods.append(AboutMethod(name, origin, problem=str(error)))
    return methods


def about_method(text: str, name: str = "", origin: str = "") -> AboutMethod:
    """What there is to know of one method, with its settings; code must be allowed."""
    listed, method = split_settings(text)[0], make(text)
    federation = Federation(EXAMPLE, method)
    return AboutMethod(
        name or text,
        origin or METHODS.origin(listed),
        METHODS.sentence(listed),
        tuple(map(str, METHODS.settings(listed).values())),
        sums=isinstance(method, Summable) and not method.needs,
        needs=method.needs,
        upload=layouts.upload_layout(federation).size,
        returned=layouts.return_layout(federation).size,
        dense=size(federation.model.start(federation.seed)),
    )


def make(text: str, rank: int | None = RANK, settings: Mapping[str, Any] | None = None) -> Method:
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
    return method  # type: ignore[no-any-return]
