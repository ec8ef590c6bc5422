"""What the server's operator chose for a round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pace.errors import SettingError


@dataclass(frozen=True)
class Settings:
    """Paths are on the server's disk, times in seconds.

    Raises:
        SettingError: a time is not above 0.
    """

    job: Path
    journal: Path
    out: Path
    """The folder of the report."""
    key: Path | None = None
    """The server's, where the job has keys."""
    nodes: Mapping[str, int] = field(default_factory=dict)
    """Participant -> node, where the operator fixes it."""
    deadline: float = 600.0
    """For uploads: then those who are here are enough, or the run fails."""
    delivery: float | None = None
    """For returns; None: by the number of nodes."""
    patience: float | None = None
    """For one answer of one node, which is then asked again; None: by the number of nodes."""

    def __post_init__(self) -> None:
        for name in ("deadline", "delivery", "patience"):
            seconds = getattr(self, name)
            if seconds is not None and not 0 < seconds < float("inf"):
                raise SettingError(f"{name} is {seconds:g}, expected seconds above 0")
