"""A graph in a folder, read in blocks: the same upload, model and predictions as in memory."""

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from pace.cli import app
from pace.datasets import folder as folder_files
from pace.datasets import read_folder, read_graph
from pace.errors import GraphError, SettingError
from pace.graph import MASKS, Graph
from pace.io import atomic
from pace.models import APPNP, GCN, Excerpt, mapped, sized
from pace.protocol import steps
from pace.runtimes.files import load_any, load_site, mapped_sites, read_model, rows
from pace.runtimes.files.client import adopt_files, fit_files
from pace.tables import Codebook, write_columns
from pace.tables import table as table_files
from pace.tables.codebook import Column
from tests.graphs import CLASSES, FEATURES
from tests.sites import NAMES, WORDS, job, roll, write_sites

pyarrow = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

MEMORY = "0.00025"  # GB
EXACT = {"numbers": "float32"}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a small graph has several blocks of everything."""
    monkeypatch.setattr(rows, "MAPPED", 16)
    monkeypatch.setattr(mapped, "READ", 37)
    monkeypatch.setattr(mapped, "EDGES", 50)
    monkeypatch.setattr(table_files, "STREAMED", 30)
    monkeypatch.setattr(folder_files, "WIDEST", 7)
    monkeypatch.setattr(folder_files, "RANGES", 4)


def pace(*words: object) -> Any:
    done = CliRunner().invoke(app, [*map(str, words), "--json"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def tables(graph: Graph, folder: Path, *, ids: str = "node {}", weights: bool = False) -> list[str]:
    """The graph's tables as files, and the options that name their columns."""
    folder.mkdir(exist_ok=True)
    number = np.arange(graph.nodes)[::-1]  # ids are not row numbers
    nodes: dict[str, Any] = {"who": [ids.format(i) for i in number]}
    nodes |= dict(zip(WORDS.features, graph.x.T.numpy(), strict=True))
    nodes["kind"] = [WORDS.classes[label] for label in graph.y.tolist()]
    nodes["fold"] = [(*MASKS, "")[place] for place in graph.split.tolist()]
    parquet.write_table(pyarrow.table(nodes), folder / "nodes.parquet")
    forth = graph.edges[0] < graph.edges[1]  # once each, and one twice
    source, target = torch.cat([graph.edges[:, forth], graph.edges[:, :1]], 1)
    edges: dict[str, Any] = {
        "source": [nodes["who"][i] for i in source.tolist()],
        "target": [nodes["who"][i] for i in target.tolist()],
    }
    options = ["--label", "kind", "--id", "who", "--split", "fold"]
    if weights:
        edges["much"] = np.linspace(0.5, 2, len(source))
        options += ["--weight", "much"]
    parquet.write_table(pyarrow.table(edges), folder / "edges.parquet")
    options += ["--classes", ",".join(WORDS.classes)]
    return [*options, "--nodes", folder / "nodes.parquet", "--edges", folder / "edges.parquet"]  # type: ignore[list-item]


def imported(folder: Path, **settings: Any) -> tuple[Path, Path]:
    """A site's tables as a file, and as a folder."""
    graph = load_site(folder / "mine.graph", job()).graph
    options = tables(graph, folder / "tables", **settings)
    file, mapped_folder = folder / "file.graph", folder / "large.graph"
    pace("graph", "import", *options, "--out", file)
    told = pace("graph", "import", *options, "--memory", MEMORY, "--out", mapped_folder)
    assert told["nodes"] == graph.nodes
    assert told["edges"] == graph.edges.shape[1] // 2
    return file, mapped_folder


@pytest.mark.parametrize("method", ["pace", "pace-ridge", "pace-full", "pace-ridge-sums"])
@pytest.mark.parametrize("weights", [False, True])
def test_a_folder_gives_what_the_file_gives(method: str, weights: bool, tmp_path: Path) -> None:
    made = job(method=method, participants=NAMES, minimum=1, **EXACT)
    north, *_ = write_sites(tmp_path, made)
    file, folder = imported(north, weights=weights)
    assert len(list((folder / "x").iterdir())) > 1
    uploads, outcomes, logits = [], [], []
    for name, path in (("a", file), ("b", folder)):
        (home := tmp_path / name).mkdir()
        site = load_any(path, made)
        files = home / "mine.local", home / "north.up"
        record = fit_files(made, site, *files)
        assert record is not None
        frame = files[1].read_bytes()
        uploads.append(steps.check_upload(frame, made.federation))
        (returned,) = steps.merge([frame], made.federation)
        outcomes.append(
            adopt_files(
                made,
                load_any(path, made),
                files[0],
                home / "mine.model",
                returned=returned,
                roll=roll(made, "north", frame, returned),
            )
        )
        model = read_model(home / "mine.model")
        blocks = [site] if name == "a" else mapped_sites(path, made)
        logits.append(torch.cat([model(block.graph).logits for block in blocks]))
    for name, value in uploads[0].items():
        torch.testing.assert_close(uploads[1][name], value, atol=2e-6, rtol=1e-5)
    assert outcomes[0].weights == pytest.approx(outcomes[1].weights, abs=1e-4)
    assert outcomes[0].test.adopted.confusion == outcomes[1].test.adopted.confusion
    torch.testing.assert_close(logits[0], logits[1], atol=1e-3, rtol=1e-3)


def contents(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


class Killed(BaseException):
    pass


def killed_at(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, count: int) -> None:
    """Let the call of this number end the process, as far as a test can."""
    calls, real = iter(range(count)), getattr(owner, name)

    def call(*arguments: Any, **options: Any) -> Any:
        if next(calls, None) is None:
            raise Killed
        return real(*arguments, **options)

    monkeypatch.setattr(owner, name, call)


# Where an import can be: among nodes, among edges, between ranges that are sorted, at the end.
PLACES = [
    (folder_files, "_write_nodes", 0),
    (folder_files, "_scatter", 0),
    (folder_files, "coalesced", 0),
    (folder_files, "coalesced", 2),
    (folder_files, "_identity", 0),
    (os, "rename", 0),
]


@pytest.mark.parametrize(("owner", "name", "count"), PLACES)
def test_an_import_that_was_killed_goes_on(
    owner: Any, name: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = job(participants=NAMES, minimum=1)
    north, *_ = write_sites(tmp_path, made)
    _, folder = imported(north, weights=True)
    options = tables(load_site(north / "mine.graph", made).graph, north / "tables", weights=True)
    again = north / "again" / "large.graph"
    command = ("graph", "import", *options, "--memory", MEMORY, "--out", again)
    with monkeypatch.context() as limited:
        killed_at(limited, owner, name, count)
        with pytest.raises(Killed):
            pace(*command)
    assert not again.exists()
    pace(*command)
    assert contents(again) == contents(folder)
    assert [path.name for path in again.parent.iterdir()] == ["large.graph"]


def test_products_that_were_killed_go_on_behind_the_last_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = job(method="pace-ridge", participants=NAMES, minimum=1)
    north, *_ = write_sites(tmp_path, made)
    _, folder = imported(north)
    with monkeypatch.context() as limited:
        killed_at(limited, mapped.MappedOperator, "spread", 6)
        with pytest.raises(Killed):
            load_any(folder, made)
    begun = {path.name: path.read_bytes() for path in (folder / "made" / "hop2.part").iterdir()}
    assert len(begun) == 2  # two products each, after one for the degrees
    spread, calls = mapped.MappedOperator.spread, list[int]()

    def counted(*given: Any) -> Any:
        calls.append(1)
        return spread(*given)

    monkeypatch.setattr(mapped.MappedOperator, "spread", counted)
    load_any(folder, made)
    complete = {path.name: path.read_bytes() for path in (folder / "made" / "hop2").iterdir()}
    assert len(calls) == 1 + 2 * (len(complete) - 2)
    assert begun.items() <= complete.items()
    assert complete.keys() == {str(n) for n in range(len(list((folder / "x").iterdir())))}


def test_a_fit_is_the_same_after_it_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = job(method="pace", participants=NAMES, minimum=1)
    north, *_ = write_sites(tmp_path, made)
    _, folder = imported(north)

    def fit(home: str) -> bytes:
        (tmp_path / home).mkdir(exist_ok=True)
        names = ("mine.local", "north.up")
        fit_files(made, load_any(folder, made), *(tmp_path / home / name for name in names))
        return (tmp_path / home / "north.up").read_bytes()

    with monkeypatch.context() as limited:
        killed_at(limited, atomic, "create", 1)  # Local is kept, the upload is not written
        with pytest.raises(Killed):
            fit("a")
    assert fit("a") == fit("b")


@pytest.mark.parametrize("method", ["pace", "pace-full"])
def test_every_command_that_was_killed_goes_on_and_ends_with_the_same_files(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the first, second and later times that a command makes something durable."""
    made = job(method=method, minimum=1)
    north, *_ = write_sites(tmp_path, made)
    _, folder = imported(north)
    found = []
    for name, kills in (("whole", ()), ("killed", (0, 1, 3, 7))):
        (home := tmp_path / name).mkdir()
        graph, model, outbox = home / "large.graph", home / "mine.model", home / "outbox"
        shutil.copytree(folder, graph)
        here, kept, upload = north / "job.pace", home / "mine.local", home / "in" / "north.up"
        adopt = ("--kept", kept, "--return", outbox / "north.down", "--out", model)
        answers = ("--out", home / "answers.parquet", "--replace")
        commands: dict[tuple[object, ...], Path] = {
            ("client", "fit", here, graph, "--keep", kept, "--upload", upload, "--yes"): upload,
            ("server", "merge", here, upload.parent, "--out", outbox): outbox / "north.down",
            ("client", "adopt", here, graph, *adopt): model,
            ("client", "predict", model, graph, *answers): home / "answers.parquet",
        }
        for command, result in commands.items():
            for count in kills:
                with monkeypatch.context() as limited, suppress(Killed):
                    killed_at(limited, os, "fsync", count)
                    if not result.exists():
                        pace(*command)
            if not result.exists():
                pace(*command)
        answered = parquet.read_table(home / "answers.parquet")
        found.append((contents(graph / "made"), upload.read_bytes(), answered))
        assert not [path for path in home.rglob("*") if path.name.endswith(atomic.PART)]
    assert found[0] == found[1]


def test_csv_streams_too(tmp_path: Path) -> None:
    made = job(participants=NAMES, minimum=1)
    north, *_ = write_sites(tmp_path, made)
    _, folder = imported(north)
    options = tables(load_site(north / "mine.graph", made).graph, north / "tables")
    from pyarrow import csv

    for name in ("nodes", "edges"):
        path = north / "tables" / f"{name}.parquet"
        csv.write_csv(parquet.read_table(path), path.with_suffix(".csv"))
    words = [str(word).replace(".parquet", ".csv") for word in options]
    pace("graph", "import", *words, "--memory", MEMORY, "--out", north / "csv.graph")
    ours, theirs = contents(north / "csv.graph"), contents(folder)
    assert {name for name in theirs if ours[name] != theirs[name]} <= {"graph.json"}


def test_directions_are_kept(tmp_path: Path) -> None:
    """Without dropout, whose draws are of the edges in another order."""
    made = job(
        participants=NAMES, minimum=1, model=GCN((FEATURES, 16, CLASSES), dropout=0.0), **EXACT
    )
    north, *_ = write_sites(tmp_path, made)
    graph = load_site(north / "mine.graph", made).graph
    options = [*tables(graph, north / "tables"), "--directions", "keep"]
    uploads = []
    for name, more in (("file.graph", ()), ("large.graph", ("--memory", MEMORY))):
        pace("graph", "import", *options, *more, "--out", north / name)
        (home := north / f"{name}.home").mkdir()
        files = home / "mine.local", home / "north.up"
        fit_files(made, load_any(north / name, made), *files)
        uploads.append(steps.check_upload(files[1].read_bytes(), made.federation))
    for name, value in uploads[0].items():
        torch.testing.assert_close(uploads[1][name], value, atol=2e-6, rtol=1e-5)


def test_a_sample_is_as_large_as_memory_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = job(method="pace", participants=NAMES, minimum=1)
    north, *_ = write_sites(tmp_path, made)
    _, folder = imported(north)
    whole = load_any(folder, made).graph
    monkeypatch.setattr(rows, "SAMPLE", 9)
    some = load_any(folder, made).graph
    assert [int(getattr(some, mask).sum()) for mask in MASKS] == [9, 9, 9]
    assert torch.equal(some.training_counts(0), whole.training_counts(0))
    assert isinstance(some, Excerpt)
    assert isinstance(whole, Excerpt)
    # What a network says of a node does not depend on which others were asked about.
    params = made.federation.start
    every, few = (made.model(params, graph).logits for graph in (whole, some))
    places = torch.searchsorted(whole.places, some.places)
    torch.testing.assert_close(few, every[places])


WRONG = [
    (["--decimal", "comma"], SettingError, "--decimal does not go with --memory"),
    (["--split", "60/20/20"], SettingError, "column 'fold' holds no numbers"),
    (["--memory", "0.00001"], SettingError, "at least 0.0 GB whatever is streamed"),
]


@pytest.mark.parametrize(("more", "kind", "words"), WRONG)
def test_what_cannot_be_streamed_is_said(
    more: list[str], kind: type[Exception], words: str, tmp_path: Path
) -> None:
    north, *_ = write_sites(tmp_path, job())
    options = tables(load_site(north / "mine.graph", job()).graph, north / "tables")
    with pytest.raises(kind, match=words):
        pace("graph", "import", *options, "--memory", MEMORY, *more, "--out", north / "x.graph")


def test_tables_that_cannot_be_streamed_as_they_are(tmp_path: Path) -> None:
    nodes, edges = tmp_path / "nodes.csv", tmp_path / "edges.csv"
    asked = ("--nodes", nodes, "--edges", edges, "--memory", MEMORY, "--out", tmp_path / "x.graph")
    edges.write_text("source,target\n1,2\n")
    nodes.write_text("id,age\n")
    with pytest.raises(GraphError, match="no rows below its header"):
        pace("graph", "import", *asked)
    nodes.write_text('"the\nid",age\n1,70\n2,60\n')
    with pytest.raises(GraphError, match="cannot be read in blocks"):
        pace("graph", "import", *asked, "--id", "the id")


def test_wrong_rows_are_said_and_nothing_is_written(tmp_path: Path) -> None:
    north, *_ = write_sites(tmp_path, job())
    graph = load_site(north / "mine.graph", job()).graph
    home = north / "tables"

    def refused(name: str, column: str, value: Any, words: str, *more: str) -> None:
        options = tables(graph, home)
        table = parquet.read_table(home / f"{name}.parquet")
        values = table.column(column).to_pylist()
        values[45] = value
        place = table.column_names.index(column)
        changed = table.set_column(place, column, pyarrow.array(values))
        parquet.write_table(changed, home / f"{name}.parquet")
        out = north / "wrong.graph"
        with pytest.raises(Exception, match=words):
            pace("graph", "import", *options, *more, "--memory", MEMORY, "--out", out)
        assert not out.exists()

    refused("nodes", "who", "node 3", "the id 'node 3' stands in two rows")
    refused("nodes", "who", None, "an id .* is empty")
    refused("nodes", "kind", "mauve", "row 46: label 'mauve' is not among the given classes")
    refused("nodes", "fold", "dev", "expected train, val, test")
    refused("nodes", "f0", float("nan"), "'f0'")
    refused("edges", "source", "nobody", "'nobody' to .* leads to a node that is not in the table")


def test_rows_without_a_split_may_follow_each_other_but_not_fill_the_table(tmp_path: Path) -> None:
    """A block of the stream need not have training nodes."""
    north, *_ = write_sites(tmp_path, job())
    graph = load_site(north / "mine.graph", job()).graph
    for number, labelled in enumerate((graph.nodes // 2, 0)):
        options = tables(graph, north / "tables")
        path = north / "tables" / "nodes.parquet"
        table = parquet.read_table(path)
        fold = ["" if row >= labelled else "train" for row in range(graph.nodes)]
        place = table.column_names.index("fold")
        parquet.write_table(table.set_column(place, "fold", pyarrow.array(fold)), path)
        command = ("graph", "import", *options, "--memory", MEMORY, "--out")
        if labelled:
            pace(*command, north / f"{number}.graph")
            assert read_folder(north / f"{number}.graph")[0].graph.train.sum() == labelled
        else:
            with pytest.raises(GraphError, match="'fold' is empty in every row"):
                pace(*command, north / f"{number}.graph")


@pytest.mark.parametrize("large", [10**15, 5])
@pytest.mark.parametrize("least", [-7, 0])
@pytest.mark.parametrize("kind", [str, int])
def test_ids_that_are_numbers_in_one_table_and_words_in_the_other_meet(
    kind: type, least: int, large: int, tmp_path: Path
) -> None:
    """In neither order, far apart, below zero, or close together."""
    ids = [least, large, 3, 12]
    nodes = {"id": ids, "f0": [0.0, 1.0, 2.0, 3.0]}
    ends = [kind(name) for name in (3, least, 12)], [kind(name) for name in (large, 3, least)]
    strange = [None, kind(14), kind(-3), kind(10**17)]
    edges = {"source": [*ends[0], *strange], "target": [*ends[1], *[kind(3)] * len(strange)]}
    for name, table in (("nodes", nodes), ("edges", edges)):
        parquet.write_table(pyarrow.table(table), tmp_path / f"{name}.parquet")
    options = ("--nodes", tmp_path / "nodes.parquet", "--edges", tmp_path / "edges.parquet")
    out = tmp_path / "large.graph"
    command = ("graph", "import", *options, "--memory", MEMORY, "--out", out, "--strangers")
    with pytest.raises(GraphError, match="the edge None to"):
        pace(*command, "refuse")
    told = pace(*command, "drop")
    assert told["notes"] == ["dropped: edges to nodes that are not in the table, 4"]
    found, _ = read_folder(out)
    assert isinstance(found.graph, mapped.MappedGraph)
    assert found.graph.around(0, 4)[0].tolist() == [2, 3, 2, 0, 1, 0]


def test_networks_that_read_a_whole_graph_are_refused(tmp_path: Path) -> None:
    north, *_ = write_sites(tmp_path, job())
    _, folder = imported(north)
    with pytest.raises(SettingError, match="reads a graph as a whole"):
        load_any(folder, job(model=APPNP((FEATURES, 16, CLASSES))))
    with pytest.raises(GraphError, match="is a folder"):
        load_site(folder, job())
    (folder / "neighbours").write_bytes(b"")
    with pytest.raises(GraphError, match="import the graph again"):
        load_any(folder, job())


def test_all_commands_take_a_folder(tmp_path: Path) -> None:
    made = job(method="pace-full", minimum=1)
    north, *_ = write_sites(tmp_path, made)
    _, folder = imported(north)
    here = north / "job.pace"
    inbox, outbox = tmp_path / "server" / "inbox", tmp_path / "outbox"
    files = ("--keep", north / "mine.local", "--upload", inbox / "north.up", "--yes")
    assert not pace("client", "fit", here, folder, *files)["again"]
    assert pace("client", "fit", here, folder, *files)["again"]
    pace("server", "merge", here, inbox, "--out", outbox)
    adopt = ("--kept", north / "mine.local", "--return", outbox / "north.down")
    found = pace("client", "adopt", here, folder, *adopt, "--out", north / "mine.model")
    out = north / "predictions.parquet"
    told = pace("client", "predict", north / "mine.model", folder, "--out", out)
    answers = parquet.read_table(out).to_pandas()
    assert told["nodes"] == len(answers)
    assert sorted(answers["node"]) == sorted(f"node {i}" for i in range(len(answers)))
    tested = answers[answers["split"] == "test"]
    right = (tested["class"] == tested["label"]).mean()
    assert right == pytest.approx(found["test"]["adopted"]["accuracy"])
    assert not list((folder / "made").glob("logits*"))  # 40 classes of many nodes are gigabytes
    assert list((folder / "made").glob("hop2/*"))
    scored = pace("client", "evaluate", north / "mine.model", folder)
    assert scored["adopted"]["accuracy"] == pytest.approx(right)


@pytest.mark.parametrize("model", ["gcn", "sage", "gin:epsilon=0.2", "mlp"])
@pytest.mark.parametrize("layers", [2, 3])
def test_every_network_says_of_a_folder_what_it_says_of_the_file(
    model: str, layers: int, tmp_path: Path
) -> None:
    made = job(model=sized(model, FEATURES, 8, layers, CLASSES))
    north, *_ = write_sites(tmp_path, made)
    file, folder = imported(north)
    params, graph = made.federation.start, load_site(file, made).graph
    expected = made.model(params, graph)
    sample = load_any(folder, made).graph
    assert isinstance(sample, Excerpt)
    seen = made.model(params, sample)
    torch.testing.assert_close(seen.logits, expected.logits[sample.places], atol=1e-5, rtol=1e-5)
    for name, inputs in expected.inputs.items():
        rows_of_sample = torch.arange(sample.nodes)
        torch.testing.assert_close(
            seen.inputs[name][rows_of_sample], inputs[sample.places], atol=1e-5, rtol=1e-5
        )
    streamed = [made.model(params, site.graph).logits for site in mapped_sites(folder, made)]
    torch.testing.assert_close(torch.cat(streamed), expected.logits, atol=1e-5, rtol=1e-5)


def test_a_codebook_streams_to_the_same_features(tmp_path: Path) -> None:
    """Words, dates, gaps and other scales, with ids that are numbers far apart."""
    random = np.random.default_rng(0)
    count = 100
    place = random.choice(["town", "village", "farm"], count)
    nodes = {
        "id": (random.permutation(count) * 1000).tolist(),
        "age": [None if number % 9 == 0 else float(number) for number in range(count)],
        "place": place.tolist(),
        "since": [f"2020-01-{1 + number % 28:02}" for number in range(count)],
        "kind": [("ill", "well", "")[number % 3] for number in range(count)],
    }
    ends = random.choice(nodes["id"], (2, 300))
    edges = {"source": ends[0].tolist(), "target": ends[1].tolist()}
    for name, table in (("nodes", nodes), ("edges", edges)):
        parquet.write_table(pyarrow.table(table), tmp_path / f"{name}.parquet")
    book = Codebook(
        "kind",
        ("ill", "well"),
        columns=(
            Column("age", "number", centre=50.0, scale=20.0, fill=40.0, indicator=True),
            Column("place", "category", values=("town", "village"), other=True),
            Column("since", "date", centre=7300.0, scale=10.0),
        ),
    )
    write_columns(tmp_path / "book.toml", book)
    options: tuple[object, ...] = ("--job", tmp_path / "book.toml")
    options += ("--nodes", tmp_path / "nodes.parquet")
    options += ("--edges", tmp_path / "edges.parquet", "--out")
    pace("graph", "import", *options, tmp_path / "file.graph")
    pace("graph", "import", *options, tmp_path / "large.graph", "--memory", MEMORY)
    expected, (found, _) = (
        read_graph(tmp_path / "file.graph"),
        read_folder(tmp_path / "large.graph"),
    )
    assert isinstance(found.graph, mapped.MappedGraph)
    everyone = torch.arange(count)
    assert torch.equal(found.graph.stored[everyone], expected.graph.x)
    assert torch.equal(found.graph.y, expected.graph.y)
    assert found.names.features == expected.names.features
    ours = np.concatenate(list(found.graph.edge_blocks()))
    assert np.array_equal(ours, expected.graph.edges.flatten().numpy())
