"""A graph in a folder, read in blocks: the same upload, model and predictions as in memory."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from pace.cli import app
from pace.graph import MASKS, Graph
from pace.models import mapped
from pace.protocol import steps
from pace.runtimes.files import load_any, load_site, mapped_sites, read_model, rows
from pace.runtimes.files.client import adopt_files, fit_files
from pace.tables import table as table_files
from tests.sites import NAMES, WORDS, job, roll, write_sites

pyarrow = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

MEMORY = "0.00025"  # GB: a few columns at a time, and several ranges of nodes
EXACT = {"numbers": "float32"}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a small graph has several blocks of everything."""
    monkeypatch.setattr(rows, "MAPPED", 16)
    monkeypatch.setattr(mapped, "READ", 37)
    monkeypatch.setattr(mapped, "EDGES", 50)
    monkeypatch.setattr(table_files, "STREAMED", 30)


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
        files = home / "mine.local", home / "north.up", home / "receipt.json"
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
    assert outcomes[0].trained_on == outcomes[1].trained_on
    assert outcomes[0].test.adopted.confusion == outcomes[1].test.adopted.confusion
    assert outcomes[0].sent.sentences == outcomes[1].sent.sentences
    torch.testing.assert_close(logits[0], logits[1], atol=1e-3, rtol=1e-3)
