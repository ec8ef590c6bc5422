"""What an edition of a job costs against a new job for the same sites: fits, files and bytes carried.

Five sites by files, of Cora by Louvain; a sixth comes late, then the second leaves. A new job would
have every site fit again. `python -m benchmarks.editions`
"""

from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from benchmarks.same_results import command
from pace.reports import Table

METHOD, DATASET = "pace-ridge", "cora"
SITES = tuple(f"client-{place}" for place in range(6))
LATE, LEAVER = SITES[5], SITES[1]


def fit(job: str, site: str, *options: str) -> Path:
    """A site's upload."""
    mine = f"{site}.graph --keep {job}/{site}.local --upload {job}/{site}.up --key {site}.key"
    command(f"client fit {job}/job.pace {mine} --editions --yes {' '.join(options)}")
    return Path(job, f"{site}.up")


def merge(job: str, edition: str, *changes: str) -> Path:
    """The folder of returns."""
    where = f"{job}/job.pace {job} --journal {job}/journal --out {job}/{edition}"
    command(f"server merge {where} --key server.key {' '.join(changes)}")
    return Path(job, edition)


def adopt(job: str, returns: Path, sites: Sequence[str]) -> list[Path]:
    """Everybody adopts; what was sent to them."""
    for site in sites:
        files = f"--kept {job}/{site}.local --return {returns}/{site}.down --out {job}/{site}.model"
        command(f"client adopt {job}/job.pace {site}.graph {files}")
    return [returns / f"{site}.{kind}" for site in sites for kind in ("down", "roll")]


def new_job(job: str, sites: Sequence[str]) -> list[Path]:
    """All that is carried of a job: its file to everybody, uploads, returns and rolls."""
    Path(job).mkdir()
    who = ",".join(f"{site}={site}.pub" for site in sites)
    like = f"--like {SITES[0]}.graph --server-key server.pub --method {METHOD}"
    command(f"new {job}/job.pace --participant {who} {like}")
    uploads = [fit(job, site) for site in sites]
    return [*[Path(job, "job.pace")] * len(sites), *uploads, *adopt(job, merge(job, "1"), sites)]


def cost(way: str, carried: Sequence[Path]) -> list[str]:
    fits = sum(path.suffix == ".up" for path in carried)
    return [way, str(fits), str(len(carried)), f"{sum(path.stat().st_size for path in carried):,}"]


def measure() -> list[list[str]]:
    """Fits, files and bytes of each way, in the current folder."""
    command(f"partition --dataset {DATASET} --clients {len(SITES)} --graphs .")
    for name in (*SITES, "server"):
        command(f"keys new {name}")
    rows = [cost("the first job, five sites", new_job("job", SITES[:5]))]
    record = merge("job", "2", f"--add {LATE}={LATE}.pub") / "job.2.edition"
    comes = [Path("job/job.pace"), record, fit("job", LATE, f"--edition {record}")]
    comes += adopt("job", merge("job", "2"), SITES)
    rows.append(cost("edition 2, a sixth site comes", comes))
    rows.append(cost("a new job for the same six", new_job("six", SITES)))
    command(f"client withdraw job/job.pace --kept job/{LEAVER}.local --key {LEAVER}.key")
    withdrawal, rest = Path("job", f"{LEAVER}.withdrawal"), [s for s in SITES if s != LEAVER]
    Path("job", f"{LEAVER}.up").unlink()
    returns = merge("job", "3", f"--withdrawal {withdrawal}")
    leaves = [withdrawal, returns / f"{LEAVER}.certificate", *adopt("job", returns, rest)]
    rows.append(cost("edition 3, one of six leaves", leaves))
    rows.append(cost("a new job for the same five", new_job("five", rest)))
    return rows


def main() -> None:
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder, chdir(folder):
        rows = measure()
    heads = ["What happens", "Fits", "Files carried", "Bytes carried"]
    print(Table.of("An edition against a new job", heads, rows, words=0).markdown())


if __name__ == "__main__":
    main()
