"""A job: one federation in the world, with who takes part in it and a digest of its own."""

from __future__ import annotations

import hashlib
import json
import math
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from unicodedata import category, normalize

from pace.errors import SettingError
from pace.io import plugins
from pace.jobs import signatures
from pace.jobs.sealing import PAIRWISE, raw
from pace.merging.carrier import RANK
from pace.methods import Pace, factory, known, make, own_code
from pace.methods.settings import settings_of, typed
from pace.models import Model, TorchModel, kind_of
from pace.models import settings_of as settings_of_model
from pace.protocol.federation import SEED, Federation, describe
from pace.protocol.method import Method
from pace.protocol.number_formats import KINDS
from pace.protocol.sealing import check_sealable, check_sealed_clients
from pace.tables.codebook import Codebook

FORMAT = "pace-job-1"
FIRST_MODEL = "gcn"  # what a job that names no model means
SERVER = "server"  # whose key signs returns
LARGEST = 2**24  # numbers in a model, 64 MiB: a small job file must not make a site allocate GiBs
LAYERS = 64
SHORT_SIDE = 1024  # of a weight: messages cost an eigenproblem of that side
NONCE = re.compile(r"[0-9a-f]{32}")
MOST_BYTES = 160  # of a name, since a file's name has at most 255 and gets more around it


@dataclass(frozen=True, eq=False)
class Job:
    """All that its file says. Lists of names may be empty: then anybody may take part, unnamed."""

    name: str
    model: Model
    method: str = "pace"
    rank: int | None = RANK  # None: dense
    seed: int = SEED  # of W_0
    epochs: int | None = None  # None: the method's own budget
    participants: tuple[str, ...] = ()
    minimum: int = 2  # uploads without which nothing is merged
    keys: Mapping[str, str] = field(default_factory=dict)  # participant or server -> public key
    classes: tuple[str, ...] = ()  # names, in the order of the numbers
    features: tuple[str, ...] = ()
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))
    numbers: str = KINDS[0]  # on the wire; of a sealed job those of returns
    codebook: Codebook | None = None  # how everybody's columns become the features
    sealing: Mapping[str, str] = field(default_factory=dict)  # participant -> sealing key
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the method, where not its own
    rate: float | None = None  # the learning rate; None: the method's own
    decay: float | None = None  # the weight decay; None: the method's own

    def __post_init__(self) -> None:
        method = own_code(self.method) or known(self.method)
        settings = typed(method, settings_of(factory(method)), self.settings)
        made = {"method": method, "settings": settings}
        if "rank" in settings and isinstance(make(method, settings=settings), Pace):
            made["rank"] = settings.pop("rank")
        for key, value in made.items():
            object.__setattr__(self, key, value)
        for key in ("epochs", "rate", "decay"):
            if getattr(self, key) is None:
                object.__setattr__(self, key, getattr(self.made_method.recipe, key))
        _check(self)

    @cached_property
    def made_method(self) -> Method:
        """The method with its settings. Raises NotAllowedError for code that is not allowed here."""
        return make(self.method, self.rank, self.settings)

    @cached_property
    def content(self) -> dict[str, Any]:
        """What the file says, as plain data; `digest` is of this.

        `training` and `start` follow from the rest. They stand there to be read, and so that a
        software that would do otherwise is noticed before it trains.
        """
        made = self._open
        recipe = {key: value for key, value in describe(made.recipe).items() if key != "kind"}
        return {
            "format": FORMAT,
            "name": self.name,
            "nonce": self.nonce,
            "model": {
                "kind": kind_of(self.model),
                "features": self.model.features,
                "hidden": list(self.model.widths[1:-1]),
                "classes": self.model.classes,
                **({} if isinstance(self.model, TorchModel) else {"dropout": self.model.dropout}),
                **settings_of_model(self.model),
                "seed": self.seed,
                "start": start_digest(made),
            },
            "training": _without_none(recipe),
            "method": self._method(),
            "wire": {"numbers": self.numbers},
            "participants": {"minimum": self.minimum, "names": list(self.participants)},
            **({"keys": dict(self.keys)} if self.keys else {}),
            **({"sealing": self._sealing()} if self.sealed else {}),
            **({"names": self._names()} if self.classes or self.features else {}),
            **({} if self.codebook is None else {"codebook": self.codebook.plain()}),
        }

    def _method(self) -> dict[str, object]:
        ranked, own = isinstance(self.made_method, Pace), plugins.is_name(self.method)
        code = plugins.code_digest(type(self.made_method)) if own else ""
        return {
            "name": self.method,
            **({"code": code} if code else {}),
            **({"rank": "dense" if self.rank is None else self.rank} if ranked else {}),
            **{key: _plain(value) for key, value in self.settings.items()},
        }

    def _sealing(self) -> dict[str, str | list[str]]:
        return {"kind": PAIRWISE, "keys": [self.sealing[name] for name in self.participants]}

    def _names(self) -> dict[str, list[str]]:
        named = {"classes": self.classes, "features": self.features}
        return {kind: list(names) for kind, names in named.items() if names}

    @cached_property
    def digest(self) -> str:
        return digest(self.content)

    @cached_property
    def federation(self) -> Federation:
        """The federation; its digest, which every message carries, covers the job's."""
        return replace(
            self._open,
            job=self.digest,
            numbers=self.numbers,
            sealed=self.sealed,
            clients=len(self.participants) if self.sealed else 0,
        )

    @property
    def _open(self) -> Federation:
        """The federation without what follows from the job's digest."""
        return Federation(
            self.model,
            self.made_method,
            self.seed,
            self.epochs,
            rate=self.rate,
            decay=self.decay,
        )

    @property
    def signed(self) -> bool:
        """Whether messages are signed, those of the participants and the server's."""
        return bool(self.keys)

    @property
    def sealed(self) -> bool:
        """Whether the server sees sums only, of all participants or of nobody."""
        return bool(self.sealing)

    def missing(self, present: Iterable[str]) -> list[str]:
        """The listed participants who are not among `present`."""
        return sorted(set(self.participants) - set(present))


def _plain(value: Any) -> Any:
    """A method's setting in TOML, which has no word for nothing and no tuples."""
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return "none" if value is None else value


def _without_none(settings: Mapping[str, object]) -> dict[str, object]:
    """TOML has no word for nothing: what is not set does not stand there."""
    return {
        key: _without_none(value) if isinstance(value, dict) else value
        for key, value in settings.items()
        if value is not None
    }


def digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of the settings, whatever their order, spacing and comments.

    Jobs made before there were other models do not name theirs: the GCN's name is not counted.
    """
    model = content.get("model")
    if isinstance(model, Mapping) and model.get("kind") == FIRST_MODEL:
        unnamed = {key: value for key, value in model.items() if key != "kind"}
        content = {**content, "model": unnamed}
    plain = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(plain.encode()).hexdigest()


def start_digest(federation: Federation) -> str:
    """The first 16 digits of the SHA-256 of W_0."""
    sha = hashlib.sha256()
    for name, value in federation.start.items():
        sha.update(name.encode() + value.contiguous().numpy().tobytes())
    return sha.hexdigest()[:16]


def is_name(name: str) -> bool:
    """Whether a name can be used: 1 to 64 letters of any script, digits, dots, dashes, underscores.

    It begins with a letter or digit and is in Unicode's NFC, so that it has one spelling; it is part
    of file names, which have at most 255 bytes.
    """
    return (
        0 < len(name) <= 64
        and len(name.encode(errors="replace")) <= MOST_BYTES
        and normalize("NFC", name) == name
        and name[0].isalnum()
        and all(letter in "._-" or category(letter)[0] in "LMN" for letter in name)
    )


def plain_name(name: str) -> str:
    """What two names must not share: a disk may not tell case or compatible letters apart."""
    return normalize("NFKC", name).casefold()


def check_name(name: str, what: str) -> None:
    """Names become file names at other people's sites."""
    if not is_name(name):
        raise SettingError(
            f"{what} {name!r} cannot be used: a name has 1 to 64 letters of any script (at most "
            f"{MOST_BYTES} bytes in UTF-8, composed as NFC), digits, dots, dashes or underscores, "
            "and begins with a letter or digit"
        )


def _check(job: Job) -> None:
    check_name(job.name, "the job's name")
    if not NONCE.fullmatch(job.nonce):
        raise SettingError(
            f"the nonce is {job.nonce[:40]!r}, expected 32 hexadecimal digits drawn at random"
        )
    if job.numbers not in KINDS:
        raise SettingError(f"numbers are {job.numbers!r}, expected one of {', '.join(KINDS)}")
    for name in job.participants:
        check_name(name, "the participant's name")
    if len(set(map(plain_name, job.participants))) < len(job.participants):
        raise SettingError("two participants have the same name: give each a name of its own")
    most = len(job.participants) or job.minimum
    if not 1 <= job.minimum <= most:
        raise SettingError(
            f"the minimum is {job.minimum}, expected 1 to {most}, the number of participants"
        )
    if job.keys and set(job.keys) != {*job.participants, SERVER}:
        without = sorted({*job.participants, SERVER} - set(job.keys))
        more = sorted(set(job.keys) - {*job.participants, SERVER})
        raise SettingError(
            f"with keys, every participant and the server has one: missing {without or 'none'}, "
            f"unknown {more or 'none'}"
        )
    if job.keys and not job.participants:
        raise SettingError(
            "with keys, who takes part is listed: name the participants and their keys"
        )
    if len(set(map(signatures.raw, job.keys.values()))) < len(job.keys):
        raise SettingError("two parties have the same key: everybody makes a key of their own")
    if job.keys and SERVER in job.participants:
        raise SettingError(f"no participant may be called {SERVER!r}: the server is")
    if job.sealed:
        _check_sealing(job)
    if len(job.model.widths) - 1 > LAYERS:
        raise SettingError(
            f"the model has {len(job.model.widths) - 1} layers, expected at most {LAYERS}: use "
            "fewer layers"
        )
    shapes = job.model.shapes.values()
    if (side := max(min(shape) for shape in shapes if len(shape) > 1)) > SHORT_SIDE:
        raise SettingError(
            f"a weight's shorter side is {side:,}, expected at most {SHORT_SIDE:,}: choose smaller "
            "hidden widths"
        )
    numbers = sum(map(math.prod, shapes))
    if numbers > LARGEST:
        raise SettingError(f"the model has {numbers:,} numbers, expected at most {LARGEST:,}")
    for kind, count in (("classes", job.model.classes), ("features", job.model.features)):
        if (named := len(getattr(job, kind))) not in (0, count):
            raise SettingError(f"{named} names for {count} {kind}: give one for each, or none")
    book = job.codebook
    if book is not None and (book.features, book.classes) != (job.features, job.classes):
        raise SettingError("the job's features and classes are not those of its codebook")


def _check_sealing(job: Job) -> None:
    check_sealable(job.made_method, job.method)
    check_sealed_clients(len(job.participants))
    if not job.keys:
        raise SettingError(
            "a sealed job needs keys, so that everybody knows whom the masks are shared with: give "
            "NAME=NAME.pub for each participant, and --server-key"
        )
    if job.minimum != len(job.participants):
        raise SettingError(
            f"the minimum is {job.minimum}, and a sealed job needs all {len(job.participants)} "
            "participants: their masks cancel together or not at all"
        )
    if set(job.sealing) != set(job.participants):
        raise SettingError("in a sealed job every participant has a sealing key, and nobody else")
    for name, public in job.sealing.items():
        raw(public, job.keys[name])
