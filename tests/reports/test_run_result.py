"""A run: written, read back, compared and drawn."""

import statistics
from pathlib import Path

import pytest
import torch

import pace
from pace.errors import FileError, SettingError
from pace.reports.run_result import NAME, RunResult
from tests.graphs import clients

SMALL = "synthetic:nodes=300,features=50,communities=6"


@pytest.fixture(scope="module")
def run() -> RunResult:
    methods = ["local", "pace:rank=2", "pace-ridge"]
    return pace.simulate(clients(2), methods, model="gat:heads=4", hidden=8, seeds=[1, 2], epochs=2)


def test_a_run_is_read_back_as_it_was_written(run: RunResult, tmp_path: Path) -> None:
    path = run.write(tmp_path)
    again = RunResult.read(tmp_path)
    assert again.settings == run.settings
    assert again.summary == run.summary
    again.write(tmp_path / "again")
    assert (tmp_path / "again" / NAME).read_bytes() == path.read_bytes()
    for trial, same in zip(run.trials, again.trials, strict=True):
        assert (same.method, same.seed, same.alphas) == (trial.method, trial.seed, trial.alphas)
        for reading, confusions in trial.counts.items():
            assert all(map(torch.equal, same.counts[reading], confusions))


def test_a_damaged_run_is_refused_with_the_key(run: RunResult, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"results\.json not found: name a folder that `pace run"):
        RunResult.read(tmp_path)
    path = run.write(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"clients": 2', b'"clients": "two"'))
    with pytest.raises(
        FileError, match=r"\(clients is 'two', expected a whole number\): run it again"
    ):
        RunResult.read(tmp_path)


def test_a_model_by_name_takes_its_widths_from_the_graphs(run: RunResult) -> None:
    graphs = clients(2)
    assert run.settings.model == "gat"
    assert run.settings.shape["heads"] == 4
    assert run.settings.shape["widths"][0] == graphs[0].features
    assert run.settings.title == (
        "graphs, given, 2 clients, 2 seeds, gat, messages in float32, int8"
    )
    federation = pace.agree(graphs, "pace", hidden=8, seed=3)
    assert federation.model.widths == (
        graphs[0].features,
        8,
        1 + max(int(g.y.max()) for g in graphs),
    )
    assert federation.seed == 3


def test_the_division_says_what_the_run_is_of() -> None:
    division = pace.divide(pace.load(SMALL), "dirichlet", clients=3, data_seed=9)
    found = pace.simulate(division, ["local"], seeds=1, epochs=1)
    settings = found.settings
    assert (settings.dataset, settings.partition, settings.data_seed) == (SMALL, "dirichlet", 9)
    assert settings.seeds == (104729,)
    assert settings.shape["widths"] == [50, 64, 6]


def test_the_repr_is_the_table(run: RunResult) -> None:
    text = repr(run)
    assert run.settings.title.split(",")[0] in text
    for row in run.summary[1:]:
        if row.reading != "local":
            assert f"{100 * row.spreads['accuracy'].mean:.2f}" in text
    assert "What receivers adopted" in text


def test_the_table_goes_into_a_paper(run: RunResult) -> None:
    lines = run.table().latex().splitlines()
    assert lines[0] == r"\begin{tabular}{llrrr}"
    assert lines[2] == r"Method & Reading & Accuracy & W-F1 & Macro-F1 \\"
    best = max(row.spreads["accuracy"].mean for row in run.summary)
    assert any(rf"\textbf{{{100 * best:.2f} $\pm$" in line for line in lines)
    assert any(line.startswith(r"pace-ridge & $\alpha$ = 1, what came back & ") for line in lines)


def test_methods_are_compared_seed_by_seed(run: RunResult) -> None:
    found = run.compare("pace-ridge", "pace:rank=2")
    scores = {
        row.method: row.spreads["accuracy"].per_seed
        for row in run.summary
        if row.reading == "adopted"
    }
    pairs = zip(scores["pace-ridge"], scores["pace:rank=2"], strict=True)
    assert found.per_seed == tuple(one - other for one, other in pairs)
    assert found.interval is not None
    half = 12.7062 * statistics.stdev(found.per_seed) / 2**0.5  # Student's t, one degree of freedom
    assert found.interval == pytest.approx((found.mean - half, found.mean + half), rel=1e-4)
    assert repr(found).startswith("pace-ridge - pace:rank=2: ")
    with pytest.raises(SettingError, match="the run has no method 'fedavg': it has local, pace"):
        run.compare("fedavg", "local")
    with pytest.raises(SettingError, match="the score is 'f1', expected one of accuracy"):
        run.compare("pace-ridge", "local", "f1")


def test_one_seed_has_no_interval() -> None:
    found = pace.simulate(clients(2), ["local", "pace"], seeds=[1], epochs=1)
    assert found.compare("pace", "local").interval is None
    assert "one seed" in repr(found.compare("pace", "local"))


def test_the_figure_has_a_point_a_reading_and_a_box_a_method(run: RunResult) -> None:
    pytest.importorskip("matplotlib")
    scores, alphas = run.plot().axes
    assert len(scores.get_yticklabels()) == 5
    assert [label.get_text() for label in alphas.get_yticklabels()] == ["pace-ridge", "pace:rank=2"]


def test_the_page_is_written_from_the_object(run: RunResult, tmp_path: Path) -> None:
    path = run.page(tmp_path)
    assert path.name == "index.html"
    assert not (tmp_path / NAME).exists()
    assert "pace-ridge" in path.read_text()


def test_seeds_beyond_the_papers_are_listed() -> None:
    with pytest.raises(SettingError, match="seeds is 6, expected 1 to 5, or a list of seeds"):
        pace.simulate(clients(1), ["local"], seeds=6)
