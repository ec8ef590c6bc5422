"""Three small sites as files, for the tests of what is carried between them."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from pace.datasets import Dataset, Names, file
from pace.graph import Graph
from pace.jobs.editions import encode_record
from pace.jobs.job import Job, write_job
from pace.jobs.roll import Roll
from pace.models.networks import GCN
from pace.runtimes.files.client import adopt_files, fit_files
from pace.runtimes.files.egress import Egress
from pace.runtimes.files.outcome import Outcome
from pace.runtimes.files.site import load_site
from tests.graphs import CLASSES, FEATURES, clients

NAMES = ("north", "south", "west")
WORDS = Names(
    classes=("red", "green", "blue", "grey"), features=tuple(f"f{i}" for i in range(FEATURES))
)


def job(**changes: object) -> Job:
    """A small job; a new nonce each time."""
    settings: dict[str, object] = {
        "epochs": 5,
        "participants": NAMES,
        "minimum": 3,
        "classes": WORDS.classes,
        "features": WORDS.features,
    }
    settings["model"] = GCN((FEATURES, 16, CLASSES))
    return Job("small", **(settings | changes))  # type: ignore[arg-type]


def write_graph(path: Path, graph: Graph, names: Names = WORDS) -> None:
    file.write_graph(path, Dataset(path.stem, graph, CLASSES, names=names))


def write_sites(folder: Path, made: Job, names: Sequence[str] = NAMES) -> list[Path]:
    """A folder for each site with its graph and the job, and one for the server with the job."""
    for name, graph in zip(names, clients(len(names)), strict=True):
        (folder / name).mkdir(parents=True)
        write_graph(folder / name / "mine.graph", graph)
        write_job(folder / name / "job.pace", made)
    (folder / "server" / "inbox").mkdir(parents=True)
    write_job(folder / "server" / "job.pace", made)
    return [folder / name for name in names]


def fit_at(made: Job, site: Path, upload: Path, key: Path | None = None) -> Egress | None:
    """A site's first step in its folder; the upload goes elsewhere."""
    mine = load_site(site / "mine.graph", made)
    return fit_files(made, mine, site / "mine.local", upload, key=key)


def adopt_at(made: Job, site: Path, outbox: Path) -> Outcome:
    """A site's last step in its folder, with what the server wrote for it."""
    returned, roll = ((outbox / f"{site.name}.{end}").read_bytes() for end in ("down", "roll"))
    mine = load_site(site / "mine.graph", made)
    return adopt_files(
        made, mine, site / "mine.local", site / "mine.model", returned=returned, roll=roll
    )


def roll(made: Job, name: str, upload: bytes, returned: bytes, **changes: object) -> bytes:
    """What the server would send with a return if everybody listed were merged."""
    settings: dict[str, object] = {
        "job": made.digest,
        "receiver": name,
        "upload": hashlib.sha256(upload).hexdigest(),
        "returned": hashlib.sha256(returned).hexdigest(),
        "decision": "0" * 64,
        "merged": made.participants,
        "refused": {},
        "missing": (),
    }
    return encode_record(Roll(**(settings | changes)))  # type: ignore[arg-type]


# On a CPU, whatever is here: bytes are compared with those of a fit in this process.
ON_CPU = ("--device", "cpu", "--yes", "--upload")
FIT = ("client", "fit", "job.pace", "mine.graph", "--keep", "mine.local", *ON_CPU)
MERGE = ("server", "merge", "job.pace", "inbox", "--out", "outbox")
ADOPT = ("client", "adopt", "job.pace", "mine.graph", "--kept", "mine.local", "--out", "mine.model")
