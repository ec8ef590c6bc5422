"""What an edition of a job costs against a new job for the same sites: fits, files and bytes carried.

Five sites by files, of Cora by Louvain; a sixth comes late, then the second leaves. A new job would
have every site fit again. `python -m benchmarks.editions`
"""

from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import clock
from benchmarks.same_results import command
from pace.reports import Table

SITES = tuple(f"client-{number}" for number in range(6))
LATE, LEAVER = SITES[5], SITES[1]


def fit(job: Path, site: str, options: str = "") -> Path:
    """A site's upload."""
    upload = job / f"{site}.up"
    mine = f"{site}.graph --keep {job}/{site}.local --upload {upload} --key {site}.key"
    command(f"client fit {job}/job.pace {mine} --editions --yes {options}")
    return upload


def answer(job: Path, edition: str, sites: Sequence[str], options: str = "") -> list[Path]:
    """The server merges and these sites adopt; what was sent to them."""
    returns = job / edition
    command(f"server merge {job}/job.pace {job} --out {returns} --key server.key {options}")
    for site in sites:
        files = f"--kept {job}/{site}.local --return {returns}/{site}.down --out {job}/{site}.model"
        command(f"client adopt {job}/job.pace {site}.graph {files}")
    return [returns / f"{site}.{kind}" for site in sites for kind in ("down", "roll")]


def new_job(job: Path, sites: Sequence[str]) -> list[Path]:
    """All that is carried of a job: its file to everybody, uploads, returns and rolls."""
    job.mkdir()
    who = ",".join(f"{site}={site}.pub" for site in sites)
    like = f"--like {SITES[0]}.graph --server-key server.pub --method pace-ridge"
    command(f"new {job}/job.pace --participant {who} {like}")
    uploads = [fit(job, site) for site in sites]
    return [*[job / "job.pace"] * len(sites), *uploads, *answer(job, "1", sites)]


def main() -> None:
    """Print fits, files and bytes of each way."""
    rows: list[list[str | int]] = []

    def carried(way: str, files: Sequence[Path]) -> None:
        fits = sum(path.suffix == ".up" for path in files)
        rows.append([way, fits, len(files), sum(path.stat().st_size for path in files)])

    with TemporaryDirectory() as folder, chdir(folder):
        command(f"partition --dataset cora --clients {len(SITES)} --graphs .")
        for name in (*SITES, "server"):
            command(f"keys new {name}")
        job, rest = Path("job"), [site for site in SITES if site != LEAVER]
        carried("the first job, five sites", new_job(job, SITES[:5]))
        answer(job, "2", (), f"--add {LATE}={LATE}.pub")
        record = job / "2/job.2.edition"
        comes = [job / "job.pace", record, fit(job, LATE, f"--edition {record}")]
        carried("edition 2, a sixth site comes", comes + answer(job, "2", SITES))
        carried("a new job for the same six", new_job(Path("six"), SITES))
        command(f"client withdraw {job}/job.pace --kept {job}/{LEAVER}.local --key {LEAVER}.key")
        withdrawal = job / f"{LEAVER}.withdrawal"
        (job / f"{LEAVER}.up").unlink()
        stay = answer(job, "3", rest, f"--withdrawal {withdrawal}")
        leaves = [withdrawal, job / f"3/{LEAVER}.certificate", *stay]
        carried("edition 3, one of six leaves", leaves)
        carried("a new job for the same five", new_job(Path("five"), rest))
    heads = ("What happens", "Fits", "Files carried", "Bytes carried")
    print(Table.of("An edition against a new job", heads, rows, words=0).markdown())


if __name__ == "__main__":
    clock.command(main)
