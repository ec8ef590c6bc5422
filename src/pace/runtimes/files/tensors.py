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


def encode_tensors(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> bytes:
    return save(
        {name: value.contiguous() for name, value in tensors.items()}, {"pace": json.dumps(about)}
    )


def read_tensors(path: Path, version: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What the file says about itself, and its tensors; refused if it is of another format."""
    try:
        content = regular.read(path, LARGEST)
        about = _about(read_header(content))
        if about.get("format") != version:
            raise FileError(f"{path} has format {about.get('format')!r}, expected {version!r}")
        return about, load(content)
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}") from error
    except FileError:
        raise
    except (SafetensorError, ValueError, AttributeError, TypeError) as error:
        raise FileError(
            f"{path} is damaged, or another kind of file ({error}): `pace inspect` says what it is"
        ) from error


def read_about(path: Path) -> dict[str, Any]:
    """What the file says about itself; its tensors are not read."""
    return _about(read_header(regular.read_head(path, 8 + HEADER)))


def _about(header: dict[str, Any]) -> dict[str, Any]:
    """Our own object in a header, empty if there is none."""
    about = untrusted.json(header.get("__metadata__", {}).get("pace", "{}"))
    return about if isinstance(about, dict) else {}


def read_header(content: bytes) -> dict[str, Any]:
    """The header, with what the library lets pass refused: its size, a name twice, other types."""
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > min(HEADER, len(content) - 8):
        raise ValueError("its header is cut short or too long")
    header = untrusted.json(content[8 : 8 + length], pairs=_once)
    if not isinstance(header, dict):
        raise ValueError("its header is not a table of tensors")
    for name, entry in header.items():
        if name != "__metadata__" and entry.get("dtype") not in DTYPES:
            raise ValueError(f"tensor {name!r} has type {entry.get('dtype')!r}")
    return header


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name occurs twice in its header")
    return table


def parameters(
    tensors: Mapping[str, Tensor], expected: Layout, path: Path, *, finite: bool = True
) -> dict[str, Tensor]:
    """The parameters among the tensors, exactly as the job's model has them."""
    params = {name: tensors[name] for name in expected if name in tensors}
    if layout(params) != dict(expected):
        raise FileError(f"{path} holds {say(layout(params))}, the job's model has {say(expected)}")
    if finite and not all(torch.isfinite(value).all() for value in params.values()):
        raise FileError(f"{path} holds numbers that are not finite: restore it from a backup")
    return params
