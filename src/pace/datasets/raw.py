"""The raw files of benchmarks: where they are looked for, and fetching those that are missing."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pace.datasets.dataset import RATIOS
from pace.errors import SettingError
from pace.io import atomic

PUBLISHED = {  # where PyG does not download
    "OGB": "arxiv.zip of the Open Graph Benchmark",
    "Twitch": "data/twitch of the GitHub repository CUAI/Non-Homophily-Benchmarks",
}
PYG = {"Heterophilous": "HeterophilousGraphDataset"}  # classes that are not called as the folder


@dataclass(frozen=True)
class Benchmark:
    """What a benchmark is called, its raw files, and how it is split."""

    title: str  # as PyG writes it: also the folder's name
    family: str  # PyG's class: also the name of the folder above
    files: tuple[str, ...]
    ratios: tuple[float, float, float] = RATIOS
    clients: tuple[str, ...] = ()  # where the nodes of a graph belong to sites by nature

    @property
    def home(self) -> Path:
        """The folder of the raw files in a data root, as PyG or OGB lays it out."""
        if self.family == "Twitch":  # a folder a country, each with its own `raw`
            return Path(self.family)
        return Path("ogbn_arxiv" if self.family == "OGB" else f"{self.family}/{self.title}", "raw")


def data_root(given: str | Path | None = None) -> Path:
    """The folder of the benchmarks: `--data-root`, else $PACE_DATA, else the cache."""
    chosen = given or os.environ.get("PACE_DATA")
    if not chosen:
        return cache_folder()
    root = Path(chosen).expanduser()
    if not root.is_dir():
        raise SettingError(
            f"{'--data-root' if given else 'PACE_DATA'} is {root}, which is not a folder: create it, "
            "or name the folder that holds the benchmarks"
        )
    return root


def cache_folder() -> Path:
    """The user's cache folder; it need not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pace"


def writable(folder: Path) -> bool:
    """Whether we may add files. A folder without any write permission is kept so, even from root."""
    while not folder.exists():
        folder = folder.parent
    return os.access(folder, os.W_OK) and bool(folder.stat().st_mode & 0o222)


def locate(known: Benchmark, root: Path) -> Path | None:
    """The folder that holds all the raw files, in the root or among earlier downloads."""
    homes = (known.home, known.family / known.home, Path(known.title, "raw"))
    for folder in [base / home for base in (root, cache_folder()) for home in homes]:
        if all((folder / name).is_file() for name in known.files):
            return folder
    return None


def fingerprint(raw: Path, files: tuple[str, ...]) -> str:
    """Changes when a raw file does: place, size and time of each."""
    facts = [(name, (raw / name).stat()) for name in files]
    text = repr([str(raw.resolve()), *((name, s.st_size, s.st_mtime_ns) for name, s in facts)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def download(known: Benchmark, root: Path) -> Path:
    """Fetch the raw files with PyG into the root, or into the cache where the root is read-only."""
    folder = (root if writable(root) else cache_folder()) / known.home
    remedy = (
        f"put {', '.join(known.files)} into {root / known.home}, or name the folder that has them "
        "with --data-root or PACE_DATA"
    )
    if source := PUBLISHED.get(known.family):
        raise SettingError(
            f"{known.title} is not in {root}: {remedy} "
            f"(they are in {source}, which PyG does not download)"
        )
    try:
        with tempfile.TemporaryDirectory() as arriving:
            for name in known.files:
                atomic.write(folder / name, fetch(known, name, Path(arriving)))
    except OSError as error:
        raise SettingError(
            f"{known.title} is not in {root} and was not downloaded ({error}): {remedy}"
        ) from error
    return folder


def fetch(known: Benchmark, name: str, folder: Path) -> bytes:
    """One raw file, from the address PyG knows."""
    from torch_geometric import datasets
    from torch_geometric.io import fs

    address = getattr(datasets, PYG.get(known.family, known.family)).url.rstrip("/")
    fs.cp(f"{address}/{name}", str(folder), log=False)
    return (folder / name).read_bytes()
