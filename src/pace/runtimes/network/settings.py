"""What the operator of the server chose: `--run-config`, read once and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pace.errors import SettingError
from pace.runtimes.network.bindings import parse

UNSET = ("", "0", "0.0")  # 0 is as if not given: a Flower app needs a number for every setting
LIMITS = {"deadline": ("",), "delivery": UNSET, "patience": UNSET}


@dataclass(frozen=True)
class Settings:
    """Paths are on the server's own disk; times are in seconds."""

    job: Path
    journal: Path
    out: Path  # the report
    key: Path | None  # the server's, where the job has keys
    nodes: Mapping[str, int]  # participant -> node, where the operator fixes it
    deadline: float = 600.0  # for uploads: then those who are here are enough, or the run fails
    delivery: float | None = None  # for returns; None: as many as so many nodes may need
    patience: float | None = None  # for one answer of one node, which is then asked again; as above
    allow: tuple[str, ...] = ()  # code of somebody's own that the job may run at the server
    everybody: frozenset[str] = (
        frozenset()
    )  # in a simulation, the sites none of which may be missing

    @classmethod
    def of(cls, config: Mapping[str, object]) -> Settings:
        def word(key: str) -> str:
            return str(config.get(key, "")).strip()

        if not word("job"):
            raise SettingError("the run has no job: give --run-config 'job=\"/path/to/job.pace\"'")
        job, sites = Path(word("job")), word("sites")
        everybody = frozenset(path.name for path in sites_of(Path(sites)) if sites)
        return cls(
            job,
            Path(word("journal")) if word("journal") else job.with_suffix(".journal"),
            Path(word("out")) if word("out") else job.with_suffix(".report"),
            Path(word("key")) if word("key") else None,
            parse(word("nodes")),
            **{
                key: _seconds(key, word(key))
                for key, unset in LIMITS.items()
                if word(key) not in unset
            },
            allow=tuple(filter(None, word("allow").replace(" ", "").split(","))),
            everybody=everybody,
        )


def sites_of(folder: Path) -> list[Path]:
    """The sites of a simulation in the order of their names: folders with a graph."""
    return sorted(path.parent for path in folder.glob("*/mine.graph"))


def _seconds(key: str, text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise SettingError(f"{key} is {text!r}, expected seconds above 0")
    return found
