"""Small files that ask for much, and things that are no files: rows 29 and 30."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from pace.datasets import file as graph_file
from pace.errors import FileError, GraphError, OtherJobError, PaceError, SettingError
from pace.io import untrusted
from pace.jobs import exact_size, explain, signatures
from pace.jobs.job import LARGEST, Job, digest, read_job, render_job
from pace.methods import METHODS
from pace.models.networks import GCN
from pace.protocol import wire
from pace.runtimes.files import model
from pace.runtimes.files.inspect import inspect
from pace.tables.problems import Problems
from pace.tables.table import open_table, read_table
from tests.memory import MIB, peak
from tests.sites import job


def graph_bytes(**about: object) -> bytes:
    """A .graph of one node."""
    told = {
        "format": graph_file.FORMAT, "name": "a", "title": "a", "features": 1, "classes": 2,
        "ratios": [0.2, 0.4, 0.4], "names": {"classes": [], "features": [], "clients": []},
    }  # fmt: skip
    tensors = {
        "edges": torch.zeros(2, 0, dtype=torch.int32),
        "y": torch.zeros(1, dtype=torch.int32),
        "x.indptr": torch.zeros(2, dtype=torch.int64),
        "x.indices": torch.zeros(0, dtype=torch.int32),
        "x.values": torch.zeros(0),
    }
    return save(tensors, {"pace": json.dumps(told | about)})


@pytest.mark.fault(29)
@pytest.mark.parametrize("about", [{"classes": 10**9}, {"classes": 0}, {"features": 10**9}])
def test_a_small_graph_file_cannot_ask_for_much(tmp_path: Path, about: dict[str, int]) -> None:
    path = tmp_path / "a.graph"
    path.write_bytes(graph_bytes())
    inspect(path)  # it is sound, and everything is imported
    path.write_bytes(graph_bytes(**about))

    def read() -> None:
        with pytest.raises(GraphError, match=r"declares \d+ (classes|features)"):
            inspect(path)

    assert peak(read) < 32 * MIB


@pytest.mark.fault(23)
@pytest.mark.parametrize(
    "about",
    [
        {"classes": 2.7}, {"classes": True}, {"features": -1}, {"features": 1.0}, {"name": 5},
        {"title": [1]}, {"ratios": []}, {"ratios": ["a", 0, 0]}, {"ratios": [math.nan] * 3},
        {"ratios": [9, 9, 9]}, {"ratios": [-1, 1, 1]}, {"names": {}},
        {"names": {"classes": ["a"], "features": [], "clients": []}},
        {"names": {"classes": [["x"], "y"], "features": [], "clients": []}},
        {"names": {"classes": "ab", "features": [], "clients": []}},
        {"names": {"classes": [], "features": ["a", "b"], "clients": []}},
    ],
)  # fmt: skip
def test_a_graph_files_header_is_of_the_kinds_that_it_is_written_with(
    tmp_path: Path, about: dict[str, object]
) -> None:
    """Otherwise it would be found out later, by a division or a model, and in a traceback."""
    path = tmp_path / "a.graph"
    path.write_bytes(graph_bytes())
    graph_file.read_graph(path)
    path.write_bytes(graph_bytes(**about))
    with pytest.raises(GraphError):
        graph_file.read_graph(path)


@pytest.mark.fault(29)
@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("features = 40", f"features = {2**24}"),
        ("hidden = [16]", f"hidden = [{', '.join(['1'] * 500_000)}]"),
        ("hidden = [16]", "hidden = [5000, 5000]"),
        ("rank = 6", "rank = 4.0"),
        ("rank = 6", "rank = true"),
        ("epochs = 5", "epochs = 0x" + "f" * 100),
        ("epochs = 5", ".".join(["a"] * 2000) + " = 1"),
        ("nonce", "zz.zz.zz.zz = 1979-05-27T07:32:00Z\nnonce"),
    ],
)
def test_no_line_of_a_job_takes_memory_or_ends_in_a_traceback(
    tmp_path: Path, line: str, says: str
) -> None:
    text = render_job(job(classes=(), features=()))
    assert line in text
    path = tmp_path / "job.pace"
    path.write_text(text)
    read_job(path)
    path.write_text(text.replace(line, says, 1))

    def read() -> None:
        with pytest.raises((FileError, OtherJobError, SettingError)):
            read_job(path)

    assert peak(read) < 128 * MIB


@pytest.mark.fault(29)
def test_a_rank_that_is_no_whole_number_is_named(tmp_path: Path) -> None:
    """Also with the digest that fits, as a software that made it would write it."""
    made = job()
    content = {**made.content, "method": {**made.content["method"], "rank": 4.0}}
    text = render_job(made).replace("rank = 6", "rank = 4.0")
    (tmp_path / "job.pace").write_text(text.replace(made.digest, digest(content)))
    with pytest.raises(SettingError, match=r"pace's rank is '4.0', expected a whole number"):
        read_job(tmp_path / "job.pace")


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_the_largest_job_takes_a_stated_multiple_of_the_largest_model(method: str) -> None:
    """`pace show` of a job of a few hundred bytes: at most 32 times the largest model's 64 MiB."""
    made = Job("large", GCN((LARGEST // 65, 64, 7)), method=method)
    assert peak(lambda: explain.job_facts(made)) < 32 * 4 * LARGEST


@pytest.mark.fault(29)
def test_a_generator_of_classes_squared_is_refused_before_it_is_made() -> None:
    made = Job("large", GCN((7, 64, 100_000)), method="fedtad")

    def read() -> None:
        with pytest.raises(SettingError, match="100,000 classes, expected at most 4,096"):
            explain.job_facts(made)

    assert peak(read) < 512 * MIB


@pytest.mark.fault(29)
@pytest.mark.parametrize("kind", ["rows", "text", "lists"])
def test_a_small_parquet_file_cannot_ask_for_much(tmp_path: Path, kind: str) -> None:
    """Equal cells take next to nothing; a long text that is repeated is held once."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "nodes.parquet"
    if kind == "rows":
        columns = {"id": arrow.array([0] * 2_000_000, arrow.int32())}
    elif kind == "text":
        places = arrow.array([0] * 100_000, arrow.int32())
        columns = {"id": arrow.DictionaryArray.from_arrays(places, arrow.array(["x" * 100_000]))}
    else:
        columns = {"id": arrow.array([[0.0] * 2_000_000] * 40)}
    parquet.write_table(arrow.table(columns), path, row_group_size=10**9)
    del columns
    assert path.stat().st_size < 400_000
    problems = Problems()

    def read() -> None:
        file = open_table(path)
        assert file.columns == ["id"]
        read_table(file, problems, text=["id"])

    def run() -> None:
        if kind == "text":
            read()
            return
        with pytest.raises(GraphError, match=r"declares [\d,]+ (rows|cells|bytes)"):
            read()

    assert peak(run) < 128 * MIB


@pytest.mark.fault(29)
def test_a_header_of_very_many_columns_takes_time_in_proportion(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text(",".join(f"c{place}" for place in range(100_000)) + "\n")
    began = time.process_time()
    file = open_table(path)
    names = file.columns
    read_table(file, Problems(), text=names[:1], numbers=names[1:2])
    assert time.process_time() - began < 5  # of this process alone


@pytest.mark.fault(29)
@pytest.mark.parametrize("kind", ["message", "tensors", "key", "json", "job"])
def test_inspect_reads_what_it_shows(tmp_path: Path, kind: str) -> None:
    """Files of ten gigabytes that begin as files of ours do."""
    path = tmp_path / "a"
    head = {
        "message": wire.encode({"a": torch.zeros(3)}, bytes(8)),
        "tensors": save({"a": torch.zeros(3)}, {"pace": json.dumps({"format": model.PARAMS})}),
        "key": b"-----BEGIN PRIVATE KEY-----\n",
        "json": b'{"format": "pace-egress-1", "job": ',
        "job": b'format = "pace-job-1"\n',
    }[kind]
    path.write_bytes(head)
    with path.open("r+b") as opened:
        opened.truncate(10 * 2**30)

    def read() -> None:
        with pytest.raises(FileError, match="10,737,418,240 bytes, expected at most"):
            inspect(path)

    assert peak(read) < 16 * MIB


READERS: dict[str, Callable[[Path], object]] = {
    "show": read_job,
    "inspect": inspect,
    "graph": graph_file.read_graph,
    "kept": lambda path: model.read_kept(path, job()),
    "key": signatures.load_key,
    "public": signatures.read_public_key,
    "upload": lambda path: untrusted.read_exact(path, exact_size(job())),
    "table": lambda path: open_table(path),
}


@pytest.mark.fault(30)
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("name", READERS)
def test_no_reader_waits_for_a_fifo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, swapped: bool
) -> None:
    """Also where it takes a file's place after every look at it, just before it is opened."""
    path = tmp_path / ("a.csv" if name == "table" else "a.up")
    if swapped:
        path.write_bytes(b"x" * 100)
        real = os.open

        def swap(place: Path, *given: int, **named: int) -> int:
            if Path(place) == path and path.is_file():
                path.unlink()
                os.mkfifo(path)
            return real(place, *given, **named)

        monkeypatch.setattr(os, "open", swap)
    else:
        os.mkfifo(path)
    ended: list[str] = []

    def read() -> None:
        try:
            READERS[name](path)
        except (PaceError, OSError) as error:
            ended.append(str(error))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(20)
    assert len(ended) == 1
