"""What an edition of a job costs against a new job for the same sites: fits, files and bytes carried.

Five sites by files, of Cora by Louvain; a sixth comes late, then the second leaves. A new job would
have every site fit again. `python -m benchmarks.editions`
"""

from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

import pace
from pace.datasets import Dataset
from pace.datasets.file import write_graph
from pace.jobs import DOWN, ROLL_SUFFIX, SERVER, UP, Job, read_edition, signatures, write_job
from pace.reports import Table
from pace.runtimes import files

METHOD, SITES = "pace-ridge", ("east", "north", "south", "west", "young", "zenith")
LATE, LEAVER, REST = SITES[5], SITES[1], (SITES[0], *SITES[2:])
Keys = dict[str, str]


def new_job(name: str, members: Sequence[str], keys: Keys, model: pace.GCN) -> tuple[Job, Path]:
    parties = {party: keys[party] for party in (*members, SERVER)}
    numbers = pace.methods.make(METHOD).numbers
    sites = {"participants": tuple(members), "minimum": len(members), "keys": parties}
    job = Job(name, model, METHOD, numbers=numbers, **sites)
    Path(name).mkdir()
    write_job(path := Path(name, "job.pace"), job)
    return job, path


def fit(job: Job, name: str) -> Path:
    """A site's upload."""
    upload, mine = Path(job.name, f"{name}{UP}"), files.load_site(Path(f"{name}.graph"), job)
    kept, key = upload.with_suffix(".local"), Path(f"{name}.key")
    files.fit_files(job, mine, kept, upload, key=key, editions=True)
    return upload


def merge(job: Job, edition: str, changes: files.Changes | None = None) -> Path:
    """The folder of returns."""
    inbox, key = Path(job.name), Path(f"{SERVER}.key")
    how = {"journal": inbox / "journal", "out": inbox / edition, "changes": changes}
    files.merge_files(job, [inbox], key=key, **how)
    return inbox / edition


def adopt(job: Job, returns: Path, members: Sequence[str]) -> list[Path]:
    """Everybody adopts; what was sent to them."""
    sent = []
    for name in members:
        pair = [returns / f"{name}{suffix}" for suffix in (DOWN, ROLL_SUFFIX)]
        returned, roll = (path.read_bytes() for path in pair)
        kept, mine = Path(job.name, f"{name}.local"), files.load_site(Path(f"{name}.graph"), job)
        model = kept.with_suffix(".model")
        files.adopt_files(job, mine, kept, model, returned=returned, roll=roll)
        sent += pair
    return sent


def whole(job: Job, path: Path) -> list[Path]:
    """All that is carried of a job: its file, uploads, returns and rolls."""
    uploads = [fit(job, site) for site in job.participants]
    returned = adopt(job, merge(job, "one"), job.participants)
    return [*[path] * len(uploads), *uploads, *returned]


def cost(way: str, carried: Sequence[Path]) -> list[str]:
    fits = sum(path.suffix == UP for path in carried)
    return [way, str(fits), str(len(carried)), f"{sum(path.stat().st_size for path in carried):,}"]


def measure(keys: Keys, model: pace.GCN) -> list[list[str]]:
    """Fits, files and bytes of each way."""
    job, path = new_job("job", SITES[:5], keys, model)
    rows = [cost("the first job, five sites", whole(job, path))]
    record = merge(job, "two", files.Changes({LATE: keys[LATE]})) / "job.2.edition"
    upload = fit(read_edition(record, job), LATE)
    comes = [path, record, upload, *adopt(job, merge(job, "two"), SITES)]
    rows.append(cost("edition 2, a sixth site comes", comes))
    rows.append(cost("a new job for the same six", whole(*new_job("six", SITES, keys, model))))
    withdrawal, kept = Path("north.withdrawal"), Path("job", f"{LEAVER}.local")
    files.withdraw_files(read_edition(record, job), kept, withdrawal, key=Path(f"{LEAVER}.key"))
    Path("job", f"{LEAVER}{UP}").unlink()
    returns = merge(job, "three", files.Changes(withdrawn=[withdrawal]))
    leaves = [withdrawal, returns / f"{LEAVER}.certificate", *adopt(job, returns, REST)]
    rows.append(cost("edition 3, one of six leaves", leaves))
    rows.append(cost("a new job for the same five", whole(*new_job("five", REST, keys, model))))
    return rows


def main() -> None:
    torch.set_num_threads(1)
    dataset = pace.load("cora")
    model = pace.GCN((dataset.graph.features, 64, dataset.classes))
    with TemporaryDirectory() as folder, chdir(folder):
        for name, graph in zip(SITES, pace.divide(dataset, "louvain", len(SITES)), strict=True):
            write_graph(Path(f"{name}.graph"), Dataset(name, graph, dataset.classes))
        pairs = ((name, Path(f"{name}.key"), Path(f"{name}.pub")) for name in (*SITES, SERVER))
        keys = {name: signatures.new_keys(*pair) for name, *pair in pairs}
        rows = measure(keys, model)
    heads = ["What happens", "Fits", "Files carried", "Bytes carried"]
    print(Table.of("An edition against a new job", heads, rows, words=0).markdown())


if __name__ == "__main__":
    main()
