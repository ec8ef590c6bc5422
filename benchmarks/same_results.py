"""Whether two versions of PACE give the same results: for a refactoring, which must change none.

    PYTHONPATH=OLD/src:OLD/study python same_results.py record before.json
    PYTHONPATH=NEW/src:NEW/study python same_results.py record after.json
    python same_results.py compare before.json after.json

`record` writes a flat JSON, `path: value`, of what both versions must agree on:

- `CASES`: uploads, returns, alphas and logits of methods by `fit`, `merge`, `adopt`, of all at 3 clients
  and at 70, which is more than the server reads at once; some with rounded messages, some on public
  graphs by every partition, which needs $PACE_DATA;
- files: signed jobs from `pace partition --graphs` to `pace client evaluate`, with fixed keys and nonce.

It uses public names and the command line, so that it outlives the modules it watches. Words are left
out, since they may improve; of numbers every bit counts. Against stored cells `pace reproduce` compares.

`compare` exits with 1 if a value changed or is gone; values that only AFTER has are just counted. Every
frame holds a digest of the settings as they are described: `--other-digests` forgives what differs
with it (digest, checksum, signature), never the names, shapes and numbers of tensors.
"""

import hashlib
import io
import json
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from itertools import chain
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd
import torch
import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import pace
from pace.cli import main
from pace.io.plugins import allow
from pace.methods import make

app = typer.Typer(help="Whether two versions of PACE give the same results.")
Leaves = Iterator[tuple[str, str | int | None]]

UNLIKE = {"seconds", "versions", "command", "graphs"}  # keys whose values differ from run to run
SEED, EPOCHS = 104729, 40
VARIANTS = (  # settings of methods, and methods of the study
    "pace-duo:numbers=float32", "pace-duo:ridge=1000000.0,level=1.0", "pace-duo:level=1.0",
    "pace-duo:level=0.2", "pace-duo:level=0.05", "pace-ridge:own=none", "pace-ridge:hops=2",
    "pace-ridge:hops=0", "pace-ridge:strengths=3.0",
    "pace-ridge:smallest_class=1,nodes_per_row=1", "pace-ridge:numbers=float32",
    "pace_study.controls:Rounded", "pace_study.controls:Tempered", "pace_study.controls:OwnRidge",
)  # fmt: skip
FEW, DEFAULT = ("pace", "fedavg", "pace-duo:level=1.0"), ("local", "fedavg", "pace", "pace-full")
EVERY, SMALL = (*pace.METHODS, *VARIANTS), ("synthetic", "louvain", 3, EPOCHS)
CASES: dict[str, tuple[str, str, int, int, Sequence[str], dict[str, Any]]] = {
    "methods": (*SMALL, EVERY, {}),
    "crowd": ("synthetic", "metis", 70, 3, EVERY, {}),
    "float16": (*SMALL, (*FEW, "fedpub"), {"numbers": "float16", "layers": 3}),
    "int8": (*SMALL, FEW, {"numbers": "int8", "layers": 3}),
    "cora": ("cora", "louvain", 10, 100, DEFAULT, {}),
    "citeseer": ("citeseer", "metis", 10, 100, DEFAULT, {}),
    "pubmed": ("pubmed", "dirichlet", 10, 100, DEFAULT, {}),
}
SITES, JOBS = ("client-0", "client-1", "client-2"), ("pace", "pace-duo", "fedavg", "fedgta")


def command(words: str) -> Any:
    """What `pace WORDS --json` prints. In this process, which spares a hundred starts of Python."""
    out, err = io.StringIO(), io.StringIO()
    argv = mock.patch.object(sys, "argv", ["pace", *words.split(), "--json"])
    nonce = mock.patch("secrets.token_hex", lambda count: "5a" * count)  # a job draws one
    key = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(words.encode()).digest())
    keys = mock.patch.object(Ed25519PrivateKey, "generate", return_value=key)  # and a pair of keys
    try:
        with argv, nonce, keys, redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as end:
        if end.code not in (None, 0, 1):  # 1: not yet
            raise RuntimeError(f"pace {words}: {err.getvalue()}") from end
    return json.loads(out.getvalue())


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def leaves(value: Any, at: str) -> Leaves:
    """Every number in a JSON value with its path, floats to the last bit; words are left out."""
    if isinstance(value, Mapping):
        for key in value.keys() - UNLIKE:
            yield from leaves(value[key], f"{at}/{key}")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from leaves(item, f"{at}/{place}")
    elif not isinstance(value, str):
        yield at, value.hex() if isinstance(value, float) else value


def message(content: bytes, at: str, *, signature: int = 0) -> Leaves:
    """The parts of an upload or return, read as docs/wire-format.md says."""
    frame = content[: len(content) - signature]
    if frame[:4] != b"PACE" or zlib.crc32(frame[:-4]) != int.from_bytes(frame[-4:], "little"):
        raise ValueError(f"{at} is not a frame")
    yield f"{at}/tensors", sha(frame[4:5] + frame[17:-4])  # the version; names, shapes and numbers
    yield f"{at}/whole", sha(content)  # the federation's digest too


def case(at: str) -> Leaves:
    """fit, merge and adopt of every method of a case."""
    dataset, partition, clients, epochs, methods, settings = CASES[at]
    graphs = pace.divide(pace.load(dataset), partition, clients)
    for name in methods:
        federation = pace.agree(graphs, make(name), seed=SEED, epochs=epochs, **settings)
        fitted = [pace.fit(graph, federation) for graph in graphs]
        returns = pace.merge([upload for _, upload in fitted], federation)
        for client, returned in enumerate(returns):
            (kept, upload), here = fitted[client], f"{at}/{name}/{client}"
            yield from message(upload, f"{here}/upload")
            yield from message(returned, f"{here}/return")
            yield f"{here}/return/answers the upload", int(returned[13:17] == upload[-4:])
            adoption = pace.adopt(graphs[client], kept, returned, federation)
            yield f"{here}/alpha", float(adoption.alpha).hex()
            for reading in ("local", "external", "logits"):
                logits = getattr(adoption, reading)
                yield f"{here}/{reading}", sha(logits.contiguous().numpy().tobytes())


def files() -> Leaves:
    """Signed jobs of several methods, in the current folder."""
    divided = command(f"partition --dataset synthetic --clients {len(SITES)} --graphs .")
    yield from leaves(divided, "files/graphs")
    for name in (*SITES, "server"):
        command(f"keys new {name}")
    for method in JOBS:
        yield from signed_job(method, f"files/{method}")


def signed_job(method: str, at: str) -> Leaves:
    """From the job's file to the sites' predictions."""
    Path(method).mkdir()
    job = f"{method}/job.pace"
    who = ",".join(f"{name}={name}.pub" for name in SITES)
    how = f"--server-key server.pub --method {method} --epochs {EPOCHS}"
    made = command(f"new {job} --like {SITES[0]}.graph --participant {who} {how}")
    yield from leaves(made, f"{at}/job")
    for name in SITES:
        mine, here = f"{method}/{name}", f"{at}/{name}"
        to = f"--keep {mine}.local --upload {mine}.up --key {name}.key --device cpu --yes"
        yield from leaves(command(f"client fit {job} {name}.graph {to}"), f"{here}/fit")
        yield from message(Path(f"{mine}.up").read_bytes(), f"{here}/upload", signature=72)
    uploads = " ".join(f"{method}/{name}.up" for name in SITES)
    merged = command(f"server merge {job} {uploads} --out {method} --key server.key")
    yield from leaves(merged, f"{at}/merge")
    for name in SITES:
        mine, here, on = f"{method}/{name}", f"{at}/{name}", f"{method}/{name}.model {name}.graph"
        yield from message(Path(f"{mine}.down").read_bytes(), f"{here}/return", signature=72)
        to = f"--kept {mine}.local --return {mine}.down --out {mine}.model"
        yield from leaves(command(f"client adopt {job} {name}.graph {to}"), f"{here}/adopt")
        yield from leaves(command(f"client predict {on} --out {mine}.csv"), f"{here}/predict")
        _, *rows = Path(f"{mine}.csv").read_bytes().splitlines()  # the heads are words
        yield f"{here}/predictions", sha(b"\n".join(rows))
        yield from leaves(command(f"client evaluate {on} --on test"), f"{here}/evaluate")


@app.command()
def record(out: Path) -> None:
    """Write everything to OUT."""
    torch.set_num_threads(1)
    allow(*(name for name in VARIANTS if name.startswith("pace_study")))
    values = dict(chain.from_iterable(map(case, CASES)))
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        values |= dict(files())
    out.write_text(json.dumps({"torch": torch.__version__, **values}, indent=0) + "\n")


@app.command()
def compare(before: Path, after: Path, other_digests: bool = False) -> None:
    """Print how many values are equal, and what is not; exits with 1 if any changed."""
    values = [pd.Series(json.loads(path.read_text())).map(repr) for path in (before, after)]
    both = pd.concat(values, axis=1, keys=["before", "after"])
    added = both.before.isna()
    forgiven = both.index.str.endswith("/whole") & both.after.notna() & other_digests
    wrong = both[both.before.ne(both.after) & ~added & ~forgiven]
    print(wrong.to_string())
    print(f"{len(both):,} values, {len(wrong):,} changed or gone, {added.sum():,} added")
    raise typer.Exit(len(wrong) > 0)


if __name__ == "__main__":
    app()
