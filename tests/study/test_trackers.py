"""What TensorBoard and MLflow read back is what the run found."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tensorboard", reason="the study's extra tracking is not installed")

SMALL = "synthetic:nodes=300,features=50,communities=6"
PACE = [sys.executable, "-c", "from pace.cli import main; main()", "run", "--dataset", SMALL]


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    settings = ["--clients", "3", "--epochs", "5", "--seeds", "2", "--methods", "local,pace"]
    return subprocess.run(
        [*PACE, *settings, *words], capture_output=True, text=True, check=True, cwd=folder
    )


def test_tensorboard_reads_back_what_the_run_found(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import plugin_data_pb2

    done = run(tmp_path, "--out", "mine", "--track", "tensorboard=runs")
    (made,) = (tmp_path / "runs").iterdir()
    assert made.name == "synthetic_nodes=300,features=50,communities=6-louvain-c3-1"
    assert done.stdout.splitlines()[-1].endswith(str(made.relative_to(tmp_path)))
    found = json.loads((tmp_path / "mine" / "results.json").read_text())
    runs = {path.name: path for path in made.iterdir()}
    assert set(runs) == {"local-local", "pace-external", "pace-adopted"}
    for result in found["results"]:
        name = f"{result['method']}-{result['reading']}"
        if name == "pace-local":  # the same model as local's: once is enough
            continue
        read = EventAccumulator(str(runs[name]))
        read.Reload()
        for score in ("accuracy", "weighted_f1", "macro_f1"):
            events = read.Scalars(f"score/{score}")
            assert [event.step for event in events] == [0, 1]
            assert [event.value for event in events] == pytest.approx(result[score]["per_seed"])
            (mean,) = read.Scalars(f"mean_score/{score}")
            assert mean.value == pytest.approx(result[score]["mean"])
        content = read.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
        start = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
        assert start.hparams["method"].string_value == result["method"]
        assert start.hparams["clients"].number_value == 3
        assert start.hparams["epochs"].number_value == 5
    adopted = EventAccumulator(str(runs["pace-adopted"]), {"histograms": 0})  # 0: keep all
    adopted.Reload()
    means = [event.value for event in adopted.Scalars("adoption/alpha")]
    own = [trial["alphas"] for trial in found["trials"] if trial["method"] == "pace"]
    assert means == pytest.approx([sum(alphas) / 3 for alphas in own])
    assert adopted.Scalars("bytes/upload")[0].value == found["trials"][-1]["upload"][0]
    seconds = [event.value for event in adopted.Scalars("seconds/merge")]
    kept = [each["seconds"]["merge"] for each in found["trials"] if each["method"] == "pace"]
    assert seconds == pytest.approx(kept, abs=6e-4)  # the file has milliseconds
    assert [event.step for event in adopted.Histograms("adoption/by_client")] == [0, 1]
    run(tmp_path, "--track", "tensorboard=runs")
    assert sorted(path.name[-2:] for path in (tmp_path / "runs").iterdir()) == ["-1", "-2"]


@pytest.mark.filterwarnings("ignore")  # what MLflow's own code is warned of
def test_mlflow_reads_back_what_the_run_found(tmp_path: Path) -> None:
    tracking = pytest.importorskip("mlflow.tracking", reason="the extra tracking is not installed")
    done = run(tmp_path, "--out", "mine", "--track", "mlflow=logged.db")
    assert done.stdout.splitlines()[-1].startswith("Written: mine/index.html, mine/results.json, ")
    found = json.loads((tmp_path / "mine" / "results.json").read_text())
    client = tracking.MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'logged.db'}")
    name = "synthetic_nodes=300,features=50,communities=6-louvain-c3"
    experiment = client.get_experiment_by_name(name).experiment_id
    runs = {logged.info.run_name: logged for logged in client.search_runs([experiment])}
    assert set(runs) == {"local-local", "pace-external", "pace-adopted"}
    assert {logged.info.status for logged in runs.values()} == {"FINISHED"}
    for result in found["results"]:
        if (logged := runs.get(f"{result['method']}-{result['reading']}")) is None:
            continue
        history = client.get_metric_history(logged.info.run_id, "score/accuracy")
        assert [metric.step for metric in history] == [0, 1]
        assert [metric.value for metric in history] == result["accuracy"]["per_seed"]
        assert logged.data.metrics["mean_score/accuracy"] == result["accuracy"]["mean"]
        assert logged.data.params["method"] == result["method"]
        assert logged.data.params["command"] == found["command"]
    run(tmp_path, "--track", "mlflow=logged.db")  # the same experiment has both
    assert len(client.search_runs([experiment])) == 6
