"""What one user's commands remember from job to job, in one folder whatever folder they run in."""

from __future__ import annotations

import os
from pathlib import Path

ENVIRONMENT = "PACE_STATE"


def state_folder() -> Path:
    """$PACE_STATE, or `pace` in the user's folder for state ($XDG_STATE_HOME, ~/.local/state)."""
    if chosen := os.environ.get(ENVIRONMENT):
        return Path(chosen)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "pace"
