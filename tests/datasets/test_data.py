"""Datasets by name, and .graph files."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file

from pace.datasets import Dataset, Names, file, load
from pace.datasets.benchmarks import cache_folder, data_root, writable
from pace.datasets.synthetic import Synthetic, synthetic
from pace.errors import GraphError, SettingError
from pace.registry import DATASETS

PARTS = ("x", "edges", "y", "train", "val", "test")


def dataset(seed: int = 0, features: int = 30) -> Dataset:
    graph = synthetic(Synthetic(nodes=40, classes=3, features=features, communities=4, seed=seed))
    return Dataset("small", graph, 3)


def same(one: Dataset, two: Dataset) -> bool:
    return all(torch.equal(getattr(one.graph, part), getattr(two.graph, part)) for part in PARTS)


@settings(max_examples=20)
@given(st.integers(0, 1000), st.sampled_from([2, 30, 400]))
def test_a_dataset_survives_its_file(
    tmp_path_factory: pytest.TempPathFactory, seed: int, features: int
) -> None:
    path = tmp_path_factory.mktemp("file") / "a.graph"
    made = dataset(seed, features)
    file.write_graph(path, made)
    read = file.read_graph(path)
    assert same(made, read)
    assert (read.name, read.classes, read.ratios) == ("small", 3, (0.2, 0.4, 0.4))
    assert read.directed is None
    assert read.owner is None
    assert not read.has_split


def test_names_clients_masks_and_directions_survive_too(tmp_path: Path) -> None:
    made = dataset()
    thirds = torch.arange(40) % 3
    masks: dict[str, Any] = {
        mask: thirds == number for number, mask in enumerate(("train", "val", "test"))
    }
    made = dataclasses.replace(
        made,
        graph=dataclasses.replace(made.graph, **masks),
        directed=made.graph.edges[:, ::2],
        owner=torch.arange(40) // 20,
        names=Names(("a", "b", "ü"), (), ("x", "y"), tuple(f"n{node}" for node in range(40))),
    )
    file.write_graph(tmp_path / "a.graph", made)
    read = file.read_graph(tmp_path / "a.graph")
    assert same(made, dataclasses.replace(read, graph=made.graph))
    assert all(torch.equal(getattr(read.graph, mask), masks[mask]) for mask in masks)
    assert torch.equal(read.stored, made.graph.edges[:, ::2])
    assert read.owner is not None
    assert read.owner.tolist() == [0] * 20 + [1] * 20
    assert read.names == made.names


def test_words_that_are_mostly_zero_take_little_room(tmp_path: Path) -> None:
    made = dataset(features=4000)
    file.write_graph(tmp_path / "a.graph", made)
    assert (tmp_path / "a.graph").stat().st_size < made.graph.x.numel() * 4 / 20


def test_damaged_files_are_refused_in_a_sentence(tmp_path: Path) -> None:
    good = tmp_path / "good.graph"
    file.write_graph(good, dataset(features=400))
    content = good.read_bytes()
    for name, bad in [
        ("cut", content[: len(content) // 2]),
        ("text", b"id,label\n1,2\n"),
        ("empty", b""),
        ("names", content.replace(b'\\"classes\\": 3', b'\\"classes\\": 1')),
        ("format", content.replace(b"pace-graph-1", b"pace-graph-9")),
        ("index", content.replace(b"x.indptr", b"x.indexx")),
    ]:
        path = tmp_path / f"{name}.graph"
        path.write_bytes(bad)
        with pytest.raises(GraphError):
            file.read_graph(path)
    save_file({"x": torch.zeros(2)}, tmp_path / "other.graph")
    with pytest.raises(GraphError, match="expected 'pace-graph-1'"):
        file.read_graph(tmp_path / "other.graph")
    with pytest.raises(GraphError, match="pace graph import"):
        load(str(tmp_path / "nowhere.graph"))


@pytest.mark.parametrize("index", [-1, 400])
def test_a_feature_that_the_file_has_not_is_written_nowhere(tmp_path: Path, index: int) -> None:
    """One beyond the last would lie in the next node's row."""
    path = tmp_path / "a.graph"
    file.write_graph(path, dataset(features=400))
    with safe_open(path, framework="pt") as opened:
        names = opened.keys()
        about, tensors = opened.metadata(), {name: opened.get_tensor(name) for name in names}
    tensors["x.indices"][0] = index
    save_file(tensors, path, about)
    with pytest.raises(GraphError, match=r"a\.graph is not a \.graph file"):
        file.read_graph(path)


def test_a_file_is_a_dataset_by_its_path(tmp_path: Path) -> None:
    file.write_graph(tmp_path / "mine.graph", dataset())
    loaded = load(str(tmp_path / "mine.graph"))
    assert loaded.name == "mine"
    assert same(loaded, dataset())


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(SettingError, match="did you mean 'cora'") as caught:
        load("corra")
    assert all(name in str(caught.value) for name in DATASETS)


def test_the_root_is_the_given_one_else_the_environments_else_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PACE_DATA", raising=False)
    assert data_root() == tmp_path / "cache" / "pace" == cache_folder()
    monkeypatch.setenv("PACE_DATA", str(tmp_path))
    assert data_root() == tmp_path
    (tmp_path / "given").mkdir()
    assert data_root(tmp_path / "given") == tmp_path / "given"
    with pytest.raises(SettingError, match=r"root is .*not a folder"):
        data_root(tmp_path / "nowhere")


def test_a_folder_without_write_permission_is_not_written_to(tmp_path: Path) -> None:
    assert writable(tmp_path / "to" / "be")
    tmp_path.chmod(0o555)
    try:
        assert not writable(tmp_path)
    finally:
        tmp_path.chmod(0o755)
