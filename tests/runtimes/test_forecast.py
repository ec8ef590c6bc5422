"""What work will take is said before it begins, and what cannot fit is refused."""

import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from typer.testing import CliRunner

import pace
from pace.cli import app
from pace.datasets.file import graph_sizes, write_graph
from pace.errors import SettingError
from pace.graph import Graph
from pace.protocol import Federation
from pace.runtimes import forecast
from pace.runtimes.forecast import Forecast, forecast_fit, forecast_run, in_memory
from tests.sites import job, write_sites

MADE = pace.load("synthetic:nodes=300,features=40,communities=6,classes=4")


def federation(method: str, epochs: int = 100) -> Federation:
    return pace.agree(pace.divide(MADE, "dirichlet", clients=2), method, epochs=epochs)


def test_memory_and_time_grow_with_nodes_and_edges() -> None:
    sizes = [(10**power, 20 * 10**power) for power in range(6, 9)]
    points = [in_memory(nodes, entries, 128, federation("pace")) for nodes, entries in sizes]
    for smaller, larger in pairwise(points):
        assert larger.seconds == pytest.approx(10 * smaller.seconds)
        rest = forecast.LIBRARIES
        assert larger.memory - rest == pytest.approx(10 * (smaller.memory - rest))
    full, half = (in_memory(10**6, 10**7, 128, federation("pace", epochs)) for epochs in (100, 50))
    assert full.seconds == pytest.approx(2 * half.seconds)


def test_time_is_told_in_minutes_where_it_is_long_and_adds_up_over_seeds_and_trainings() -> None:
    assert "about 89 s of one core" in str(Forecast(4e9, 89.0))
    assert "about 10 min of one core" in str(Forecast(4e9, 600.0))
    agreed = [federation("pace", epochs) for epochs in (100, 300)]
    once = forecast_run(MADE.graph, agreed[:1], 1).seconds
    assert forecast_run(MADE.graph, agreed, 5).seconds == pytest.approx(5 * (1 + 3) * once)


def test_edges_that_a_file_holds_one_way_are_counted_both_ways(tmp_path: Path) -> None:
    one_way = MADE.graph.edges[:, MADE.graph.edges[0] < MADE.graph.edges[1]]
    write_graph(tmp_path / "mine.graph", replace(MADE, directed=one_way))
    nodes, entries, features = graph_sizes(tmp_path / "mine.graph")
    assert (nodes, entries, features) == (300, MADE.graph.edges.shape[1], 40)


def test_features_hidden_activations_and_edges_fit_in_what_is_forecast() -> None:
    """A lower bound: the arrays that a pass over the whole graph has in memory together."""
    agreed = federation("pace")
    nodes, entries = 10**6, 2 * 10**7
    arrays = nodes * (40 + 2 * 64 + 2 * 4) + 2 * entries + 2 * entries
    assert in_memory(nodes, entries, 40, agreed).memory > 4 * arrays


def test_a_fit_that_does_not_fit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = job()
    north, *_ = write_sites(tmp_path, made)
    path = north / "mine.graph"
    needed = forecast_fit(path, made.federation).memory
    for free, refused in ((needed - 1, True), (needed + 1, False)):
        monkeypatch.setattr(forecast, "available_memory", lambda free=free: free)
        if not refused:
            forecast_fit(path, made.federation)
            continue
        with pytest.raises(SettingError, match=r"takes about 0\.4 GB .* graph import --memory GB"):
            forecast_fit(path, made.federation)
        with pytest.raises(SettingError, match="take a smaller graph"):
            forecast_run(MADE.graph, [federation("pace")], 5)
    monkeypatch.setattr(forecast, "available_memory", lambda: None)
    forecast_fit(path, made.federation)


def test_a_large_run_is_told_of_and_a_small_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["run", "--dataset", MADE.name, "--clients", "2", "--seeds", "1", "--epochs", "2"]
    command += ["--methods", "local,pace", "--device", "cpu"]
    quiet = CliRunner().invoke(app, command)
    assert quiet.exit_code == 0
    assert "In memory" not in quiet.stderr
    monkeypatch.setattr(forecast, "LIBRARIES", 1.5e9)
    told = CliRunner().invoke(app, command)
    assert "In memory: about 1.5 GB, about 0 s of one core." in told.stderr
    made = job()
    north, *_ = write_sites(tmp_path, made)
    files = ["--keep", str(north / "mine.local"), "--upload", str(tmp_path / "north.up"), "--yes"]
    fit = ["client", "fit", str(north / "job.pace"), str(north / "mine.graph"), *files]
    done = CliRunner().invoke(app, fit)
    assert done.exit_code == 0
    assert "In memory: about" in done.stderr


class Disk(NamedTuple):
    free: int


def test_products_of_a_folder_need_room_on_its_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.runtimes.files.test_mapped import imported

    made = job(method="pace-ridge")
    north, *_ = write_sites(tmp_path, made)
    _, folder = imported(north)
    said = forecast_fit(folder, made.federation)
    assert said.disk is not None
    assert str(said).startswith("From the disk: at most 0.4 GB of memory")
    nothing: Any = lambda path: Disk(0)  # noqa: E731
    monkeypatch.setattr(shutil, "disk_usage", nothing)
    with pytest.raises(SettingError, match="make room, or move the folder"):
        forecast_fit(folder, made.federation)


def test_a_file_that_is_damaged_is_left_to_its_reader(tmp_path: Path) -> None:
    (path := tmp_path / "mine.graph").write_bytes(b"nothing of the kind")
    assert forecast_fit(path, job().federation).seconds == 0


def test_a_graph_without_edges_has_a_forecast() -> None:
    graph = Graph.build(torch.eye(3), torch.zeros(2, 0).long(), torch.tensor([0, 1, 0]))
    assert forecast_run(graph, [federation("pace")], 1).seconds > 0
