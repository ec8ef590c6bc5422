import math
import statistics
from pathlib import Path
from typing import Any

import pytest
import torch

from pace.datasets import load
from pace.datasets.partition import divide
from pace.merging.carrier import compress
from pace.methods import FedAvg, Local, Pace, make
from pace.models.networks import GCN
from pace.params import size
from pace.protocol import steps
from pace.protocol.federation import Federation
from pace.reports.run_result import bars, score_table
from pace.reports.trial import summarise
from pace.runtimes.simulation import by_training, simulate
from pace.task import accuracy, pooled
from tests.graphs import CLASSES, FEATURES, clients

GCN_ = GCN((FEATURES, 16, CLASSES))
METHODS = {"local": Local(), "fedavg": FedAvg(), "pace": Pace()}


def test_a_simulation_is_the_three_steps() -> None:
    graphs = clients(3)
    (trial,) = simulate(graphs, {"pace": Pace()}, model=GCN_, seeds=[7], epochs=5).trials
    agreed = Federation(GCN_, Pace(), 7, 5)
    fitted = [steps.fit(graph, agreed) for graph in graphs]
    returns = steps.merge([upload for _, upload in fitted], agreed)
    for client, graph in enumerate(graphs):
        adoption = steps.adopt(graph, fitted[client][0], returns[client], agreed)
        assert trial.alphas[client] == adoption.alpha
        hits = (adoption.logits.argmax(1) == graph.y)[graph.test]
        assert accuracy(trial.counts["adopted"][client]) == float(hits.float().mean())
        assert trial.upload[client] == len(fitted[client][1])
        assert trial.returned[client] == len(returns[client])


def test_methods_that_train_alike_are_trained_once() -> None:
    federations = {name: Federation(GCN_, method) for name, method in METHODS.items()}
    assert list(by_training(federations).values()) == [["local", "fedavg", "pace"]]


def test_progress_counts_what_it_announced() -> None:
    told: list[str] = []
    graphs = clients(2)
    simulate(graphs, METHODS, model=GCN_, seeds=[1, 2], epochs=1, progress=told.append)
    assert len(told) == 2 * (2 * 1 + len(METHODS))  # by seed: clients, trained once; methods


def test_every_number_is_computed_from_the_trials() -> None:
    graphs = clients(3)
    trials = simulate(graphs, METHODS, model=GCN_, seeds=[1, 2, 3], epochs=5).trials
    found = summarise(trials)
    adopted = [trial for trial in trials if trial.method == "pace"]
    scores = [accuracy(pooled(trial.counts["adopted"])) for trial in adopted]
    (result,) = (r for r in found if (r.method, r.reading) == ("pace", "adopted"))
    assert result.spreads["accuracy"].per_seed == tuple(scores)
    assert result.spreads["accuracy"].mean == pytest.approx(sum(scores) / 3)
    assert result.spreads["accuracy"].std == pytest.approx(statistics.stdev(scores))
    means = tuple(sum(trial.alphas) / 3 for trial in adopted)
    assert result.spreads["alpha"].per_seed == pytest.approx(means)
    assert result.spreads["returned"].mean == adopted[0].returned[0]
    assert result.spreads["dense"].mean == size(GCN_.start(0))
    assert [(r.method, r.reading) for r in found][:3] == [
        ("local", "local"),
        ("fedavg", "local"),
        ("fedavg", "external"),
    ]


def test_one_seed_has_no_standard_deviation() -> None:
    found = simulate(clients(2), ["local"], model=GCN_, seeds=[1], epochs=1).summary
    assert found[0].spreads["accuracy"].std is None


def test_the_embedded_graph_shows_the_methods_point() -> None:
    """PACE gains a point or more over Local, with alpha > 0 for most clients."""
    dataset = load("synthetic")
    graphs = divide(dataset, "louvain", 10)
    gcn = GCN((dataset.graph.features, 64, dataset.classes))
    found = simulate(graphs, ["pace"], model=gcn, seeds=[104729]).summary
    by_reading = {r.reading: 100 * r.spreads["accuracy"].mean for r in found}
    assert by_reading["adopted"] > by_reading["local"] + 1
    assert found[-1].spreads["kept_local"].mean < 0.5


def test_a_harmful_transfer_is_turned_down() -> None:
    dataset = load("synthetic-clash")
    graphs = divide(dataset, "louvain", 10)
    gcn = GCN((dataset.graph.features, 64, dataset.classes))
    found = simulate(graphs, ["pace"], model=gcn, seeds=[104729]).summary
    by_reading = {r.reading: 100 * r.spreads["accuracy"].mean for r in found}
    assert by_reading["external"] < by_reading["local"] - 30
    assert by_reading["adopted"] > by_reading["local"] - 0.2
    assert found[-1].spreads["kept_local"].mean > 0.5


def test_tables_show_a_common_local_model_once() -> None:
    trials = simulate(clients(2), METHODS, model=GCN_, seeds=[1, 2], epochs=2).trials
    table = score_table(summarise(trials), "", dict.fromkeys(METHODS, "cnll"))
    assert [[value.text for value in row[:2]] for row in table.rows] == [
        ["local", "α = 0, its own model"],
        ["fedavg", "α = 1, what came back"],
        ["fedavg", "α by CNLL"],
        ["pace", "α = 1, what came back"],
        ["pace", "α by CNLL"],
    ]


def test_bars_show_each_clients_alpha() -> None:
    assert bars([0.0, 1.0, 0.5]) == "·█▅"
    assert bars([0.5] * 25).count("▅") == 25
    assert bars([0.5] * 75).endswith("…")


def test_a_smaller_rank_sends_fewer_bytes() -> None:
    update = {"w": torch.randn(64, 100)}
    sizes = []
    for rank in (2, 4, 6):
        low = compress(update, rank)["w"]
        sizes.append(math.prod(low.left.shape) + math.prod(low.right.shape))  # type: ignore[union-attr]
    assert sizes == [2 * 164, 4 * 164, 6 * 164]


def test_an_interrupted_run_trains_only_what_is_missing(tmp_path: Path) -> None:
    graphs, methods = clients(3), {"local": Local(), "pace-full": make("pace-full")}

    def run(**options: Any) -> list[object]:
        found = simulate(graphs, methods, model=GCN_, seeds=[1, 2], epochs=5, **options)
        return [{**trial.plain(), "seconds": None} for trial in found.trials]

    whole = run()
    told = 0

    def interrupt(step: str) -> None:
        nonlocal told
        told += 1
        if told == 8:  # local's six models and two trials; then pace-full's, of three fits
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(checkpoints=tmp_path, progress=interrupt)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(before) == 6
    damaged = min(tmp_path.iterdir())
    damaged.write_bytes(damaged.read_bytes()[:20])
    assert run(checkpoints=tmp_path) == whole
    after = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    kept = before.keys() - {damaged.name}
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert len(after) == 6 + 3 * 6
    # Other settings share none of them.
    other = simulate(graphs, ["local"], model=GCN_, seeds=[1], epochs=6, checkpoints=tmp_path)
    assert len(other.trials) == 1
    assert len(list(tmp_path.iterdir())) == 24 + 3
    # Nor does another device, whose sums are rounded otherwise.
    elsewhere = run(checkpoints=tmp_path, device="cpu:0")
    assert elsewhere == whole
    assert len(list(tmp_path.iterdir())) == 2 * 24 + 3
