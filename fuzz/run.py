"""Coverage-guided fuzzing of everything that reads bytes from outside.

    python fuzz/run.py [--runs 1000000] [--seconds 480] [--report FILE] [--keep] [TARGET ...]

Each target runs in a process of its own, from the corpus in fuzz/corpus/TARGET (new inputs that
reached new code go to a scratch folder), with a limit of memory and of seconds an input. A crash ends
it with the input's bytes in a file. Prints, as JSON, executions, seconds and peak memory of each.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
MEMORY, HANG = 2048, 10  # MiB of a process, seconds of one input
LONGEST = 16384  # bytes of an input
SHARE = {"frame": 0.3, "upload": 0.12, "signature": 0.1}  # of the runs; the rest share what is left


def child(target: str, words: list[str]) -> None:
    """This process becomes the fuzzer."""
    import atheris

    with atheris.instrument_imports(include=["pace"], enable_loader_override=False):
        sys.path.insert(0, str(HERE.parent))
        from fuzz import targets
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    for place, content in enumerate(targets.seeds()[target]):
        seed = folder / f"seed-{place}"
        if not seed.exists():
            seed.write_bytes(content)
    atheris.Setup([sys.argv[0], *words], targets.TARGETS[target])
    atheris.Fuzz()


def fuzz(target: str, runs: int, seconds: int, *, keep: bool) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as scratch:
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
        command = [sys.executable, __file__, "--child", target, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = len(list(Path(scratch).iterdir()))
    stats = dict(re.findall(r"stat::(\w+):\s+(\d+)", done.stderr))
    if done.returncode:
        print(done.stderr[-4000:], file=sys.stderr)
    return {
        "target": target,
        "executions": int(stats.get("number_of_executed_units", 0)),
        "seconds": round(time.perf_counter() - began, 1),
        "peak_mib": int(stats.get("peak_rss_mb", 0)),
        "new_inputs": found,
        "crashed": done.returncode != 0,
    }


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3:])
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1_000_000, help="of all targets together")
    parser.add_argument("--seconds", type=int, default=480, help="of all targets together")
    parser.add_argument("--report", type=Path)
    parser.add_argument("--keep", action="store_true", help="put new inputs into the corpus")
    parser.add_argument("targets", nargs="*")
    given = parser.parse_args()
    names = given.targets or [each.name for each in sorted(CORPUS.iterdir())]
    rest = max(1, sum(name not in SHARE for name in names))
    found = []
    for name in names:
        share = SHARE.get(name, (1 - sum(SHARE.values())) / rest) if len(names) > 1 else 1.0
        runs, seconds = int(share * given.runs) + 1, max(5, int(share * given.seconds))
        found.append(fuzz(name, runs, seconds, keep=given.keep))
        print(json.dumps(found[-1]), flush=True)
    if given.report:
        given.report.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(any(each["crashed"] for each in found))


if __name__ == "__main__":
    main()
