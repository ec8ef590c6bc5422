"""What a node was told by its own operator. Nothing here ever comes from the server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pace.errors import SettingError

LIMIT = 600.0  # seconds for one step, after which its process is ended
WORDS = ("name", "job", "graph", "folder")
OPTIONAL = ("key", "device", "limit", "overlapping", "allow")
PATHS = ("job", "graph", "folder", "key")
GIVEN = ("partition-id", "num-partitions")  # customary with Flower; of no use here

Config = Mapping[str, object]


@dataclass(frozen=True)
class Node:
    """A site: who it is, its copy of the job, its graph, where its files stay, and its limits."""

    name: str
    job: Path
    graph: Path
    folder: Path
    key: Path | None = None  # where the job has keys
    device: str = "cpu"
    limit: float = LIMIT
    overlapping: bool = False  # agree to what this and earlier sealed jobs tell together
    allow: tuple[str, ...] = ()  # code of somebody's own, package.module:Name, that the job may run

    @classmethod
    def of(cls, config: Config) -> Node:
        """From `--node-config 'name="north" job="/…/job.pace" graph="/…" folder="/…"'`."""
        missing = [word for word in WORDS if not config.get(word)]
        unknown = sorted(set(config) - {*WORDS, *OPTIONAL, *GIVEN})
        if missing or unknown:
            raise SettingError(
                f"--node-config lacks {missing or 'nothing'}, unknown are {unknown or 'none'}: "
                f"expected {', '.join(WORDS)}, and optionally {', '.join(OPTIONAL)}"
            )
        try:
            limit = float(str(config.get("limit", LIMIT)))
        except ValueError:
            limit = 0.0
        if not 0 < limit < float("inf"):
            raise SettingError(f"limit is {config['limit']!r}, expected seconds above 0")
        paths = {word: Path(str(config[word])) for word in PATHS if config.get(word)}
        name, device = str(config["name"]), str(config.get("device", "cpu"))
        if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
            raise SettingError(f"device is {device!r}, expected cpu or cuda")
        agreed = config.get("overlapping", False)
        if agreed not in (True, False):
            raise SettingError(f"overlapping is {agreed!r}, expected true or false")
        allow = tuple(filter(None, str(config.get("allow", "")).replace(" ", "").split(",")))
        return cls(
            name=name,
            device=device,
            limit=limit,
            overlapping=bool(agreed),
            allow=allow,
            **paths,
        )

    def place(self, digest: str) -> Path:
        """The folder of one job: two jobs never share a file."""
        return self.folder / digest[:16]
