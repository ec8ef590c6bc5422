"""What there is to know of a method before it runs: a sentence, its settings, its messages' sizes."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import partial
from typing import Any

from pace.errors import PaceError
from pace.io import plugins
from pace.methods import METHODS, factory, known, make, own_code
from pace.methods.entry_points import advertised
from pace.methods.settings import Setting, settings_of, split, written
from pace.models.gcn import GCN
from pace.params import size
from pace.protocol import steps, wire
from pace.protocol.federation import Federation
from pace.protocol.method import Method, Summable

EXAMPLE = GCN((1433, 64, 7))  # the paper's model on Cora, for sizes
BUILT_IN = "built in"


@dataclass(frozen=True)
class About:
    """A method in words; `problem` says why there are none."""

    name: str
    origin: str
    """`built in`, or the package or file that it comes from."""
    sentence: str = ""
    settings: tuple[Setting, ...] = ()
    sums: bool = False
    """Whether the server needs no more than a sum over clients, so that a job can be sealed."""
    needs: str = ""
    """Why a sum is not enough."""
    upload: int | None = None
    """Bytes for the paper's model on Cora; `dense` are those of the model itself."""
    returned: int | None = None
    dense: int | None = None
    problem: str = ""

    @property
    def row(self) -> list[str]:
        """Its name, the upload's share of a dense model, whether it can be sealed, what it is."""
        if self.problem:
            return [self.name, "", "", f"{self.origin}: {self.problem}"]
        share = f"{100 * (self.upload or 0) / (self.dense or 1):.0f}%"
        settings = ", ".join(
            f"{each.name}={'…' if each.default is MISSING else _default(each)}"
            for each in self.settings
            if each.words
        )
        sentence = self.sentence + (f" Settings: {settings}." if settings else "")
        if self.origin != BUILT_IN:
            sentence += f" From {self.origin}."
        return [self.name, share, "yes" if self.sums else "no", sentence]

    def plain(self) -> dict[str, object]:
        """All of it as data."""
        if self.problem:
            return {"name": self.name, "origin": self.origin, "problem": self.problem}
        return {
            "name": self.name,
            "origin": self.origin,
            "sentence": self.sentence,
            "settings": {
                each.name: {
                    "expected": each.words or None,
                    "default": None if each.default is MISSING else _default(each),
                    "required": each.default is MISSING,
                }
                for each in self.settings
            },
            "summable": self.sums,
            "sealable": self.sums,
            "needs": self.needs or None,
            "rounds": 1,
            "bytes": {"upload": self.upload, "return": self.returned, "dense": self.dense},
        }

    def facts(self) -> dict[str, str]:
        """Line by line, for people."""
        if self.problem:
            return {"from": self.origin, "problem": self.problem}
        told: dict[str, str] = {"": self.sentence, "from": self.origin}
        for each in self.settings:
            expected = each.words or "from Python only"
            default = "must be given" if each.default is MISSING else f"default {_default(each)}"
            told[each.name] = f"{expected}; {default}"
        told["sealed jobs"] = "yes: sums are enough" if self.sums else f"no: {self.needs}"
        if self.dense is not None and self.upload is not None and self.returned is not None:
            ways = {"upload": self.upload, "return": self.returned}
            shares = (f"{way} {n:,} bytes ({100 * n / self.dense:.1f}%)" for way, n in ways.items())
            told["sent once"] = (
                f"{', '.join(shares)}, of a model of {self.dense:,} (the paper's on Cora)"
            )
        return told


def _default(setting: Setting) -> str:
    value = setting.default
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    return written(setting.name, value)


def everything() -> list[About]:
    """The built-in methods, then those of installed packages; a broken one says what is wrong."""
    found = [about(name) for name in METHODS]
    for name, claims in advertised().items():
        for claim in claims:
            plugins.allow(claim.code)
            found.append(_claimed(name, claim.code, claim.package))
    return found


def _claimed(name: str, code: str, package: str) -> About:
    origin = f"{code} of {package}"
    if name in METHODS:
        return About(name, origin, problem=f"{name} is built in: name this one by {code}")
    try:
        return about(code, name, origin)
    except PaceError as error:
        return About(name, origin, problem=str(error))


def about(text: str, name: str = "", origin: str = "") -> About:
    """What there is to know of one method, settings included; code of one's own must be allowed."""
    listed = known(split(text)[0])
    maker, own = factory(listed), own_code(listed)
    method = make(text)
    federation = Federation(EXAMPLE, method)
    return About(
        name or text,
        origin or (BUILT_IN if own is None else f"{own}, {_file(maker)}"),
        sentence(maker, method),
        tuple(settings_of(maker).values()),
        isinstance(method, Summable) and not method.needs,
        method.needs,
        wire.size(steps.upload_layout(federation)),
        wire.size(steps.return_layout(federation)),
        size(federation.model.start(federation.seed)),
    )


def sentence(maker: Callable[..., Method], method: Method) -> str:
    """The first sentence of the class's docstring, and how a variant differs from its class."""
    kind = type(method)
    if isinstance(maker, partial):
        changes = ", ".join(f"{key} {_short(value)}" for key, value in maker.keywords.items())
        plain = next((name for name, other in METHODS.items() if other is kind), None)
        return f"{f'As {plain}' if plain else _first(kind)}, with {changes}."
    return f"{_first(kind)}."


def _first(kind: type) -> str:
    """The first sentence of a class's docstring, or of its module's, without its full stop."""
    words = kind.__doc__ or ""
    if words.startswith(f"{kind.__name__}("):  # a dataclass without words of its own
        words = inspect.getdoc(sys.modules[kind.__module__]) or ""
    paragraph = " ".join(inspect.cleandoc(words).partition("\n\n")[0].split())
    return re.split(r"(?<!et al)\. ", paragraph)[0].rstrip(".") or "Without a docstring"


def _short(value: Any) -> str:
    if is_dataclass(value) and not isinstance(value, type):
        changed = ", ".join(
            f"{each.name}={_short(got)}"
            for each in fields(value)
            if (got := getattr(value, each.name)) != each.default
        )
        return f"{type(value).__name__}({changed})"
    return getattr(value, "__name__", None) or written("", value)


def _file(maker: Callable[..., Method]) -> str:
    try:
        return str(inspect.getsourcefile(maker) or "without a source file")
    except TypeError:
        return "without a source file"
