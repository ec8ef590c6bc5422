"""The benchmarks: OGB's layout and downloads with small files, the real ones from PACE_DATA."""

import dataclasses
import gzip
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from pace.datasets import Dataset, benchmarks, load
from pace.datasets.benchmarks import BENCHMARKS, process
from pace.datasets.partition import divide
from pace.errors import GraphError, SettingError
from pace.graph import coalesced

real = pytest.mark.skipif(
    "PACE_DATA" not in os.environ, reason="PACE_DATA does not name a folder with the benchmarks"
)

X = np.array([[0.5, -1.0], [2.0, 0.25], [0.0, 1.5], [3.0, 3.0], [1.0, 0.0], [0.0, 0.0]])
EDGES = [(0, 1), (1, 0), (2, 1), (3, 4), (5, 5)]  # one in both directions, one loop
LABELS = [0, 1, 2, 0, 1, 2]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "pace"


@pytest.fixture
def arxiv(tmp_path: Path) -> Path:
    """A data root with a small graph in OGB's on-disk layout."""
    folder = tmp_path / "root" / "ogbn_arxiv" / "raw"
    folder.mkdir(parents=True)
    write_csv(folder / "edge.csv.gz", EDGES)
    write_csv(folder / "node-feat.csv.gz", X)
    write_csv(folder / "node-label.csv.gz", [(label,) for label in LABELS])
    write_csv(folder / "num-node-list.csv.gz", [(len(X),)])
    write_csv(folder / "num-edge-list.csv.gz", [(len(EDGES),)])
    return tmp_path / "root"


def write_csv(path: Path, rows: object) -> None:
    with gzip.open(path, "wt") as opened:
        np.savetxt(opened, np.asarray(rows), delimiter=",", fmt="%g")


def same(one: Dataset, two: Dataset) -> bool:
    parts = ("x", "edges", "y")
    return (one.classes, one.ratios, one.title) == (two.classes, two.ratios, two.title) and all(
        torch.equal(getattr(one.graph, part), getattr(two.graph, part)) for part in parts
    )


def test_ogb_labels_are_squeezed_and_directions_are_remembered(arxiv: Path) -> None:
    loaded = load("ogbn-arxiv", arxiv)
    assert loaded.stored.t().tolist() == [list(edge) for edge in EDGES]
    assert torch.equal(loaded.graph.edges, coalesced(torch.tensor(EDGES).t(), len(X))[0])
    assert loaded.graph.y.tolist() == LABELS
    assert loaded.graph.x.tolist() == X.tolist()
    assert loaded.classes == 3
    assert loaded.ratios == (0.6, 0.2, 0.2)
    (whole,) = divide(loaded, "louvain", 1)
    assert whole.edges.shape[1] == 6


def test_the_second_load_comes_from_the_cache_and_is_the_same(
    arxiv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load("ogbn-arxiv", arxiv)
    monkeypatch.setattr(benchmarks, "process", None)  # would fail if it were called
    again = load("ogbn-arxiv", arxiv)
    assert same(first, again)
    assert torch.equal(first.stored, again.stored)


def test_a_changed_raw_file_is_noticed(arxiv: Path) -> None:
    load("ogbn-arxiv", arxiv)
    write_csv(arxiv / "ogbn_arxiv" / "raw" / "node-label.csv.gz", [(1,)] * len(X))
    assert load("ogbn-arxiv", arxiv).graph.y.tolist() == [1] * len(X)


def test_a_damaged_cache_is_made_again(arxiv: Path, own_cache: Path) -> None:
    first = load("ogbn-arxiv", arxiv)
    (kept,) = (own_cache / "datasets").iterdir()
    kept.write_bytes(b"")
    assert same(first, load("ogbn-arxiv", arxiv))
    assert kept.stat().st_size > 0


def test_a_read_only_root_stays_as_it_is(arxiv: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in arxiv.rglob("*")}
    for folder in (arxiv, *filter(Path.is_dir, before)):
        folder.chmod(0o555)
    try:
        load("ogbn-arxiv", arxiv)
        assert {path: path.stat().st_mtime_ns for path in arxiv.rglob("*")} == before
    finally:
        for folder in (arxiv, *filter(Path.is_dir, before)):
            folder.chmod(0o755)


def test_without_a_cache_a_benchmark_still_loads(
    arxiv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (arxiv / "a file").write_text("no folder can be made in a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(arxiv / "a file"))
    assert load("ogbn-arxiv", arxiv).graph.nodes == len(X)


@pytest.mark.parametrize("name", ["node-feat.csv.gz", "node-label.csv.gz"])
def test_damaged_raw_files_are_named(arxiv: Path, name: str) -> None:
    write_csv(arxiv / "ogbn_arxiv" / "raw" / name, [(1,), (2,)])
    with pytest.raises(GraphError, match=name):
        load("ogbn-arxiv", arxiv)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_offline_the_expected_files_and_their_folder_are_told(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(known: object, each: str) -> bytes:
        raise OSError("no network")

    monkeypatch.setattr(benchmarks, "fetch", offline)
    with pytest.raises(SettingError) as caught:
        load(name, tmp_path)
    known = BENCHMARKS[name]
    assert all(each in str(caught.value) for each in known.files)
    assert str(tmp_path / known.home) in str(caught.value)
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


@pytest.mark.parametrize("read_only", [False, True])
def test_a_download_goes_into_the_root_or_beside_a_read_only_one(
    read_only: bool, tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmarks, "fetch", lambda known, each: each.encode())
    root = tmp_path / "root"
    root.mkdir()
    root.chmod(0o555 if read_only else 0o755)
    known = BENCHMARKS["cora"]
    try:
        folder = benchmarks.download(known, root)
    finally:
        root.chmod(0o755)
    assert folder == (own_cache if read_only else root) / "Planetoid" / "Cora" / "raw"
    assert benchmarks.locate(known, root) == folder
    assert (folder / "ind.cora.x").read_bytes() == b"ind.cora.x"


@real
@pytest.mark.parametrize(
    ("name", "nodes", "edges", "features", "classes"),
    [
        ("cora", 2708, 10556, 1433, 7),
        ("citeseer", 3327, 9104, 3703, 6),
        ("pubmed", 19717, 88648, 500, 3),
        ("cs", 18333, 163788, 6805, 15),
        ("computers", 13752, 491722, 767, 10),
        ("twitch", 36890, 985150, 3170, 2),
        ("minesweeper", 10000, 78804, 7, 2),
        ("tolokers", 11758, 1038000, 10, 2),
        ("actor", 7600, 53318, 932, 5),
        ("chameleon-filtered", 890, 17708, 2325, 5),
        ("squirrel-filtered", 2223, 93996, 2089, 5),
    ],
)
def test_the_benchmarks_have_their_published_sizes(
    name: str, nodes: int, edges: int, features: int, classes: int
) -> None:
    folder = benchmarks.locate(BENCHMARKS[name], Path(os.environ["PACE_DATA"]))
    if folder is None:
        pytest.skip(f"{name} is not in PACE_DATA")
    loaded = process(name, folder)
    assert loaded.graph.x.shape == (nodes, features)
    assert loaded.graph.edges.shape[1] == edges
    assert loaded.classes == classes
    assert not loaded.has_split
    values = torch.unique(loaded.graph.x[:100])
    assert name in ("pubmed", "tolokers") or values.tolist() == [0, 1]  # not normalised


def twitch_files(root: Path, *, nodes: int = 4) -> Path:
    """A data root with seven small countries in the layout of the published files."""
    for place, country in enumerate(BENCHMARKS["twitch"].clients):
        folder = root / "Twitch" / country / "raw"
        folder.mkdir(parents=True)
        (folder / f"musae_{country}_edges.csv").write_text("from,to\n0,1\n1,2\n")
        listed = {str(node): [node, 3169, 3169] for node in range(nodes - 1)}
        (folder / f"musae_{country}_features.json").write_text(json.dumps(listed))
        rows = [f"9{node},1,{node == place % nodes},7,False,{node}" for node in range(nodes)]
        head = "id,days,mature,views,partner,new_id"
        text = "\n".join([head, *reversed(rows), rows[0]]) + "\n"  # one of them twice
        (folder / f"musae_{country}_target.csv").write_text(text)
    return root


def test_twitch_is_one_site_a_country(tmp_path: Path) -> None:
    root = twitch_files(tmp_path / "root")
    for loaded in (load("twitch", root), load("twitch", root)):  # read, then from the cache
        assert loaded.graph.x.shape == (28, 3170)
        assert (loaded.classes, loaded.partition) == (2, "column")
        assert loaded.names.clients == BENCHMARKS["twitch"].clients
        graphs = divide(loaded, loaded.partition, 3)
        assert [graph.nodes for graph in graphs] == [4] * 7
        for place, graph in enumerate(graphs):
            assert graph.y.nonzero().flatten().tolist() == [place % 4]
            assert graph.edges.t().tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
            assert graph.x.nonzero().tolist() == [
                [0, 0], [0, 3169], [1, 1], [1, 3169], [2, 2], [2, 3169]
            ]  # fmt: skip


@pytest.mark.parametrize("train", [0.5, 0.6])
def test_more_nodes_train_and_the_same_ones_test(tmp_path: Path, train: float) -> None:
    """A share for training is taken from the validation nodes."""
    root = twitch_files(tmp_path / "root", nodes=40)
    usual = divide(load("twitch", root), "column", 7, 11)
    more = divide(load(f"twitch:train={train}", root), "column", 7, 11)
    for few, many in zip(usual, more, strict=True):
        assert many.test.equal(few.test)
        assert (few.train & ~many.train).sum() == 0
        assert (many.train | many.val).equal(few.train | few.val)
        # One of the 40 nodes is a class by itself, whose share is less than a node.
        assert int(many.train.sum()) == int(39 * train)


@pytest.mark.parametrize("train", ["0", "0.61", "-1"])
def test_a_share_that_would_train_on_test_nodes_is_refused(tmp_path: Path, train: str) -> None:
    root = twitch_files(tmp_path / "root")
    with pytest.raises(SettingError, match=r"above 0 and at most 0\.6$"):
        load(f"twitch:train={train}", root)


def test_twitch_with_a_gap_in_its_numbers_is_refused(tmp_path: Path) -> None:
    root = twitch_files(tmp_path / "root")
    target = root / "Twitch" / "ES" / "raw" / "musae_ES_target.csv"
    target.write_text(target.read_text().replace("False,2\n", "False,7\n"))
    with pytest.raises(GraphError, match=r"musae_ES_target.csv does not number nodes from 0"):
        load("twitch", root)


def test_a_heterophilous_graph_is_read_from_its_archive(tmp_path: Path) -> None:
    folder = tmp_path / "Heterophilous" / "squirrel_filtered" / "raw"
    folder.mkdir(parents=True)
    np.savez(
        folder / "squirrel_filtered.npz",
        node_features=X,
        node_labels=np.array(LABELS),
        edges=np.array(EDGES),
        train_masks=np.ones((10, len(X)), dtype=bool),
    )
    loaded = load("squirrel-filtered", tmp_path)
    assert torch.equal(loaded.graph.edges, coalesced(torch.tensor(EDGES).t(), len(X))[0])
    assert loaded.graph.x.tolist() == X.tolist()
    assert loaded.graph.y.tolist() == LABELS
    assert (loaded.classes, loaded.partition, loaded.has_split) == (3, "louvain", False)
    (tmp_path / "Heterophilous" / "actor" / "raw").mkdir(parents=True)
    (tmp_path / "Heterophilous" / "actor" / "raw" / "actor.npz").write_bytes(b"nothing")
    with pytest.raises(GraphError, match=r"actor.npz"):
        load("actor", tmp_path)


@real
def test_cora_is_what_pygs_planetoid_gives(tmp_path: Path) -> None:
    from torch_geometric.datasets import Planetoid

    folder = benchmarks.locate(BENCHMARKS["cora"], Path(os.environ["PACE_DATA"]))
    if folder is None:
        pytest.skip("cora is not in PACE_DATA")
    (tmp_path / "Cora" / "raw").mkdir(parents=True)
    for name in BENCHMARKS["cora"].files:
        shutil.copyfile(folder / name, tmp_path / "Cora" / "raw" / name)
    theirs = Planetoid(str(tmp_path), "Cora")[0]
    ours = load("cora")
    assert torch.equal(ours.graph.x, theirs.x)
    assert torch.equal(ours.graph.y, theirs.y)
    assert torch.equal(ours.graph.edges, coalesced(theirs.edge_index, theirs.num_nodes)[0])
    assert same(ours, dataclasses.replace(load("Cora"), name="again"))
