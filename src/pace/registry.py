"""What can be named: methods, models, datasets and partitions, with settings as in `fedprox:mu=0.1`.

A built-in one is a line below, and is imported when it is first used; so is one of a package of ours,
such as pace-study, where that is installed. Others come from installed packages, by an entry point,
or as `package.module:Name`; these must be allowed (`pace.io.plugins`).
"""

import inspect
import platform
import re
import sys
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, TypeVar

from pace.errors import SettingError, did_you_mean
from pace.io import plugins, records, split_settings

BUILT_IN = "built in"
Typed = TypeVar("Typed", str, str | None)


@dataclass(frozen=True, eq=False)
class Registry(Mapping[str, Any]):
    """All of one kind by name; as a mapping, what is ours and here, imported when used."""

    kind: str  # the word for one of them; entry points are of the group `pace.<kind>s`
    built_in: dict[str, str]  # `module:Name` of each name
    common: Collection[str]  # fields or parameters that every one has, and that are no settings
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # names for several names
    also: str = ""  # what can be named besides, for an error
    packages: Mapping[str, str] = field(default_factory=dict)  # of ours, with names not built in

    def __getitem__(self, name: str) -> Any:
        module, _, attribute = self._homes[name].partition(":")
        return getattr(import_module(module), attribute)

    def __contains__(self, name: object) -> bool:  # without importing it
        return name in self._homes

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)

    @property
    def _homes(self) -> dict[str, str]:
        """`module:Name` of what is built in and of what installed packages of ours have, in order."""
        return self.built_in | self._installed

    @cached_property
    def _installed(self) -> dict[str, str]:
        claims = self.advertised() if self.packages else {}
        return {
            name: code
            for name, package in self.packages.items()
            for code, claimant in claims.get(name, {}).items()
            if claimant.partition(" ")[0] == package
        }

    def advertised(self) -> dict[str, dict[str, str]]:
        """Entry points by their lower-case name: each code that it may mean, and whose it is.

        Code is `package.module:Name`; of a package, its name and version are told.
        """
        claims: dict[str, dict[str, str]] = {}
        for point in metadata.entry_points(group=f"pace.{self.kind}s"):
            code, dist = point.value.partition("[")[0].strip(), point.dist
            package = f"{dist.name} {dist.version}" if dist else "an unnamed package"
            claims.setdefault(point.name.lower(), {})[code] = package
        return claims

    def listed(self, name: str) -> str:
        """The name under which it is listed, or an error that suggests one."""
        lower = name.lower()
        if plugins.is_code_name(name):
            if (ours := lower.partition(":")[0].strip()) in self:
                raise SettingError(f"{name!r} sets nothing: settings are written {ours}:key=value")
            return name
        if lower not in self and self.code(lower) is None:
            if lower in self.packages:
                raise not_installed(f"the {self.kind} {lower}", self.packages[lower])
            near = did_you_mean(lower, (*self, *self.groups, *self.advertised()))
            raise SettingError(
                f"there is no {self.kind} {name!r}: {near}choose from {', '.join(self)}, "
                f"or give {self.also}package.module:Name"
            )
        return lower

    def code(self, name: str) -> str | None:
        """`package.module:Name` of one that is not built in; None of one that is, or that is not."""
        if plugins.is_code_name(name):
            return name
        claims = {} if name in self else self.advertised().get(name.lower(), {})
        if len(claims) > 1:
            both = " and ".join(sorted(f"{code} of {package}" for code, package in claims.items()))
            raise SettingError(f"the {self.kind} {name!r} is claimed by {both}: name one by code")
        return next(iter(claims), None)

    def allow(self, text: Typed) -> Typed:
        """Let this process import what `text` or each of its list names: for what was typed here."""
        for name in text.split(",") if text else ():
            if code := self.code(split_settings(name)[0]):
                plugins.allow(code)
        return text

    def name_of(self, factory: type) -> str:
        """The name of a class: as it is listed, or as code."""
        code = f"{factory.__module__}:{factory.__qualname__}"
        return next((name for name, home in self._homes.items() if home == code), code)

    def factory(self, name: str) -> Callable[..., Any]:
        """What makes it. Raises NotAllowedError for code that is not allowed here."""
        listed = self.listed(name)
        code = self.code(listed)
        factory = self[listed] if code is None else plugins.load_code(code, self.kind)
        if not callable(factory):
            raise SettingError(
                f"{listed} is a {type(factory).__name__}, expected a {self.kind}'s class or function"
            )
        return factory  # type: ignore[no-any-return]

    def settings(self, name: str) -> dict[str, records.Setting]:
        return records.settings_of(self.factory(name), self.common)

    def parse(self, text: str, more: Mapping[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """The listed name of `name:key=value,…`, and the values of its settings and of `more`."""
        name, given = split_settings(text)
        listed = self.listed(name)
        given, settings = {**given, **(more or {})}, self.settings(listed)
        for key, setting in settings.items():
            if setting.default is records.EMPTY and not setting.expected and self.common:
                raise SettingError(
                    f"{listed} has the parameter {key!r}, which is neither a setting with a type nor "
                    f"one that every {self.kind} can have: {', '.join(self.common)}"
                )
        return listed, records.typed(listed, settings, given)

    def expand(self, text: str) -> tuple[str, ...]:
        """A group's members, or one name; its settings in the one spelling they have."""
        if members := self.groups.get(text.strip().lower()):
            return members
        name, given = split_settings(text)
        return (records.join_settings(*self.parse(text)) if given else self.listed(name),)

    def prepare(self, text: str, **common: Any) -> Callable[[], Any]:
        """What `text` names, to be called: with its settings, and those of `common` that it takes."""
        listed, values = self.parse(text)
        factory = self.factory(listed)
        takes = inspect.signature(factory).parameters
        return partial(factory, **values, **{key: common[key] for key in common if key in takes})

    def origin(self, name: str) -> str:
        """`built in`, or the package, or the code and file, that it comes from."""
        code = self.code(self.listed(name))
        if code is None:
            return self.packages.get(name.lower(), BUILT_IN)
        self.factory(name)
        return f"{code}, {sys.modules[code.partition(':')[0]].__file__}"

    def sentence(self, name: str) -> str:
        """The first sentence of its docstring, or of its module's; of a variant, how it differs."""
        factory: Any = self.factory(name)
        if isinstance(factory, partial):
            settings = self.settings(name)
            changes = (f"{key} {settings[key].default_text}" for key in factory.keywords)
            return f"As {factory.func.__name__}, with {', '.join(changes)}."
        text = factory.__doc__ or ""
        if text.startswith(f"{factory.__name__}("):  # a dataclass without a docstring
            text = sys.modules[factory.__module__].__doc__ or ""
        paragraph = " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
        first = re.split(r"(?<!et al)\. ", paragraph)[0].rstrip(".")
        return f"{first or 'Without a docstring'}."


def installed(libraries: Iterable[str]) -> dict[str, str]:
    """The versions a result was made with: Python's, then that of each library that is installed."""
    versions = {"python": platform.python_version()}
    for library in libraries:
        with suppress(metadata.PackageNotFoundError):
            versions[library] = metadata.version(library)
    return versions


def not_installed(what: str, package: str) -> SettingError:
    """The error of asking for what another package of ours has."""
    return SettingError(
        f"{what} comes with the package {package}: pip install {package}, or pip install "
        f"./{package.removeprefix('pace-')} in a clone"
    )


PAPER = (
    *("local", "fedavg", "fedprox", "fednova", "fedrcl", "fedpub", "fedtad", "fedgta", "fedaux"),
    "pace",
)
ABLATIONS = ("pace-transport", "pace-half", "pace-mean", "pace-raw", "pace-direct")
BEYOND = {
    "pace-limited": "pace.methods.pace:Limited",
    "pace-ridge": "pace.methods.beyond.ridge:PaceRidge",
    "pace-ridge-sums": "pace.methods.beyond.ridge_sums:RidgeSums",
    "pace-full": "pace.methods.beyond.ridge:PaceFull",
    "pace-full-sums": "pace.methods.beyond.ridge_sums:FullSums",
}
METHODS = Registry(
    "method",
    {
        "local": "pace.methods.baselines:Local",
        "fedavg": "pace.methods.baselines:FedAvg",
        "fedprox": "pace.methods.baselines:FedProx",
        "pace": "pace.methods.pace:Pace",
        **BEYOND,
    },
    common=("name", "code"),  # a job's words for which method it is
    groups={"all": PAPER, "ablations": ABLATIONS, "beyond": tuple(BEYOND)},
    packages=dict.fromkeys((*PAPER[3:-1], *ABLATIONS, "pace-duo"), "pace-study"),
)
MODELS = Registry(
    "model",
    {
        "gcn": "pace.models.networks:GCN",
        "sage": "pace.models.networks:SAGE",
        "gin": "pace.models.networks:GIN",
        "gat": "pace.models.gat:GAT",
        "sgc": "pace.models.networks:SGC",
        "appnp": "pace.models.networks:APPNP",
        "mlp": "pace.models.networks:MLP",
    },
    common=("widths", "dropout", "features", "classes"),
)
LISTED = Path(__file__).parent / "datasets" / "benchmarks.toml"
BENCHMARKS = tomllib.loads(LISTED.read_text("utf-8"))
DATASETS = Registry(
    "dataset",
    {
        "synthetic": "pace.datasets.synthetic:Synthetic",
        "synthetic-clash": "pace.datasets.synthetic:CLASH",
        **dict.fromkeys(BENCHMARKS, "pace.datasets.benchmarks:benchmark"),
    },
    common=("name", "root"),
    also="a file that ends in .graph, or ",
)
PARTITIONS = Registry(
    "partition",
    {
        name: f"pace.datasets.partition:by_{name}"
        for name in ("louvain", "metis", "dirichlet", "column")
    },
    common=("dataset", "clients", "random"),
)
TRACKERS = Registry(
    "tracker",
    {},
    common=("where",),
    packages=dict.fromkeys(("tensorboard", "mlflow"), "pace-study"),
)
