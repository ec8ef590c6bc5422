"""A job as a file: TOML that a person can review, with a last line that tells of any change."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pace.errors import FileError, NotAllowedError, OtherJobError, SettingError
from pace.io import atomic, regular, toml, untrusted
from pace.jobs.job import FIRST_MODEL, FORMAT, Job, digest
from pace.jobs.sealing import PAIRWISE
from pace.methods import METHODS
from pace.methods.settings import RESERVED
from pace.methods.settings import settings_of as settings_of_method
from pace.models import MODELS, make, settings_of
from pace.tables.codebook import parse_codebook

SUFFIX = ".pace"
LARGEST = 2**24  # bytes; half a million feature names fit
HEAD = """\
# What everybody agrees on before anything is sent. Every site and the server need this very file;
# all messages carry its digest. Do not edit it, not even one number: that is noticed. Make
# another with `pace new`; `pace show` explains this one.
"""
COMMENTS = {
    "nonce": "drawn at random: no other job takes this one's messages",
    "model.hidden": "widths of the hidden layers",
    "model.seed": "of the common start W_0",
    "model.start": "the first digits of the SHA-256 of W_0",
    "training.epochs": "full-batch steps",
    "training.rate": "the learning rate",
    "training.decay": "weight decay",
    "method.code": "the first digits of the SHA-256 of the file that defines it",
    "method.rank": 'of the factors that are sent, or "dense"',
    "wire.numbers": '"float32" sends them exactly, "float16" and "int8" round them',
    "participants.minimum": "uploads without which nothing is merged",
    "participants.names": "empty: anybody",
    "sealing.kind": "the server sees sums over all participants only",
    "sealing.keys": "one for each participant, in order",
}
SIGNED_OFF = "signed-off"
LISTS = ("model.hidden", "participants.names", "names.classes", "names.features", "sealing.keys")
KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(
        (
            "name",
            "nonce",
            "model.kind",
            "method.name",
            "method.code",
            "wire.numbers",
            "sealing.kind",
            *LISTS[1:],
        ),
        str,
    ),
    **dict.fromkeys(("model.features", "model.hidden", "model.classes", "model.seed"), int),
    **dict.fromkeys(("training.epochs", "participants.minimum"), int),
    **dict.fromkeys(("model.dropout", "training.rate", "training.decay"), (int, float)),
}
WORDS: dict[type | tuple[type, ...], str] = {
    str: "text",
    int: "whole numbers",
    (int, float): "a number",
}


def write(path: Path, job: Job) -> None:
    """A new file; one that is there is never replaced, since messages may depend on it."""
    content = render(job).encode()
    if len(content) > LARGEST:
        raise SettingError(
            f"the job would have {len(content):,} bytes, expected at most {LARGEST:,}: make it "
            "without the names of features"
        )
    if not atomic.create(path, content):
        raise FileError(f"{path} already exists: choose another name or move it")


def render(job: Job) -> str:
    content = {**job.content, SIGNED_OFF: {"sha256": job.digest}}
    return f"{HEAD}\n{toml.dump(content, COMMENTS)}"


def read(path: Path) -> Job:
    """The job of a file that is as it was made; otherwise both digests, or both values, are shown."""
    try:
        found = untrusted.toml(regular.read(path, LARGEST))
    except OSError as error:
        raise FileError(f"cannot read the job {path}: {error.strerror}") from error
    except FileError:
        raise
    except ValueError as error:
        raise FileError(f"{path} is not a job ({error}): make one with `pace new`") from error
    if found.get("format") != FORMAT:
        raise FileError(
            f"{path} has format {found.get('format')!r}, this software reads {FORMAT!r}: "
            "make a job with `pace new`"
        )
    signed = found.pop(SIGNED_OFF, None)
    says = signed.get("sha256") if isinstance(signed, dict) else None
    changed = OtherJobError(
        f"{path} was changed after it was made: its settings have digest {digest(found)[:16]}, "
        f"its last line says {str(says)[:16]}; get the original again"
    )
    try:
        _check_kinds(found)
        job = _job(found)
        known = job.content
        found["model"].setdefault("kind", FIRST_MODEL)
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        RuntimeError,
        OverflowError,
    ) as error:
        if digest(found) != says:
            raise changed from error
        kind = NotAllowedError if isinstance(error, NotAllowedError) else SettingError
        raise kind(f"{path} cannot be used: {error}") from error
    if unknown := _first_unknown(found, known):
        raise SettingError(f"{path} has the unknown key {unknown!r}: remove it, or update PACE")
    if digest(found) != says:
        raise changed
    if differs := _first_difference(found, known):
        key, theirs, ours = differs
        raise SettingError(
            f"{path} was made by a software that does otherwise: its {key} is {theirs!r}, here it "
            f"is {ours!r}; use the versions it was made with"
        )
    return job


def _check_kinds(found: Mapping[str, Any]) -> None:
    """Text where text belongs and whole numbers where they do; anything else may follow later."""
    tables = (
        *("model", "method", "training", "wire", "participants", "keys", "names", "codebook"),
        "sealing",
    )
    for table in tables:
        if not isinstance(found.get(table, {}), Mapping):
            raise SettingError(f"{table} is {found[table]!r}, expected a table")
    for at, kind in KINDS.items():
        value: Any = found
        for key in at.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        each = value if at in LISTS and isinstance(value, list) else [value]
        if value is not None and not all(_is(one, kind) for one in each):
            raise SettingError(f"{at} is {str(value)[:80]!r}, expected {WORDS[kind]}")


def _is(value: Any, kind: type | tuple[type, ...]) -> bool:
    """Whether it is of that very kind: TOML's true is no number, 4.0 no whole one."""
    return type(value) in (kind if isinstance(kind, tuple) else (kind,))


def _job(found: Mapping[str, Any]) -> Job:
    model, method, names = found["model"], found["method"], found.get("names", {})
    kind = model.get("kind", FIRST_MODEL)
    settings = settings_of(MODELS[kind]) if kind in MODELS else {}
    dropout = {"dropout": model["dropout"]} if kind in MODELS else {}
    own = METHODS.get(method["name"])  # of code of somebody's own nothing is known yet
    known = method if own is None else settings_of_method(own)
    return Job(
        found["name"],
        make(
            kind,
            (model["features"], *model["hidden"], model["classes"]),
            **dropout,
            **{key: model[key] for key in settings if key in model},
        ),
        method["name"],
        None,
        model["seed"],
        found["training"]["epochs"],
        tuple(found["participants"]["names"]),
        found["participants"]["minimum"],
        found.get("keys", {}),
        tuple(names.get("classes", ())),
        tuple(names.get("features", ())),
        found["nonce"],
        found["wire"]["numbers"],
        parse_codebook(found["codebook"]) if "codebook" in found else None,
        _sealing(found),
        {key: method[key] for key in known if key in method and key not in RESERVED},
        found["training"].get("rate"),
        found["training"].get("decay"),
    )


def _sealing(found: Mapping[str, Any]) -> dict[str, str]:
    """The sealing keys by participant; a file lists them in the participants' order."""
    if "sealing" not in found:
        return {}
    sealing, names = found["sealing"], found["participants"]["names"]
    if sealing["kind"] != PAIRWISE:
        raise SettingError(f"the sealing is {sealing['kind']!r}, expected {PAIRWISE!r}")
    if not names or len(sealing["keys"]) != len(names):
        raise SettingError(f"{len(sealing['keys'])} sealing keys for {len(names)} participants")
    return dict(zip(names, sealing["keys"], strict=True))


def _first_unknown(found: Mapping[str, Any], known: Mapping[str, Any], at: str = "") -> str | None:
    for key, value in found.items():
        if key not in known:
            return f"{at}{key}"
        if isinstance(value, Mapping) and isinstance(known[key], Mapping):
            inner = _first_unknown(value, known[key], f"{at}{key}.")
            if inner:
                return inner
    return None


def _first_difference(
    found: Mapping[str, Any], made: Mapping[str, Any], at: str = ""
) -> tuple[str, Any, Any] | None:
    for key, ours in made.items():
        theirs = found.get(key)
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            inner = _first_difference(theirs, ours, f"{at}{key}.")
            if inner:
                return inner
        elif theirs != ours:
            return f"{at}{key}", theirs, ours
    return None
