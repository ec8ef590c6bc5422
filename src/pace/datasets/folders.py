"""Where datasets are looked for, and where what is made of them goes."""

from __future__ import annotations

import os
from pathlib import Path

from pace.errors import SettingError


def data_root(given: str | Path | None = None) -> Path:
    """The folder of the benchmarks: `--data-root`, else $PACE_DATA, else the cache."""
    chosen = given or os.environ.get("PACE_DATA")
    if not chosen:
        return cache()
    root = Path(chosen).expanduser()
    if not root.is_dir():
        source = "--data-root" if given else "PACE_DATA"
        raise SettingError(
            f"{source} is {root}, which is not a folder: create it, or name the folder that "
            "holds the benchmarks"
        )
    return root


def cache() -> Path:
    """The user's cache folder; it need not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pace"


def writable(folder: Path) -> bool:
    """Whether we may add files. A folder without any write permission is kept so, even from root."""
    while not folder.exists():
        folder = folder.parent
    return os.access(folder, os.W_OK) and bool(folder.stat().st_mode & 0o222)
