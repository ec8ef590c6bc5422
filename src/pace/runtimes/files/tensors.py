"""Tensors at rest: safetensors with a JSON object about them, read without trusting either."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from pace.errors import FileError
from pace.io import regular, untrusted
from pace.protocol.wire import Layout, layout, say

HEADER = 2**20  # bytes of the largest header we write or read
LARGEST = 2**30  # bytes of a file; the largest model and its upload take a third
DTYPES = ("F32", "U8")


def encode(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> bytes:
    return save(
        {name: value.contiguous() for name, value in tensors.items()}, {"pace": json.dumps(about)}
    )


def read(path: Path, kind: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What the file says about itself, and its tensors; refused if it is not of this format."""
    try:
        content = regular.read(path, LARGEST)
        told = _told(header(content))
        if told.get("format") != kind:
            raise FileError(f"{path} has format {told.get('format')!r}, expected {kind!r}")
        return told, load(content)
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}") from error
    except FileError:
        raise
    except (SafetensorError, ValueError, AttributeError, TypeError) as error:
        raise FileError(
            f"{path} is damaged, or another kind of file ({error}): `pace inspect` says what it is"
        ) from error


def about(path: Path) -> dict[str, Any]:
    """What the file says about itself; of its tensors nothing is read."""
    return _told(header(regular.read_head(path, 8 + HEADER)))


def _told(found: dict[str, Any]) -> dict[str, Any]:
    """Our own object in a header, empty if there is none."""
    told = untrusted.json(found.get("__metadata__", {}).get("pace", "{}"))
    return told if isinstance(told, dict) else {}


def header(content: bytes) -> dict[str, Any]:
    """The header, with what the library lets pass refused: its size, a name twice, other types."""
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > min(HEADER, len(content) - 8):
        raise ValueError("its header is cut short or too long")
    found = untrusted.json(content[8 : 8 + length], pairs=_once)
    if not isinstance(found, dict):
        raise ValueError("its header is not a table of tensors")
    for name, entry in found.items():
        if name != "__metadata__" and entry.get("dtype") not in DTYPES:
            raise ValueError(f"tensor {name!r} has type {entry.get('dtype')!r}")
    return found


def params(
    tensors: Mapping[str, Tensor], expected: Layout, path: Path, *, finite: bool = True
) -> dict[str, Tensor]:
    """The parameters among the tensors, exactly as the job's model has them."""
    found = {name: tensors[name] for name in expected if name in tensors}
    if layout(found) != dict(expected):
        raise FileError(f"{path} holds {say(layout(found))}, the job's model has {say(expected)}")
    if finite and not all(torch.isfinite(value).all() for value in found.values()):
        raise FileError(f"{path} holds numbers that are not finite: restore it from a backup")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name occurs twice in its header")
    return made
