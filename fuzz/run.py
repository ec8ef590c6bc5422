"""Coverage-guided fuzzing of everything that reads bytes from outside.

    python fuzz/run.py [--runs 1000000] [--seconds 480] [--report FILE] [--keep] [TARGET ...]

Each target runs in a fork of this process, from the corpus in fuzz/corpus/TARGET (new inputs that
reached new code go to a scratch folder), with a limit of memory and of seconds an input. A crash ends
it with the input's bytes in a file. What one target leaves of the seconds, the next may use. Prints,
as JSON, executions, seconds and peak memory of each.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
MEMORY, HANG = 2048, 10  # MiB of a process, seconds of one input
LONGEST = 16384  # bytes of an input
SLOW = {"model": 0.01, "sealed": 0.01}  # two milliseconds an input; they come last
SHARE = {
    "frame": 0.3,
    "upload": 0.12,
    "signature": 0.1,
    **SLOW,
}  # of the runs; the rest share evenly


def instrumented() -> dict[str, Callable[[bytes], None]]:
    """The targets, whose first inputs are written down."""
    import atheris

    with atheris.instrument_imports(include=["pace"], enable_loader_override=False):
        sys.path.insert(0, str(HERE.parent))
        from fuzz import targets
    for target, seeds in targets.seeds().items():
        folder = CORPUS / target
        folder.mkdir(parents=True, exist_ok=True)
        for place, content in enumerate(seeds):
            seed = folder / f"seed-{place}"
            if not seed.exists():
                seed.write_bytes(content)
    return targets.TARGETS


def become(reader: Callable[[bytes], None], words: list[str], log: int) -> NoReturn:
    """This process becomes the fuzzer, and writes what it says to the log."""
    import atheris

    os.dup2(log, sys.stderr.fileno())
    try:
        atheris.Setup([sys.argv[0], *words], reader)
        atheris.Fuzz()  # ends the process, unless it crashed
    finally:
        os._exit(1)


def fuzz(
    target: str, reader: Callable[[bytes], None], runs: int, seconds: int, *, keep: bool
) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile("w+") as log:
        words = [
            *([] if keep else [scratch]),
            str(CORPUS / target),
            f"-runs={runs}",
            f"-max_total_time={seconds}",
            f"-rss_limit_mb={MEMORY}",
            f"-timeout={HANG}",
            f"-max_len={LONGEST}",
            f"-artifact_prefix={HERE}/crash-{target}-",
            "-print_final_stats=1",
        ]
        began = time.perf_counter()
        if not (child := os.fork()):
            become(reader, words, log.fileno())
        failed = os.waitpid(child, 0)[1] != 0
        found = len(list(Path(scratch).iterdir()))
        log.seek(0)
        said = log.read()
    stats = dict(re.findall(r"stat::(\w+):\s+(\d+)", said))
    if failed:
        print(said[-4000:], file=sys.stderr)
    return {
        "target": target,
        "executions": int(stats.get("number_of_executed_units", 0)),
        "seconds": round(time.perf_counter() - began, 1),
        "peak_mib": int(stats.get("peak_rss_mb", 0)),
        "new_inputs": found,
        "crashed": failed,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1_000_000, help="of all targets together")
    parser.add_argument("--seconds", type=int, default=480, help="of all targets together")
    parser.add_argument("--report", type=Path)
    parser.add_argument("--keep", action="store_true", help="put new inputs into the corpus")
    parser.add_argument("targets", nargs="*")
    given = parser.parse_args()
    ends = time.monotonic() + given.seconds
    readers = instrumented()
    names = given.targets or sorted(readers, key=lambda name: (name in SLOW, name))
    rest = (1 - sum(SHARE.values())) / max(1, sum(name not in SHARE for name in names))
    found = []
    for name in names:
        runs = int(SHARE.get(name, rest) * given.runs) + 1 if len(names) > 1 else given.runs
        seconds = max(5, int(ends - time.monotonic()))
        found.append(fuzz(name, readers[name], runs, seconds, keep=given.keep))
        print(json.dumps(found[-1]), flush=True)
    if given.report:
        given.report.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(any(each["crashed"] for each in found))


if __name__ == "__main__":
    main()
