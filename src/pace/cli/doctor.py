"""`pace doctor`: is everything here that PACE needs, and does it work?

What may be broken is imported inside the check that looks at it.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module, metadata

import typer
from packaging.requirements import Requirement

import pace
from pace.cli.given import As_json
from pace.errors import SettingError
from pace.io import terminal as console
from pace.registry import installed

DISTRIBUTION = "pace-fgl"
NOT_FOR_USE = {"dev", "docs", "fuzz", "site"}  # extras for work on PACE itself
OK, OPTIONAL, BROKEN = "ok", "optional", "broken"
SIGN = {OK: "✓", OPTIONAL: "-", BROKEN: "✗"}
REINSTALL = "install PACE again, as you did, into a fresh environment"


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, what was found, and what to do about it."""

    about: str
    found: str
    state: str = OK
    do: str = ""


def doctor(as_json: As_json = False) -> None:
    """Look at this machine: versions, extras, GPUs, data found; try every step once.

    pace doctor
    pace doctor --json

    It exits with 1 if something that is needed is broken; what is optional may be missing.
    """
    sections = examine()
    states = [line.state for lines in sections.values() for line in lines]
    plain: dict[str, object] = {"healthy": BROKEN not in states}
    for title, lines in sections.items():
        rows = [asdict(line) for line in lines]
        plain[title.lower()] = {row.pop("about"): row for row in rows}
    console.answer(plain, lambda: _show(sections, states), as_json=as_json)
    if BROKEN in states:
        raise typer.Exit(1)


def _show(sections: dict[str, list[Finding]], states: Sequence[str]) -> None:
    to = console.console()
    for title, lines in sections.items():
        names = [f"{SIGN[line.state]} {line.about}" for line in lines]
        found = [f"{line.found}: {line.do}" if line.do else line.found for line in lines]
        console.facts(title, dict(zip(names, found, strict=True)), to)
    spare, broken = states.count(OPTIONAL), states.count(BROKEN)
    verdict = f"{broken} of what is needed is broken" if broken else "All that is needed works"
    rest = f"; missing, and optional: {spare}" if spare else ""
    to.print(f"{verdict}{rest}.", style="bold red" if broken else "bold green")


def examine() -> dict[str, list[Finding]]:
    """Everything, by section. Nothing is downloaded, nothing is left behind."""
    return {title: [*guarded(title.lower(), look)] for title, look in LOOKS.items()}


def guarded(about: str, look: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """What a look finds; if it fails, that is a finding too."""
    try:
        yield from look()
    except Exception as error:  # whatever is broken here, the doctor says so and goes on
        yield Finding(about, f"{type(error).__name__}: {error}", BROKEN, REINSTALL)


def judged(about: str, found: str, good: bool, do: str, otherwise: str = BROKEN) -> Finding:
    """A finding that is good, or what to do about it."""
    return Finding(about, found) if good else Finding(about, found, otherwise, do)


def versions() -> Iterator[Finding]:
    """Python, PACE and what it cannot do without: each imported, not only listed."""
    yield from (Finding(name, version) for name, version in installed([DISTRIBUTION]).items())
    for library in requirements().get("", ()):
        yield from guarded(library.name, partial(imported, library))


def imported(library: Requirement) -> Iterator[Finding]:
    """A library that is needed, in a version that will do, imports."""
    version, good = found_version(library)
    if good:
        import_module(library.name)
    remedy = f"pip install '{library.name}{library.specifier}'"
    yield judged(library.name, version, good, remedy)


def extras() -> Iterator[Finding]:
    """What is only needed for some things, by the name of the extra that brings it."""
    for extra, libraries in requirements().items():
        if extra and extra not in NOT_FOR_USE:
            looked = {library.name: found_version(library) for library in libraries}
            found = ", ".join(f"{name} {version}" for name, (version, _) in looked.items())
            whole = all(good for _, good in looked.values())
            yield judged(extra, found, whole, f"pip install '{DISTRIBUTION}[{extra}]'", OPTIONAL)


def requirements() -> dict[str, list[Requirement]]:
    """What the installed package asks for, by extra, or by nothing where it is needed."""
    by_extra: dict[str, list[Requirement]] = {}
    for library in map(Requirement, metadata.requires(DISTRIBUTION) or []):
        extra = re.search(r'extra == "([\w-]+)"', str(library.marker))
        by_extra.setdefault(extra[1] if extra else "", []).append(library)
    return by_extra


def found_version(library: Requirement) -> tuple[str, bool]:
    """The version that is installed, and whether it is within bounds such as `>=1.41,<1.43`."""
    version = installed([library.name]).get(library.name, "")
    fits = version != "" and library.specifier.contains(version, prereleases=True)
    return version or "missing", fits


def machine() -> Iterator[Finding]:
    import torch

    from pace.training import gpu_cohort

    for device in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(device)
        yield Finding(f"cuda:{device}", f"{about.name}, {about.total_memory / 2**30:.0f} GiB")
        there, faster = gpu_cohort("cuda") is not None, "pip install pace-gpu: runs are faster"
        yield judged("pace-gpu", "here" if there else "missing", there, faster, OPTIONAL)
    if not torch.cuda.is_available():
        yield Finding("gpu", "none: clients train on the processor")


def data() -> Iterator[Finding]:
    """Where datasets are looked for, and which are there."""
    from pace.datasets import BENCHMARKS, data_root, locate

    setting = os.environ.get("PACE_DATA")
    try:
        root = data_root()
    except SettingError as error:
        yield Finding("PACE_DATA", str(setting), BROKEN, str(error))
        return
    unset = "not set: datasets are looked for in the cache"
    yield Finding("PACE_DATA", str(root) if setting else unset)
    present = [name for name, benchmark in BENCHMARKS.items() if locate(benchmark, root)]
    yield Finding("found", ", ".join(["synthetic", "synthetic-clash", *present]))
    if absent := [name for name in BENCHMARKS if name not in present]:
        do = "PyG downloads one when it is first asked for; of ogbn-arxiv, `pace run` says how"
        yield Finding("not found", ", ".join(absent), OPTIONAL, do)


def federation() -> Iterator[Finding]:
    """Three clients, end to end: fit, merge, adopt, and the promises that can be checked."""
    began = time.perf_counter()
    dataset = pace.load("synthetic:nodes=150,features=30,communities=3,classes=3")
    graphs = pace.divide(dataset, "dirichlet", 3)
    agreed = pace.agree(graphs, "pace:rank=2", hidden=16, epochs=20)
    kept, uploads = zip(*(pace.fit(graph, agreed) for graph in graphs), strict=True)
    returns = pace.merge(uploads, agreed)
    adoptions = [pace.adopt(*files, agreed) for files in zip(graphs, kept, returns, strict=True)]
    sound = all(0 <= a.alpha <= 1 and bool(a.logits.isfinite().all()) for a in adoptions)
    sent, seconds = sum(map(len, [*uploads, *returns])), time.perf_counter() - began
    alphas = " ".join(f"{adoption.alpha:.2f}" for adoption in adoptions)
    found = f"{len(graphs)} clients, {sent:,} bytes, α {alphas}, {seconds:.1f} s"
    yield judged("fit, merge, adopt", found, sound, REINSTALL)


LOOKS: dict[str, Callable[[], Iterator[Finding]]] = {
    "Versions": versions,
    "Extras": extras,
    "Machine": machine,
    "Data": data,
    "Checks": federation,
}
