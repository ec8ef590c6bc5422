"""Is everything here that PACE needs, and does it work? Facts and checks about this machine."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

DISTRIBUTION = "pace-fgl"
NOT_FOR_USE = {"dev", "docs", "fuzz", "site"}  # extras for those who work on PACE itself
OK, OPTIONAL, BROKEN = "ok", "optional", "broken"
MODULES = {"torch-geometric": "torch_geometric", "scikit-network": "sknetwork"}
LOW_DISK, LOW_MEMORY = 1e9, 1e9  # bytes: less than this is worth a word
MISSED = 1e-9  # of a matrix in float64: how far its eigenvectors may miss it


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's: what was looked at, what was found, and what to do about it."""

    about: str
    found: str
    state: str = OK
    do: str = ""


def examine() -> dict[str, list[Finding]]:
    """Everything, by section. Nothing is downloaded, nothing is left behind."""
    return {
        "Versions": list(versions()),
        "Extras": list(extras()),
        "Machine": list(guarded("machine", machine)),
        "Data": list(guarded("data", data)),
        "Checks": [check for each in CHECKS for check in guarded(*each)],
    }


def healthy(sections: dict[str, list[Finding]]) -> bool:
    """Whether nothing that is needed is broken."""
    return all(each.state != BROKEN for findings in sections.values() for each in findings)


def guarded(about: str, look: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """What a look finds; if it fails, that is a finding too."""
    try:
        yield from look()
    except Exception as error:  # whatever is broken here, the doctor says so and goes on
        yield Finding(about, f"{type(error).__name__}: {error}", BROKEN, REINSTALL)


REINSTALL = "install PACE again, as you did, into a fresh environment"


def versions() -> Iterator[Finding]:
    """Python, PACE and what it cannot do without: each imported, not only listed."""
    from pace import __version__

    python = platform.python_version()
    old = sys.version_info < (3, 11)
    yield Finding(
        "python", python, BROKEN if old else OK, "use Python 3.11 or newer" if old else ""
    )
    yield Finding("pace", __version__)
    for name, wanted, extra in requirements():
        if extra:
            continue
        found = installed(name)
        if found is None:
            yield Finding(name, "missing", BROKEN, f"pip install '{name}{wanted}'")
        elif not satisfies(found, wanted):
            yield Finding(name, found, BROKEN, f"pip install '{name}{wanted}'")
        else:
            yield from guarded(name, imported(name, found))


def imported(name: str, version: str) -> Callable[[], Iterator[Finding]]:
    def look() -> Iterator[Finding]:
        import_module(MODULES.get(name, name))
        yield Finding(name, version)

    return look


def extras() -> Iterator[Finding]:
    """What is only needed for some things, by the name of the extra that brings it."""
    by_extra: dict[str, list[tuple[str, str]]] = {}
    for name, wanted, extra in requirements():
        if extra and extra not in NOT_FOR_USE:
            by_extra.setdefault(extra, []).append((name, wanted))
    for extra, libraries in by_extra.items():
        found = {name: installed(name) for name, _ in libraries}
        right = all(satisfies(found[name], wanted) for name, wanted in libraries)
        words = ", ".join(f"{name} {version or 'missing'}" for name, version in found.items())
        do = "" if right else f"pip install '{DISTRIBUTION}[{extra}]'"
        yield Finding(extra, words, OK if right else OPTIONAL, do)


def requirements() -> Iterator[tuple[str, str, str]]:
    """Name, versions and extra (or nothing) of everything the installed package asks for."""
    for line in metadata.requires(DISTRIBUTION) or []:
        asked = Requirement(line)
        extra = re.search(r'extra == "([\w-]+)"', str(asked.marker))
        yield asked.name, str(asked.specifier), extra[1] if extra else ""


def installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def satisfies(version: str | None, wanted: str) -> bool:
    """Whether a version is there and within bounds such as `>=1.41,<1.43`."""
    return version is not None and SpecifierSet(wanted).contains(version, prereleases=True)


def machine() -> Iterator[Finding]:
    """Processors, threads, GPUs, memory."""
    import torch

    yield Finding("system", f"{platform.system()} {platform.release()}, {platform.machine()}")
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    yield Finding("processors", str(cores))
    limit = os.environ.get("OMP_NUM_THREADS")
    said = f"torch has {torch.get_num_threads()}" + (f" (OMP_NUM_THREADS={limit})" if limit else "")
    yield Finding("threads", f"{said}; a run trains with one, which is faster on small graphs")
    if cores > 1:
        yield Finding("for a study", f"pace reproduce --jobs {cores} keeps the processors busy")
    for device in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(device)
        name = f"{about.name}, {about.total_memory / 2**30:.0f} GiB"
        yield Finding(f"cuda:{device}", name)
    if not torch.cuda.is_available():
        yield Finding("gpu", "none: clients train on the processor")
    if torch.backends.mps.is_available():
        yield Finding("mps", "there, and not used: PACE trains on a processor or on CUDA")
    yield memory()


def memory() -> Finding:
    """Free memory, where the system tells."""
    try:
        page, free = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_AVPHYS_PAGES")
        total = page * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return Finding("memory", "this system does not tell")
    try:  # what the system would free for us counts too
        told = Path("/proc/meminfo").read_text()
        left = 1024 * int(re.search(r"MemAvailable:\s+(\d+)", told)[1])  # type: ignore[index]
    except (OSError, TypeError):
        left = page * free
    words = f"{left / 2**30:.1f} of {total / 2**30:.1f} GiB free"
    return low(
        "memory", words, left < LOW_MEMORY, "close something: a small graph needs up to 1 GiB"
    )


def low(about: str, words: str, little: bool, do: str) -> Finding:
    return Finding(about, words, OPTIONAL, do) if little else Finding(about, words)


def data() -> Iterator[Finding]:
    """Where datasets are looked for, and which are there."""
    from pace.datasets.benchmarks import BENCHMARKS
    from pace.datasets.folders import cache, data_root
    from pace.datasets.raw import locate
    from pace.errors import SettingError

    given = os.environ.get("PACE_DATA")
    try:
        root = data_root()
    except SettingError as error:
        yield Finding("PACE_DATA", str(given), BROKEN, str(error))
        return
    where = str(root) if given else "not set: datasets are looked for in the cache"
    yield Finding("PACE_DATA", where)
    yield Finding("cache", str(cache()))
    there = [name for name, known in BENCHMARKS.items() if locate(known, root)]
    yield Finding("found", ", ".join(["synthetic", "synthetic-clash", *there]))
    absent = [name for name in BENCHMARKS if name not in there]
    if absent:
        do = "PyG downloads a benchmark when it is first asked for"
        if "ogbn-arxiv" in absent:
            do += "; ogbn-arxiv must be put there by hand: docs/researcher.md says how"
        yield Finding("not found", ", ".join(absent), OPTIONAL, do)
    place = existing(cache())
    free = shutil.disk_usage(place).free
    yield low("disk", f"{free / 2**30:.1f} GiB free in {place}", free < LOW_DISK, "make room")


def existing(folder: Path) -> Path:
    """The folder, or the nearest above it that exists."""
    while not folder.exists():
        folder = folder.parent
    return folder


def eigenvectors() -> Iterator[Finding]:
    """The factors of carriers come from `eigh` in float64: does it give the matrix back?"""
    import torch

    random = torch.randn(64, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    matrix = random @ random.T
    values, vectors = torch.linalg.eigh(matrix)
    missed = float((vectors * values @ vectors.T - matrix).norm() / matrix.norm())
    good = missed < MISSED
    do = "" if good else "torch's linear algebra is broken: reinstall torch"
    yield Finding("eigh in float64", f"misses by {missed:.0e}", OK if good else BROKEN, do)


def writable() -> Iterator[Finding]:
    """The cache takes a file; without it every start reads the raw files again."""
    from pace.datasets.folders import cache
    from pace.io import atomic

    place = cache() / "doctor"
    made = not cache().exists()
    try:
        atomic.write(place, b"pace")
        good = place.read_bytes() == b"pace"
        place.unlink()
        if made:
            cache().rmdir()
    except OSError as error:
        do = "set XDG_CACHE_HOME to a folder that can be written to"
        yield Finding("cache", f"cannot be written ({error.strerror})", OPTIONAL, do)
        return
    yield Finding("cache", "can be written", OK if good else BROKEN)


def federation() -> Iterator[Finding]:
    """Three clients, end to end: fit, merge, adopt, and the promises that can be checked."""
    import torch

    from pace import GCN, Federation, Pace, adopt, fit, merge
    from pace.datasets import load
    from pace.datasets.partition import divide

    began = time.perf_counter()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        dataset = load("synthetic:nodes=150,features=30,communities=3,classes=3")
        gcn = GCN((dataset.graph.features, 16, dataset.classes))
        agreed = Federation(gcn, Pace(rank=2), epochs=20)
        graphs = divide(dataset, "dirichlet", 3)
        fitted = [fit(graph, agreed) for graph in graphs]
        returns = merge([upload for _, upload in fitted], agreed)
        adoptions = [
            adopt(graph, kept, returned, agreed)
            for graph, (kept, _), returned in zip(graphs, fitted, returns, strict=True)
        ]
    finally:
        torch.set_num_threads(before)
    sent = sum(len(upload) for _, upload in fitted) + sum(map(len, returns))
    finite = all(bool(torch.isfinite(each.logits).all()) for each in adoptions)
    inside = all(0 <= each.alpha <= 1 for each in adoptions)
    alphas = " ".join(f"{each.alpha:.2f}" for each in adoptions)
    words = (
        f"{len(graphs)} clients, {sent:,} bytes, α {alphas}, {time.perf_counter() - began:.1f} s"
    )
    good = finite and inside and all(returns)
    yield Finding("fit, merge, adopt", words, OK if good else BROKEN, "" if good else REINSTALL)


CHECKS: tuple[tuple[str, Callable[[], Iterator[Finding]]], ...] = (
    ("eigh in float64", eigenvectors),
    ("cache", writable),
    ("fit, merge, adopt", federation),
)


def plain(sections: dict[str, list[Finding]]) -> dict[str, object]:
    """The same as plain data."""
    return {
        "healthy": healthy(sections),
        **{
            title.lower(): {
                each.about: {"found": each.found, "state": each.state, "do": each.do}
                for each in findings
            }
            for title, findings in sections.items()
        },
    }
