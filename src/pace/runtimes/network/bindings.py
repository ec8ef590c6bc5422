"""Which node is which participant: the first node whose upload was accepted, or who the operator says.

The file journal/nodes/NAME.json is written once. So a resumed run knows whom not to ask again, and
no other node is sent the return to another's upload.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pace.errors import FileError, ParticipantError, SettingError
from pace.io import atomic, untrusted

LARGEST = 4096  # bytes of a file that names one node


@dataclass(frozen=True, eq=False)
class Bindings:
    """Those in the journal, after those that the operator fixed. Files are read once, at the start."""

    folder: Path
    nodes: dict[str, int]  # participant -> node
    names: dict[int, str]  # node -> participant

    @classmethod
    def open(cls, folder: Path, fixed: Mapping[str, int]) -> Bindings:
        kept = {path.stem: _node(path) for path in folder.glob("*.json")}
        nodes = kept | dict(fixed)
        return cls(folder, nodes, {node: name for name, node in nodes.items()})

    def check(self, name: str, node: int) -> None:
        """Refuse a node that claims another's name, or another name than before."""
        bound, mine = self.nodes.get(name), self.names.get(node)
        if bound not in (None, node):
            raise ParticipantError(
                f"{name!r} is node {bound}, this is node {node}: if the site has registered anew, "
                f"start the run with nodes = '{name}={node}'"
            )
        if mine not in (None, name):
            raise ParticipantError(f"node {node} is {mine!r}, and now says it is {name!r}")

    def bind(self, name: str, node: int) -> None:
        """A name keeps the first node it was bound to."""
        atomic.create(self.folder / f"{name}.json", json.dumps({"node": str(node)}).encode())
        self.names.setdefault(self.nodes.setdefault(name, node), name)


def _node(path: Path) -> int:
    try:
        return int(untrusted.json(untrusted.read(path, LARGEST))["node"])
    except (ValueError, TypeError, LookupError) as error:
        raise FileError(f"{path} is damaged ({error!r}): restore it from a backup") from error


def parse_nodes(text: str) -> dict[str, int]:
    """The operator's `north=123,south=456`."""
    nodes = {}
    for word in filter(None, (part.strip() for part in text.split(","))):
        name, _, number = word.partition("=")
        if not name or not number.isdecimal():
            raise SettingError(
                f"nodes has {word!r}, expected a name and the number that `pace flower register` "
                "gave, such as north=123"
            )
        nodes[name] = int(number)
    return nodes
