"""A job: one federation in the world, with who takes part in it, its digest and its file.

The file is TOML that a person can review, with a last line that tells of any change.
"""

import hashlib
import json
import math
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from unicodedata import category, normalize

from pace.errors import FileError, NotAllowedError, OtherJobError, SettingError
from pace.io import atomic, plugins, records
from pace.jobs.editions import Edition
from pace.jobs.signatures import SERVER, Key, key_bytes, masks, sealing_key_bytes, sealing_secret
from pace.methods import make
from pace.models import Model, TorchModel, kind_of
from pace.models import make as make_model
from pace.models import settings_of as settings_of_model
from pace.protocol import KINDS, SEED, Federation, Seal, check_sealable
from pace.registry import METHODS
from pace.tables import Codebook

FORMAT = "pace-job-1"
JOB_SUFFIX = ".pace"
LARGEST = 2**24  # numbers in a model, 64 MiB: a small job file must not make a site allocate GiBs
LARGEST_FILE = 2**24  # bytes; half a million feature names fit
LAYERS = 64
SHORT_SIDE = 1024  # of a weight: messages cost an eigenproblem of that side
NAME_BYTES = 160  # a file's name has at most 255 and gets more around it
SIGNED_OFF = "signed-off"
UNUSABLE = (LookupError, TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError)
HEAD = """\
# What everybody agrees on before anything is sent. Every site and the server need this very file;
# all messages carry its digest. Do not edit it, not even one number: that is noticed. Make
# another with `pace new`; `pace show` explains this one.
"""


@dataclass(frozen=True, eq=False)
class Job:
    """A federation, who takes part in it, and what its columns and classes are called."""

    name: str
    model: Model
    method: str = "pace"
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the method, if not its defaults
    seed: int = SEED  # of W_0
    epochs: int | None = None  # None: the method's own budget
    participants: tuple[str, ...] = ()  # empty: everybody who has the job may take part, unnamed
    minimum: int = 2  # uploads without which nothing is merged
    keys: Mapping[str, str] = field(default_factory=dict)  # public, of participants and server
    classes: tuple[str, ...] = ()  # names, in the order of the numbers
    features: tuple[str, ...] = ()
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))
    numbers: str = KINDS[0]  # on the wire; in a sealed job, those of returns
    codebook: Codebook | None = None  # how every site's columns become the features
    sealing: Mapping[str, str] = field(default_factory=dict)  # sealing keys by participant
    rate: float | None = None  # the learning rate; None: the method's own
    decay: float | None = None  # the weight decay; None: the method's own
    edition: Edition | None = None  # whose members these are; None: the first, the job's own

    def __post_init__(self) -> None:
        listed, settings = METHODS.parse(self.method, self.settings)
        method = METHODS.code(listed) or listed
        made: Any = make(method, settings=settings)
        if "rank" in METHODS.settings(method):
            settings = {"rank": made.rank, **settings}
        object.__setattr__(self, "method", method)
        object.__setattr__(self, "settings", settings)
        for name in ("epochs", "rate", "decay"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, getattr(made.recipe, name))
        _check(self)
        if self.sealed:
            _check_sealing(self)

    @cached_property
    def content(self) -> dict[str, Any]:
        """What the file says; `training` and `start` follow from the rest, to notice other software."""
        federation, model, kind = self._open, self.model, kind_of(self.model)
        recipe = federation.describe()["recipe"]
        del recipe["kind"]
        dropout = {} if isinstance(model, TorchModel) else {"dropout": model.dropout}
        named = {"classes": self.classes, "features": self.features}
        start = hashlib.sha256()
        for name, value in federation.start.items():
            start.update(name.encode() + value.contiguous().numpy().tobytes())
        extras = {
            "keys": self.keys,
            "sealing": self.sealing,
            "names": {kind: names for kind, names in named.items() if names},
            "codebook": self.codebook,
        }
        content = {
            "format": FORMAT,
            "name": self.name,
            "nonce": self.nonce,
            "numbers": self.numbers,
            "model": {
                "kind": kind,
                "features": model.features,
                "hidden": model.widths[1:-1],
                "classes": model.classes,
                **dropout,
                **settings_of_model(model),
                "seed": self.seed,
                "start": start.hexdigest()[:16],
                **_code(kind, "model"),
            },
            "training": _toml(recipe),
            "method": {
                "name": self.method,
                **{name: _toml(value, name) for name, value in self.settings.items()},
                **_code(self.method, "method"),
            },
            "participants": {"minimum": self.minimum, "names": self.participants},
            **{key: value for key, value in extras.items() if value},
        }
        return dict(records.plain_record(content))

    @cached_property
    def digest(self) -> str:
        return digest(self.content)

    @cached_property
    def federation(self) -> Federation:
        """The federation; its digest, which every message carries, covers the job's."""
        clients = len(self.participants) if self.sealed else 0
        return replace(self._open, job=self.digest, sealed=self.sealed, clients=clients)

    @cached_property
    def _open(self) -> Federation:
        """The federation without what follows from the job's digest."""
        own = {name: getattr(self, name) for name in ("seed", "epochs", "numbers", "rate", "decay")}
        return Federation(self.model, make(self.method, settings=self.settings), **own)

    @property
    def number(self) -> int:
        return 1 if self.edition is None else self.edition.number

    @property
    def signed(self) -> bool:
        """Whether messages are signed, those of the participants and the server's."""
        return bool(self.keys)

    @property
    def sealed(self) -> bool:
        """Whether the server sees the sum over all participants, and no upload."""
        return bool(self.sealing)

    def seal(self, name: str, key: Key) -> Seal:
        """The masks of one participant, whose private key this is."""
        publics = {
            party: sealing_key_bytes(public, self.keys[party])
            for party, public in self.sealing.items()
        }
        return masks(sealing_secret(key), name, publics, bytes.fromhex(self.digest))

    def missing(self, present: Iterable[str]) -> list[str]:
        """The listed participants who are not among `present`."""
        return sorted(set(self.participants) - set(present))


def _code(name: str, kind: str) -> dict[str, str]:
    """The digest of named code; nothing for what is built in."""
    return {"code": plugins.code_digest(name, kind)} if plugins.is_code_name(name) else {}


def _toml(value: Any, name: str = "") -> Any:
    """A setting in TOML, which has no null: unset values of a table are left out."""
    if isinstance(value, dict):
        return {key: _toml(item, key) for key, item in value.items() if item is not None}
    if isinstance(value, tuple | list):
        return [_toml(item, name) for item in value]
    return records.NOTHING.get(name, "none") if value is None else value


def digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of the settings, whatever their order, spacing and comments."""
    plain = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(plain.encode()).hexdigest()


def is_name(name: str) -> bool:
    """Whether it can be used for a participant, in one spelling and as part of a file's name."""
    return (
        0 < len(name) <= 64
        and len(name.encode(errors="replace")) <= NAME_BYTES
        and normalize("NFC", name) == name
        and name[0].isalnum()
        and all(letter in "._-" or category(letter)[0] in "LMN" for letter in name)
    )


def check_name(name: str, role: str) -> None:
    """Names become file names at other people's sites."""
    if not is_name(name):
        raise SettingError(
            f"{role} {name!r} cannot be used: a name has 1 to 64 letters of any script (at most "
            f"{NAME_BYTES} bytes in UTF-8, composed as NFC), digits, dots, dashes or underscores, "
            "and begins with a letter or digit"
        )


def _check(job: Job) -> None:
    check_name(job.name, "the job's name")
    if not re.fullmatch("[0-9a-f]{32}", job.nonce):
        raise SettingError(f"nonce is {job.nonce[:40]!r}, expected 32 hexadecimal digits, random")
    if job.numbers not in KINDS:
        raise SettingError(f"numbers are {job.numbers!r}, expected one of {', '.join(KINDS)}")
    for name in job.participants:
        check_name(name, "the participant's name")
    # a disk may not tell case or compatible letters apart
    plain = {normalize("NFKC", name).casefold() for name in job.participants}
    if len(plain) < len(job.participants):
        raise SettingError("two participants have the same name: give each its own name")
    most = len(job.participants) or job.minimum
    if type(job.minimum) is not int or not 1 <= job.minimum <= most:
        raise SettingError(f"the minimum is {job.minimum}, expected 1 to {most} participants")
    parties = {*job.participants, SERVER}
    if job.keys and set(job.keys) != parties:
        raise SettingError(
            "with keys, every participant and the server has one: missing "
            f"{sorted(parties - set(job.keys)) or 'none'}, unknown "
            f"{sorted(set(job.keys) - parties) or 'none'}"
        )
    if job.keys and not job.participants:
        raise SettingError("with keys, who takes part is listed: name the participants")
    if len(set(map(key_bytes, job.keys.values()))) < len(job.keys):
        raise SettingError("two parties have the same key: each makes its own key")
    if job.keys and SERVER in job.participants:
        raise SettingError(f"no participant may be called {SERVER!r}: the server is")
    if (layers := len(job.model.widths) - 1) > LAYERS:
        raise SettingError(f"the model has {layers} layers, expected at most {LAYERS}: use fewer")
    shapes = job.model.shapes.values()
    if (side := max(min(shape) for shape in shapes if len(shape) > 1)) > SHORT_SIDE:
        raise SettingError(
            f"a weight's shorter side is {side:,}, expected at most {SHORT_SIDE:,}: use narrower layers"
        )
    numbers = sum(map(math.prod, shapes))
    if numbers > LARGEST:
        raise SettingError(f"the model has {numbers:,} numbers, expected at most {LARGEST:,}")
    for kind, count in (("classes", job.model.classes), ("features", job.model.features)):
        if (named := len(getattr(job, kind))) not in (0, count):
            raise SettingError(f"{named} names for {count} {kind}: give one for each, or none")
    if not all(isinstance(name, str) for name in (*job.classes, *job.features)):
        raise SettingError("a class or a feature has a name that is not text")
    book = job.codebook
    if book is not None and (book.features, book.classes) != (job.features, job.classes):
        raise SettingError("the job's features and classes are not those of its codebook")


def _check_sealing(job: Job) -> None:
    check_sealable(job._open.method, job.method, len(job.participants))
    if not job.keys:
        raise SettingError(
            "a sealed job needs keys, so that everybody knows whom the masks are shared with: give "
            "NAME=NAME.pub for each participant, and --server-key"
        )
    if job.minimum != len(job.participants):
        raise SettingError(
            f"the minimum is {job.minimum}, and a sealed job needs all {len(job.participants)} uploads: "
            "their masks cancel together or not at all"
        )
    if set(job.sealing) != set(job.participants):
        raise SettingError("in a sealed job every participant has a sealing key, and no one else")
    for name, public in job.sealing.items():
        sealing_key_bytes(public, job.keys[name])


def write_job(path: Path, job: Job) -> None:
    """A new file; one that is there is never replaced, since messages may depend on it."""
    content = render_job(job).encode()
    if len(content) > LARGEST_FILE:
        raise SettingError(
            f"the job would have {len(content):,} bytes, expected at most {LARGEST_FILE:,}: make it "
            "without the names of features"
        )
    if not atomic.create(path, content):
        raise FileError(f"{path} already exists: choose another name or move it")


def render_job(job: Job) -> str:
    content = {**job.content, SIGNED_OFF: {"sha256": job.digest}}
    return f"{HEAD}\n{records.dump_toml(content)}"


def read_job(path: Path) -> Job:
    """The job of a file that is as it was made; otherwise both digests, or both values, are shown."""
    content = records.load_toml(path, LARGEST_FILE, "make a job with `pace new`")
    if content.get("format") != FORMAT:
        wrong = records.other_format(content.get("format"), FORMAT, "make a job with `pace new`")
        raise FileError(f"{path} {wrong}")
    signed = content.pop(SIGNED_OFF, None)
    says = signed.get("sha256") if isinstance(signed, dict) else None
    if digest(content) != says:
        raise OtherJobError(
            f"{path} was changed after it was made: its settings have digest "
            f"{digest(content)[:16]}, its last line says {str(says)[:16]}; get the original again"
        )
    hint = f"if a newer PACE made it, {records.UPDATE}"
    try:
        job = _parse_job(content)
        theirs, ours = dict(_flat(content)), dict(_flat(job.content))
    except NotAllowedError as error:
        raise NotAllowedError(f"{path} cannot be used: {error}") from error
    except UNUSABLE as error:
        raise SettingError(f"{path} cannot be used: {error}; {hint}") from error
    for key in {**theirs, **ours}:
        if theirs.get(key) != ours.get(key):
            raise SettingError(
                f"{path} was made by a software that does otherwise: its {key} is "
                f"{theirs.get(key)!r}, here it is {ours.get(key)!r}; {hint}, else use its versions"
            )
    return job


def _parse_job(content: Mapping[str, Any]) -> Job:
    """The job of a file's tables; what they hold beside it shows when both are compared."""
    model, method, parties = (dict(content[key]) for key in ("model", "method", "participants"))
    listed = {"model": model.pop("kind"), "method": method.pop("name")}
    for kind, section in {"model": model, "method": method}.items():
        code = section.pop("code", "")
        if plugins.is_code_name(listed[kind]):
            plugins.check_code(listed[kind], kind, code)
    widths = (model.pop("features"), *model.pop("hidden"), model.pop("classes"))
    seed, _ = model.pop("seed"), model.pop("start")
    names, book = content.get("names", {}), content.get("codebook")
    return Job(
        content["name"],
        make_model(listed["model"], widths, **model),
        listed["method"],
        method,
        seed,
        **{name: content["training"].get(name) for name in ("epochs", "rate", "decay")},
        participants=tuple(parties["names"]),
        minimum=parties["minimum"],
        keys=content.get("keys", {}),
        sealing=content.get("sealing", {}),
        nonce=content["nonce"],
        numbers=content["numbers"],
        classes=tuple(names.get("classes", ())),
        features=tuple(names.get("features", ())),
        codebook=book and records.read_record(Codebook, book, "codebook", strict=True),
    )


def _flat(content: Mapping[str, Any], where: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with its dotted key."""
    for key, value in content.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{where}{key}.")
        else:
            yield f"{where}{key}", value
