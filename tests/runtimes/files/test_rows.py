"""Rows in Parquet in place of a graph: the same upload, the same model, a block at a time."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from pace.cli import app
from pace.errors import FileError, GraphError, SettingError
from pace.jobs import Job
from pace.protocol import steps
from pace.runtimes.files import load_rows, load_site, read_model, rows, write_rows
from pace.runtimes.files.client import adopt_files, fit_files
from tests.memory import MIB, peak
from tests.sites import NAMES, job, roll, write_sites

pyarrow = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

METHODS = ("pace-ridge", "pace-full", "pace-ridge-sums", "pace-full-sums")
EXACT = {"numbers": "float32"}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a small table has several blocks and files."""
    monkeypatch.setattr(rows, "BATCH", 16)
    monkeypatch.setattr(rows, "PART", 50)


def pace(*words: object) -> Any:
    done = CliRunner().invoke(app, [*map(str, words), "--json"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return json.loads(done.stdout)


def pair(made: Job, folder: Path) -> tuple[Path, Path]:
    """A site's graph, and its rows with the logits of a Local that was trained on it."""
    north, *_ = write_sites(folder, made)
    graph = north / "mine.graph"
    site = load_site(graph, made)
    fit_files(made, site, north / "mine.local", folder / "north.up")
    kept = rows_kept(north / "mine.local", made)
    assert write_rows(north / "mine.rows", site, made, kept)[1] > 1
    return graph, north / "mine.rows"


def rows_kept(path: Path, made: Job) -> Any:
    from pace.runtimes.files import read_kept

    return read_kept(path, made).kept.local


@pytest.mark.parametrize("method", METHODS)
def test_rows_make_the_upload_and_the_model_that_the_graph_makes(
    method: str, tmp_path: Path
) -> None:
    made = job(method=method, participants=NAMES, minimum=1, **EXACT)
    graph, table = pair(made, tmp_path)
    north = graph.parent
    again, site = tmp_path / "again", load_rows(table, made)
    again.mkdir()
    fit_files(made, site, again / "mine.local", again / "north.up")
    ours, theirs = (
        steps.check_upload((folder / "north.up").read_bytes(), made.federation)
        for folder in (again, tmp_path)
    )
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, atol=1e-6, rtol=1e-5)
    outcomes, logits = [], []
    for folder, source in ((north, load_site(graph, made)), (again, None)):
        frame = (tmp_path if source else again) / "north.up"
        (returned,) = steps.merge([frame.read_bytes()], made.federation)
        outcomes.append(
            adopt_files(
                made,
                source or load_rows(table, made, sample=True),
                folder / "mine.local",
                folder / "mine.model",
                returned=returned,
                roll=roll(made, "north", frame.read_bytes(), returned),
            )
        )
        model = read_model(folder / "mine.model")
        blocks = [source] if source else rows.RowFiles.found(table, made).sites()
        logits.append(torch.cat([model(block.graph).logits for block in blocks]))
    # Rounding decides which of two nearly equal models has a small weight.
    assert outcomes[0].weights == pytest.approx(outcomes[1].weights, abs=2e-3)
    assert outcomes[0].test.adopted.confusion == outcomes[1].test.adopted.confusion
    torch.testing.assert_close(logits[0], logits[1], atol=1e-3, rtol=1e-3)


def test_a_site_without_a_graph_goes_through_all_commands(tmp_path: Path) -> None:
    """No Local of a network: the ridge regression of its own rows is what the return must not harm."""
    made = job(method="pace-ridge", minimum=1)
    north, *_ = write_sites(tmp_path, made)
    here, table = north / "job.pace", north / "mine.rows"
    wrote = pace("rows", here, north / "mine.graph", "--out", table)
    assert wrote["files"] > 1
    assert wrote["maps"] == ["hop0", "hop2"]
    (north / "mine.graph").unlink()
    inbox = tmp_path / "server" / "inbox"
    local, upload = north / "mine.local", inbox / "north.up"
    fit = ("client", "fit", here, "--rows", table, "--keep", local, "--upload", upload, "--yes")
    assert not pace(*fit)["again"]
    assert pace(*fit)["again"]
    outbox = tmp_path / "outbox"
    pace("server", "merge", here, inbox, "--out", outbox)
    model = north / "mine.model"
    adopt = ("client", "adopt", here, "--rows", table, "--kept", local, "--out", model)
    found = pace(*adopt, "--return", outbox / "north.down")
    assert found["validation"]["adopted"]["nll"] <= found["validation"]["local"]["nll"] + 1e-6
    assert found["test"]["local"]["accuracy"] > 0.4  # of four classes
    out = north / "predictions.parquet"
    told = pace("client", "predict", model, "--rows", table, "--out", out)
    answers = parquet.read_table(out).to_pandas()
    assert told["nodes"] == len(answers) == wrote["rows"]
    assert set(answers["split"]) == {"train", "val", "test"}
    tested = answers[answers["split"] == "test"]
    right = (tested["class"] == tested["label"]).mean()
    assert right == pytest.approx(found["test"]["adopted"]["accuracy"])


def edited(table: Path, change: Any) -> None:
    first = sorted(table.iterdir())[0]
    parquet.write_table(change(parquet.read_table(first)), first)


def test_what_is_wrong_with_rows_is_said(tmp_path: Path) -> None:
    made = job(method="pace-ridge", minimum=1)
    north, *_ = write_sites(tmp_path, made)
    site, table = load_site(north / "mine.graph", made), north / "mine.rows"

    def refused(change: Any, kind: type[Exception], words: str) -> None:
        shutil.rmtree(table, ignore_errors=True)
        write_rows(table, site, made)
        edited(table, change)
        with pytest.raises(kind, match=words):
            load_rows(table, made, sample=True)

    def replaced(name: str, values: Any) -> Any:
        return lambda t: t.set_column(t.column_names.index(name), name, [values(len(t))])

    refused(lambda t: t.drop_columns(["hop2"]), GraphError, "no column 'hop2'")
    refused(
        replaced("label", lambda n: ["mauve"] * n), GraphError, "label is 'mauve', expected red"
    )
    refused(replaced("split", lambda n: ["dev"] * n), GraphError, "split is 'dev'")
    refused(replaced("hop0", lambda n: [[1.0, 2.0]] * n), GraphError, "hop0 has 2 to 2 numbers")
    refused(replaced("hop0", lambda n: [1.0] * n), GraphError, "type double, expected lists")
    refused(
        replaced("hop0", lambda n: [[float("nan")] * made.model.features] * n),
        GraphError,
        "not finite",
    )
    refused(replaced("label", lambda n: [None] * n), GraphError, "in a split and has no label")
    sorted(table.iterdir())[0].write_bytes(b"no footer")
    with pytest.raises(GraphError, match=r"00000\.parquet is damaged, or not Parquet"):
        load_rows(table, made, sample=True)
    with pytest.raises(FileError, match=r"no \.parquet file"):
        load_rows(tmp_path / "server", made)
    with pytest.raises(SettingError, match="reads edges"):
        load_rows(table, job(method="pace"))
    with pytest.raises(FileExistsError):
        write_rows(table, site, made)


def test_rows_that_changed_are_not_those_of_the_fit(tmp_path: Path) -> None:
    made = job(method="pace-ridge", minimum=1)
    north, *_ = write_sites(tmp_path, made)
    table = north / "mine.rows"
    write_rows(table, load_site(north / "mine.graph", made), made)
    files = north / "mine.local", tmp_path / "north.up"
    fit_files(made, load_rows(table, made), *files)
    edited(table, lambda t: t.slice(1))
    with pytest.raises(FileError, match="another graph"):
        fit_files(made, load_rows(table, made), *files)


def test_a_sample_is_drawn_from_all_rows_by_a_fixed_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = job(method="pace-ridge", minimum=1)
    north, *_ = write_sites(tmp_path, made)
    table = north / "mine.rows"
    write_rows(table, load_site(north / "mine.graph", made), made)
    whole = load_rows(table, made, sample=True).graph
    monkeypatch.setattr(rows, "SAMPLE", 9)
    one, other = (load_rows(table, made, sample=True).graph for _ in range(2))
    assert torch.equal(one.maps["hop0"], other.maps["hop0"])  # type: ignore[attr-defined]
    assert [int(getattr(one, mask).sum()) for mask in ("train", "val", "test")] == [9, 9, 9]
    assert torch.equal(one.training_counts(0), whole.training_counts(0))
    # Not the first of a split: a table that is sorted would show one kind of node only.
    written = parquet.read_table(table).to_pydict()
    pairs = zip(written["hop0"], written["split"], strict=True)
    first = torch.tensor([row for row, split in pairs if split == "train"][:9])
    assert not torch.equal(one.maps["hop0"][one.train], first)  # type: ignore[attr-defined]


def test_rows_in_several_files_keep_their_ids_and_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = job(method="pace-ridge", minimum=1)
    north, *_ = write_sites(tmp_path, made)
    site = load_site(north / "mine.graph", made)
    write_rows(tmp_path / "whole", site, made)
    monkeypatch.setattr(rows, "PART", 17)
    assert write_rows(tmp_path / "parts", site, made)[1] == -(-site.graph.nodes // 17)
    one, other = (parquet.read_table(tmp_path / name).to_pydict() for name in ("whole", "parts"))
    for name in ("hop0", "hop2"):
        torch.testing.assert_close(torch.tensor(one.pop(name)), torch.tensor(other.pop(name)))
    assert one == other


@pytest.mark.parametrize("count", [40_000])
def test_memory_is_that_of_a_block(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that would take 80 MiB are summed in less than a third of it."""
    monkeypatch.undo()
    made = job(method="pace-ridge", minimum=1)
    table, width = tmp_path / "large.rows", made.model.features
    table.mkdir()
    random = torch.Generator().manual_seed(0)
    for part in range(4):
        hops = {
            hop: pyarrow.FixedSizeListArray.from_arrays(
                pyarrow.array(torch.rand(count * width, generator=random).numpy()), width
            )
            for hop in ("hop0", "hop2")
        }
        about = {"id": list(range(count)), "split": ["train"] * count, "label": ["red"] * count}
        parquet.write_table(
            pyarrow.table({**about, **hops}), table / f"{part}.parquet", row_group_size=8192
        )
    held = 4 * count * 2 * width * 4
    site = load_rows(table, made)
    steps.fit(site.graph, made.federation)  # imports and buffers
    site = load_rows(table, made)
    grown = peak(lambda: steps.fit(site.graph, made.federation))
    assert grown < max(held / 3, 20 * MIB)
