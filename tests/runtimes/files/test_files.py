"""The file runtime as people and programs use it: commands in folders."""

import csv
import hashlib
import json
import os
import shutil
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from pace.cli import app
from pace.datasets import Names
from pace.errors import FileError
from pace.graph import Graph
from pace.io import untrusted
from pace.jobs import signatures
from pace.jobs.job import Job, read_job, write_job
from pace.protocol import steps, uploads, wire
from pace.runtimes.files import merge as merging
from pace.runtimes.files import model
from pace.runtimes.files.site import load_site
from pace.task import accuracy, counted
from tests.graphs import clients
from tests.preloaded import Done, Preloaded, good
from tests.sites import ADOPT, FIT, MERGE, NAMES, job, roll, write_graph, write_sites


def refused(done: Done, says: str) -> None:
    """One clear sentence, exit code 2, no traceback."""
    assert done.code == 2, (done.out, done.err)
    assert says in " ".join(done.err.split()), done.err
    assert "Traceback" not in done.err


def hashes(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def finished(pace: Preloaded, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A federation from beginning to end; tests copy it."""
    root = tmp_path_factory.mktemp("finished")
    server = root / "server"
    for site in write_sites(root, job()):
        good(pace(*FIT, f"{site.name}.up", cwd=site))
        shutil.copy(site / f"{site.name}.up", server / "inbox")
    good(pace(*MERGE, cwd=server))
    for name in NAMES:
        for suffix in (".down", ".roll"):
            shutil.copy(server / "outbox" / f"{name}{suffix}", root / name)
        good(pace(*ADOPT, "--return", f"{name}.down", cwd=root / name))
    return root


@pytest.fixture
def root(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "copy")
    return tmp_path / "copy"


def the_job(root: Path) -> Job:
    return read_job(root / "server" / "job.pace")


# fit


@pytest.mark.fault(11, 19)
def test_fit_again_gives_the_same_upload_without_training(pace: Preloaded, root: Path) -> None:
    before = hashes(root / "north")
    (root / "north" / "north.up").unlink()
    done = good(pace(*FIT, "north.up", "--json", cwd=root / "north"))
    assert done.json["again"]
    assert hashes(root / "north") == before


def test_a_changed_graph_gets_no_second_upload(pace: Preloaded, root: Path) -> None:
    before = hashes(root / "north")["north.up"]
    shutil.copy(root / "south" / "mine.graph", root / "north")
    refused(pace(*FIT, "north.up", cwd=root / "north"), "trained on another graph")
    (root / "north" / "mine.local").unlink()
    refused(pace(*FIT, "north.up", cwd=root / "north"), "restore mine.local")
    assert (root / "north" / "north.up").read_bytes() == before


@pytest.mark.fault(27)
def test_files_of_two_jobs_do_not_mix(pace: Preloaded, root: Path) -> None:
    before = hashes(root / "north")
    write_job(root / "north" / "other.pace", job())
    words = ["other.pace" if word == "job.pace" else word for word in FIT]
    refused(pace(*words, "north.up", cwd=root / "north"), "belongs to job")
    words = ["other.pace" if word == "job.pace" else word for word in ADOPT]
    refused(pace(*words, "--return", "north.down", cwd=root / "north"), "belongs to job")
    (root / "north" / "other.pace").unlink()
    assert hashes(root / "north") == before


def test_a_link_to_nothing_in_place_of_the_upload_is_not_followed(
    pace: Preloaded, tmp_path: Path
) -> None:
    """In a shared folder others may put one there."""
    north, *_ = write_sites(tmp_path, job())
    (north / "north.up").symlink_to(tmp_path / "theirs")
    refused(pace(*FIT, "north.up", cwd=north), "or is a link to nothing")
    assert not (tmp_path / "theirs").exists()


def test_the_record_of_another_job_is_not_replaced(pace: Preloaded, tmp_path: Path) -> None:
    north, *_ = write_sites(tmp_path, job())
    good(pace(*FIT, "north.up", cwd=north))
    record = (north / "north.egress.json").read_text()
    write_job(north / "other.pace", job())
    second = ["client", "fit", "other.pace", "mine.graph", "--keep", "mine.second", "--yes"]
    good(pace(*second, "--upload", "second/north.up", cwd=north))
    digest = json.loads(record)["digest"][:16]
    assert (north / f"north.egress-{digest}.json").read_text() == record
    assert (north / f"north.egress-{digest}.html").exists()
    assert json.loads((north / "north.egress.json").read_text())["digest"][:16] != digest


def test_predictions_are_not_replaced_unless_asked_for(pace: Preloaded, root: Path) -> None:
    predict = ("client", "predict", "mine.model", "mine.graph", "--out", "theirs.csv")
    (root / "north" / "theirs.csv").write_text("kept")
    refused(
        pace(*predict, cwd=root / "north"), "already exists: choose another name, or say --replace"
    )
    assert (root / "north" / "theirs.csv").read_text() == "kept"
    good(pace(*predict, "--replace", cwd=root / "north"))
    assert (root / "north" / "theirs.csv").read_text().startswith("node,class")
    (root / "north" / "theirs.csv").unlink()


def test_a_run_is_not_replaced_unless_asked_for(pace: Preloaded, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "results.json").write_text("{}")
    refused(pace("run", "--out", "out", cwd=tmp_path), "out holds an earlier run")
    assert (tmp_path / "out" / "results.json").read_text() == "{}"
    small = (
        "--dataset",
        "synthetic:nodes=90,features=12,communities=3,classes=3",
        "--clients",
        "3",
    )
    again = ("run", *small, "--methods", "local", "--seeds", "1", "--epochs", "2", "--out", "out")
    good(pace(*again, "--replace", cwd=tmp_path))


def test_without_a_yes_nothing_is_written_or_trained(pace: Preloaded, tmp_path: Path) -> None:
    north, *_ = write_sites(tmp_path, job())
    before = hashes(tmp_path)
    words = [word for word in FIT if word != "--yes"]
    refused(pace(*words, "north.up", cwd=north), "give --yes")
    assert hashes(tmp_path) == before


def test_fit_says_what_will_leave_and_the_record_agrees(pace: Preloaded, root: Path) -> None:
    done = good(pace(*FIT, "north.up", cwd=root / "north"))
    upload = (root / "north" / "north.up").read_bytes()
    assert f"What will leave this site: north.up, {len(upload):,} bytes" in done.out
    message = steps.check_upload(upload, the_job(root).federation)
    for name, value in message.items():
        assert name in done.out
        assert f"{4 * value.numel():,}" in done.out
    zeros = int((message["0.weight/m"] == 0).sum())
    record = json.loads((root / "north" / "north.egress.json").read_bytes())
    sent = record["disclosed"]
    told = f"{zeros} of {len(message['0.weight/m'])} are exactly zero"
    assert any(told in sentence for sentence in sent["sentences"])
    assert record["bytes"] == sent["frame"] == len(upload)
    assert sent["signature"] == 0
    assert record["sha256"] == hashlib.sha256(upload).hexdigest()
    assert "graph" not in record  # a hash of the data would let others test a guess of it


def test_zero_moments_are_the_features_absent_around_training_nodes(
    pace: Preloaded, tmp_path: Path
) -> None:
    """Derived from the graph alone: no training node, nor a neighbour of one, has the feature."""
    north, *_ = write_sites(tmp_path, job())
    graph = clients(3)[0]
    x = graph.x.clone()
    near = graph.train.clone()
    near[graph.edges[1][graph.train[graph.edges[0]]]] = True
    x[near, 5] = 0
    x[:, 7] = 0
    absent = (x[near] == 0).all(0).nonzero().flatten().tolist()
    masks = {name: getattr(graph, name) for name in ("train", "val", "test")}
    write_graph(north / "mine.graph", Graph.build(x, graph.edges, graph.y, **masks))
    done = good(pace(*FIT, "north.up", cwd=north))
    said = " ".join(done.out.split())
    assert {5, 7} <= set(absent)
    assert f"{len(absent)} of 40 are exactly zero" in said
    assert ", ".join(f"f{place}" for place in absent[:12]) in said


def test_a_graph_with_other_names_is_refused_by_name(pace: Preloaded, tmp_path: Path) -> None:
    north, *_ = write_sites(tmp_path, job())
    graph = clients(3)[0]
    write_graph(north / "mine.graph", graph, Names(classes=("red", "blue", "green", "grey")))
    refused(pace(*FIT, "north.up", cwd=north), "class 1 of mine.graph is 'blue', the job's is")
    features = tuple(f"f{i}" for i in range(39))
    write_graph(north / "mine.graph", graph, Names(features=(*features, "other")))
    refused(pace(*FIT, "north.up", cwd=north), "feature 39 of mine.graph is 'other'")
    words = ("inspect", "mine.graph", "--job", "job.pace", "--json")
    assert good(pace(*words, cwd=north)).json["sanity"][-1].startswith("NOT of this job (graph)")


def test_an_upload_must_be_named_after_a_participant(pace: Preloaded, tmp_path: Path) -> None:
    north, *_ = write_sites(tmp_path, job())
    refused(pace(*FIT, "nrth.up", cwd=north), "'nrth' is not among the job's participants")


@pytest.mark.parametrize("name", ["north", "north.upp", "mine.model"])
def test_an_upload_ends_in_up_or_the_server_would_not_find_it(
    pace: Preloaded, tmp_path: Path, name: str
) -> None:
    north, *_ = write_sites(tmp_path, job())
    before = hashes(tmp_path)
    refused(pace(*FIT, name, cwd=north), "ends in .up")
    assert hashes(tmp_path) == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["north.up", "--keep", "north.up"], "--keep and --upload are both north.up"),
        (["north.up", "--keep", "../north/mine.graph"], "the graph and --keep are both"),
        (["north.up", "--keep", "linked.pace"], "the job and --keep are both"),
    ],
)
def test_no_file_of_a_fit_replaces_another(
    pace: Preloaded, root: Path, words: list[str], says: str
) -> None:
    north = root / "north"
    (north / "linked.pace").symlink_to("job.pace")
    before = hashes(north)
    refused(pace(*FIT, *words, cwd=north), says)
    assert hashes(north) == before


def test_a_link_to_nothing_is_said_to_be_one(pace: Preloaded, tmp_path: Path) -> None:
    north, *_ = write_sites(tmp_path, job())
    (north / "mine.local").symlink_to("unplugged/mine.local")
    refused(pace(*FIT, "north.up", cwd=north), "mine.local appeared while this ran, or is a link")
    assert not (north / "north.up").exists()


def test_a_graph_without_a_split_gets_the_same_one_in_every_step(tmp_path: Path) -> None:
    made = job()
    graph = clients(1)[0]
    write_graph(tmp_path / "mine.graph", Graph.build(graph.x, graph.edges, graph.y))
    one, again = load_site(tmp_path / "mine.graph", made), load_site(tmp_path / "mine.graph", made)
    assert one.drawn == (0.2, 0.4, 0.4)
    assert one.graph.fingerprint == again.graph.fingerprint
    assert one.graph.train.any()
    assert one.graph.val.any()


# merge


def test_merging_again_in_any_order_gives_the_same_bytes(pace: Preloaded, root: Path) -> None:
    server = root / "server"
    before = hashes(server)
    good(pace(*MERGE, cwd=server))
    assert hashes(server) == before
    shutil.rmtree(server / "outbox")
    shutil.rmtree(server / "job.journal")
    inbox = [f"inbox/{name}.up" for name in ("west", "north", "south")]
    good(pace("server", "merge", "job.pace", *inbox, "--out", "outbox", cwd=server))
    assert hashes(server) == before
    shutil.rmtree(server / "inbox")
    shutil.rmtree(server / "outbox")
    good(pace("server", "merge", "job.pace", "--out", "outbox", cwd=server))
    assert hashes(server / "outbox")["north.down"] == before["outbox/north.down"]


@pytest.mark.fault(16)
def test_too_few_uploads_return_nothing_and_are_kept(pace: Preloaded, root: Path) -> None:
    server = root / "server"
    shutil.rmtree(server / "outbox")
    shutil.rmtree(server / "job.journal")
    (server / "inbox" / "south.up").unlink()
    done = pace(*MERGE, "--json", cwd=server)
    assert done.code == 1
    assert not done.json["merged"]
    assert done.json["missing"] == ["south"]
    assert not (server / "outbox").exists()
    shutil.rmtree(server / "inbox")
    good(
        pace(
            "server",
            "merge",
            "job.pace",
            root / "south" / "south.up",
            "--out",
            "outbox",
            cwd=server,
        )
    )
    assert (server / "outbox" / "north.down").read_bytes() == (
        root / "north" / "north.down"
    ).read_bytes()


@pytest.mark.fault(16, 17)
def test_a_late_upload_is_refused_and_changes_no_return(pace: Preloaded, tmp_path: Path) -> None:
    made = job(minimum=2)
    for site in write_sites(tmp_path, made):
        good(pace(*FIT, f"{site.name}.up", cwd=site))
    server = tmp_path / "server"
    for name in ("north", "west"):
        shutil.copy(tmp_path / name / f"{name}.up", server / "inbox")
    first = good(pace(*MERGE, "--json", cwd=server)).json
    assert [each["name"] for each in first["took_part"]] == ["north", "west"]
    assert first["missing"] == ["south"]
    before = hashes(server / "outbox")
    shutil.copy(tmp_path / "south" / "south.up", server / "inbox")
    again = good(pace(*MERGE, "--json", cwd=server)).json
    assert [(each["sender"], each["code"]) for each in again["refused"]] == [("south", "closed")]
    after = hashes(server / "outbox")
    kinds = (".down", ".roll")
    assert {name: after[name] for name in after if name.endswith(kinds)} == {
        name: before[name] for name in before if name.endswith(kinds)
    }


@pytest.mark.fault(1, 2, 7)
def test_every_hostile_file_is_named_and_the_others_are_served(pace: Preloaded, root: Path) -> None:
    server, made = root / "server", the_job(root)
    shutil.rmtree(server / "outbox")
    shutil.rmtree(server / "job.journal")
    inbox = server / "inbox"
    upload = (inbox / "north.up").read_bytes()
    (inbox / "east.up").write_bytes(upload)
    (inbox / "huge.up").touch()
    with (inbox / "huge.up").open("r+b") as opened:
        opened.truncate(2**40)  # sparse: it must not be read
    (inbox / "folder.up").mkdir()
    message = steps.check_upload(upload, made.federation)
    lying = {**message, "0.weight/m": 1e6 * message["0.weight/m"]}
    extra = root / "elsewhere"
    extra.mkdir()
    (extra / "south.up").write_bytes(wire.encode(lying, made.federation.digest))
    done = good(pace(*MERGE, extra, "--json", cwd=server)).json
    codes = {each["sender"]: each["code"] for each in done["refused"]}
    assert codes.pop("south") == "moment"
    assert codes == {"east": "unknown-participant", "huge": "size", "folder": "file"}
    assert [each["name"] for each in done["took_part"]] == sorted(NAMES)
    for name in NAMES:
        assert (server / "outbox" / f"{name}.down").read_bytes() == (
            root / name / f"{name}.down"
        ).read_bytes()


def test_a_file_that_cannot_be_read_keeps_nobody_from_being_served(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an upload that another user put there for himself, given by its name."""
    real, may = os.open, os.access

    def denied(path: Path, *given: Any, **named: Any) -> Any:
        if Path(path).name == "locked.up":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *given, **named)

    inbox = root / "server" / "inbox"
    shutil.copy(inbox / "north.up", inbox / "locked.up")
    monkeypatch.setattr(os, "open", denied)
    monkeypatch.setattr(
        os, "access", lambda path, mode: "locked" not in str(path) and may(path, mode)
    )
    job = root / "server" / "job.pace"
    words: list[str | Path] = ["server", "merge", job, *sorted(inbox.iterdir())]
    words += ["--journal", root / "new.journal", "--out", root / "new.outbox", "--json"]
    done = CliRunner().invoke(app, [str(word) for word in words])
    found = json.loads(done.stdout)
    assert [each["name"] for each in found["took_part"]] == sorted(NAMES)
    reason = "locked.up cannot be read: Permission denied"
    assert found["refused"] == [{"sender": "locked", "code": "file", "reason": reason}]


@pytest.mark.fault(9)
def test_influence_sums_to_one_and_an_outlier_is_flagged(pace: Preloaded, root: Path) -> None:
    server, made = root / "server", the_job(root)
    honest = json.loads((server / "outbox" / "report.json").read_bytes())
    assert sum(each["share"] for each in honest["took_part"]) == pytest.approx(1)
    assert not any(each["flags"] for each in honest["took_part"])
    shutil.rmtree(server / "outbox")
    shutil.rmtree(server / "job.journal")
    path = server / "inbox" / "south.up"
    message = steps.check_upload(path.read_bytes(), made.federation)
    loud = {name: value * (1 if "/m" in name else 1000) for name, value in message.items()}
    loud["0.weight/L"] = message["0.weight/L"]
    path.write_bytes(wire.encode(loud, made.federation.digest))
    found = good(pace(*MERGE, "--json", cwd=server)).json["took_part"]
    assert {each["name"] for each in found if each["flags"]} == {"south"}
    ratio = next(each["norm"] for each in found if each["name"] == "south")
    assert 300 < ratio < 3000


# adopt


def test_adopt_is_the_protocols_and_the_folder_holds_it(root: Path) -> None:
    made = the_job(root)
    for name, graph in zip(NAMES, clients(3), strict=True):
        mine = model.read_kept(root / name / "mine.local", made)
        returned = (root / name / f"{name}.down").read_bytes()
        adoption = steps.adopt(graph, mine.kept, returned, made.federation)
        found = model.read_model(root / name / "mine.model")
        assert found.outcome.alpha == adoption.alpha
        assert torch.equal(found(graph).logits, adoption.logits)
        assert torch.equal(found(graph).local, adoption.local)
        validation = found.outcome.validation
        assert validation is not None
        before, after = validation.local.nll, validation.adopted.nll
        assert before is not None
        assert after is not None
        assert after <= before
        card = (root / name / "mine.model" / "README.md").read_text()
        assert found.outcome.decision in card


@pytest.mark.fault(19)
def test_adopting_again_changes_nothing(pace: Preloaded, root: Path) -> None:
    before = hashes(root / "north")
    first = good(pace(*ADOPT, "--return", "north.down", cwd=root / "north"))
    assert "NLL on" in first.out
    assert hashes(root / "north") == before


@pytest.mark.fault(21)
@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("tampered", "damaged on its way"),
        ("another receiver's", "ask the server for the return to"),
        ("another job's", "belongs to federation"),
        ("cut short", "expected exactly"),
        ("an upload", "expected exactly"),
    ],
)
def test_a_wrong_return_is_refused_and_local_untouched(
    pace: Preloaded, root: Path, fault: str, says: str
) -> None:
    north = root / "north"
    shutil.rmtree(north / "mine.model")
    good_return = (north / "north.down").read_bytes()
    frame = wire.decode(good_return)
    wrong = {
        "tampered": good_return[:50] + bytes([good_return[50] ^ 1]) + good_return[51:],
        "another receiver's": (root / "south" / "south.down").read_bytes(),
        "another job's": wire.encode(frame.message, b"otherjob", frame.answers),
        "cut short": good_return[:-4],
        "an upload": (north / "north.up").read_bytes(),
    }[fault]
    (north / "north.down").write_bytes(wrong)
    before = hashes(north)
    refused(pace(*ADOPT, "--return", "north.down", cwd=north), says)
    assert hashes(north) == before


def test_a_model_never_replaces_what_is_there(pace: Preloaded, root: Path) -> None:
    north = root / "north"
    (north / "empty").mkdir()
    before = hashes(north)
    words = [*ADOPT[: ADOPT.index("--out")], "--return", "north.down", "--out"]
    for out in ("empty", "mine.graph", "."):
        refused(pace(*words, out, cwd=north), f"{out} already exists and is not a model")
    assert hashes(north) == before


def test_files_in_the_wrong_place_are_named(pace: Preloaded, root: Path) -> None:
    words = [*ADOPT, "--return", "mine.local"]
    words[words.index("--kept") + 1] = "north.down"
    refused(pace(*words, cwd=root / "north"), "bytes, expected exactly")
    words[words.index("--return") + 1] = "north.down"
    refused(pace(*words, cwd=root / "north"), "north.down is damaged, or another kind of file")


@pytest.mark.fault(22)
def test_a_hostile_return_leaves_local_in_force(pace: Preloaded, root: Path) -> None:
    north, made = root / "north", the_job(root)
    shutil.rmtree(north / "mine.model")
    frame = wire.decode((north / "north.down").read_bytes())
    huge = {name: 3e38 * value.sign() for name, value in frame.message.items()}
    hostile = wire.encode(huge, made.federation.digest, frame.answers)
    (north / "north.down").write_bytes(hostile)
    upload = (north / "north.up").read_bytes()
    (north / "north.roll").write_bytes(roll(made, "north", upload, hostile))
    done = good(pace(*ADOPT, "--return", "north.down", "--json", cwd=north))
    assert done.json["alpha"] == 0
    assert done.json["decision"].startswith("Local kept")
    found = model.read_model(north / "mine.model")
    adoption = found(clients(3)[0])
    assert adoption.logits is adoption.local
    good(pace("client", "predict", "mine.model", "mine.graph", "--out", "p.csv", cwd=north))


@pytest.mark.fault(47)
@pytest.mark.parametrize("spoilt", [float("inf"), 1e37])
def test_a_folder_with_numbers_of_no_model_is_made_anew_by_adopting_again(
    pace: Preloaded, root: Path, spoilt: float
) -> None:
    """An older version wrote whatever came back; the folder could not be read any more."""
    north = root / "north"
    path = north / "mine.model" / "external.safetensors"
    about, values = model.read_tensors(path, model.PARAMS)
    good_bytes = path.read_bytes()
    values["0.weight"][0, 0] = spoilt
    path.write_bytes(model.encode_tensors(values, about))
    refused(
        pace("client", "predict", "mine.model", "mine.graph", "--out", "p.csv", cwd=north),
        "adopt again",
    )
    good(pace(*ADOPT, "--return", "north.down", cwd=north))
    assert path.read_bytes() == good_bytes
    assert (north / "mine.model.replaced-1" / "external.safetensors").exists()
    good(pace("client", "predict", "mine.model", "mine.graph", "--out", "p.csv", cwd=north))


# predict and evaluate


def test_predictions_name_nodes_and_classes_and_show_local_beside(
    pace: Preloaded, root: Path
) -> None:
    """On a graph with new nodes, whose answers are those of the network itself."""
    north, made = root / "north", the_job(root)
    bigger = clients(1, nodes=130, seed=3)[0]
    ids = tuple(f"patient {i}" for i in range(bigger.nodes))
    write_graph(north / "new.graph", bigger, Names(nodes=ids))
    good(pace("client", "predict", "mine.model", "new.graph", "--out", "p.csv", cwd=north))
    with (north / "p.csv").open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    found = model.read_model(north / "mine.model")(bigger)
    assert [row["node"] for row in rows] == list(ids)
    for reading, logits in (("class", found.logits), ("local_class", found.local)):
        expected = [made.classes[label] for label in logits.argmax(1).tolist()]
        assert [row[reading] for row in rows] == expected
    for row, chances in zip(rows, found.logits.double().softmax(1).tolist(), strict=True):
        listed = [float(row[f"p_{name}"]) for name in made.classes]
        assert listed == pytest.approx(chances, abs=1e-6)
        assert float(row["probability"]) == max(listed)


def test_predictions_as_parquet_are_the_same_table(pace: Preloaded, root: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    north = root / "north"
    for kind in ("csv", "parquet"):
        good(pace("client", "predict", "mine.model", "mine.graph", "--out", f"p.{kind}", cwd=north))
    table = parquet.read_table(north / "p.parquet").to_pydict()
    with (north / "p.csv").open(newline="") as opened:
        rows = list(csv.reader(opened))
    assert rows[0] == list(table)
    assert [row[1] for row in rows[1:]] == table["class"]
    refused(
        pace("client", "predict", "mine.model", "mine.graph", "--out", "p.xls", cwd=north),
        "ends in .csv or .parquet",
    )


def test_evaluation_counts_the_chosen_nodes(pace: Preloaded, root: Path) -> None:
    north = root / "north"
    graph = clients(3)[0]
    adoption = model.read_model(north / "mine.model")(graph)
    for mask in ("train", "val", "test"):
        words = ("client", "evaluate", "mine.model", "mine.graph", "--on", mask, "--json")
        found = good(pace(*words, cwd=north)).json
        chosen = getattr(graph, mask)
        assert found["nodes"] == int(chosen.sum())
        for name, logits in (("local", adoption.local), ("adopted", adoption.logits)):
            counts = counted(logits[chosen], graph.y[chosen], 4)
            assert found[name]["accuracy"] == accuracy(counts)
    unlabelled = Graph.build(graph.x, graph.edges, torch.full_like(graph.y, -1))
    write_graph(north / "new.graph", unlabelled)
    refused(
        pace("client", "evaluate", "mine.model", "new.graph", cwd=north), "has no labelled nodes"
    )


# every command


def test_every_kind_of_file_can_be_inspected(pace: Preloaded, root: Path) -> None:
    kinds = {
        "north/job.pace": "job",
        "north/mine.graph": "graph",
        "north/north.up": "upload",
        "north/north.down": "return",
        "north/mine.local": "kept Local model",
        "north/mine.model": "model folder",
        "north/mine.model/external.safetensors": "parameters",
        "north/north.egress.json": "egress",
        "server/job.journal": "server's journal",
        "server/outbox/report.json": "merge-report",
    }
    for file, kind in kinds.items():
        words = ("inspect", file, "--job", "server/job.pace")
        found = good(pace(*words, "--json", cwd=root)).json
        assert found["kind"] == kind
        assert found["sanity"]
        assert not any("NOT" in each for each in found["sanity"])
        shown = good(pace(*words, cwd=root))
        assert max(map(len, shown.out.splitlines())) <= 80
    write_job(root / "other.pace", job())
    found = good(pace("inspect", "north/north.up", "--job", "other.pace", "--json", cwd=root)).json
    assert any("NOT taken (other-job)" in each for each in found["sanity"])
    for file in ("north/job.pace", "north/mine.model", "server/job.journal", "north/north.down"):
        found = good(pace("inspect", file, "--job", "other.pace", "--json", cwd=root)).json
        assert "NOT of this job" in found["sanity"]
    (root / "noise").write_bytes(b"\x00" * 100)
    refused(pace("inspect", "noise", cwd=root), "noise is not a file of PACE")
    (root / "table.csv").write_text("id,age\n1,40\n")
    refused(pace("inspect", "table.csv", cwd=root), "table.csv is not a file of PACE")
    refused(pace("inspect", "absent", cwd=root), "absent")


@pytest.mark.parametrize("value", [3, {}, {"mask": "val", "nodes": "x"}])
def test_a_model_changed_by_hand_is_damaged_and_no_mistake_of_ours(
    pace: Preloaded, root: Path, value: object
) -> None:
    north = root / "north"
    path = north / "mine.model" / "model.json"
    about = json.loads(path.read_bytes())
    path.write_text(json.dumps(about | {"test": value}))
    refused(pace("inspect", "mine.model", cwd=north), "model.json is damaged")
    for key in ("decision", "test", "return"):
        path.write_text(json.dumps({name: each for name, each in about.items() if name != key}))
        refused(pace(*ADOPT, "--return", "north.down", cwd=north), "model.json is damaged")


def test_a_kept_model_without_its_facts_is_incomplete(root: Path) -> None:
    path, made = root / "north" / "mine.local", the_job(root)
    about, values = model.read_tensors(path, model.KEPT)
    for key in (field.name for field in fields(model.Trained)):
        path.write_bytes(
            model.encode_tensors(values, {name: about[name] for name in about if name != key})
        )
        with pytest.raises(FileError, match="incomplete"):
            model.read_kept(path, made)


@pytest.mark.fault(14, 21)
def test_signed_from_end_to_end(pace: Preloaded, tmp_path: Path) -> None:
    for name in (*NAMES, "server"):
        good(pace("keys", "new", name, cwd=tmp_path))
    keys = {
        name: signatures.read_public_key(tmp_path / f"{name}.pub") for name in (*NAMES, "server")
    }
    made = job(keys=keys)
    sites = write_sites(tmp_path / "root", made)
    server = tmp_path / "root" / "server"
    refused(pace(*FIT, "a.up", cwd=sites[0]), "give your private key")
    refused(pace(*FIT, "a.up", "--key", tmp_path / "server.key", cwd=sites[0]), "does not list")
    for place, site in enumerate(sites):
        # Any file name: the key says whose it is.
        upload, key = f"{place}.up", tmp_path / f"{site.name}.key"
        record = good(pace(*FIT, upload, "--key", key, "--json", cwd=site)).json
        assert record["bytes"] == record["disclosed"]["frame"] + 72
        assert record["disclosed"]["signature"] == 72
        shutil.copy(site / upload, server / "inbox")
    refused(pace(*MERGE, cwd=server), "give the server's key")
    report = good(pace(*MERGE, "--key", tmp_path / "server.key", "--json", cwd=server)).json
    assert [each["name"] for each in report["took_part"]] == sorted(NAMES)
    assert report["bytes"]["signature"] == 72
    for site in sites:
        returned = server / "outbox" / f"{site.name}.down"
        forged = bytearray(returned.read_bytes())
        forged[-1] ^= 1
        (site / "forged.down").write_bytes(forged)
        shutil.copy(returned.with_suffix(".roll"), site / "forged.roll")
        refused(pace(*ADOPT, "--return", "forged.down", cwd=site), "signature")
        good(pace(*ADOPT, "--return", returned, cwd=site))
    swapped = [server / "outbox" / "south.down", "--json"]
    shutil.rmtree(sites[0] / "mine.model")
    refused(pace(*ADOPT, "--return", *swapped, cwd=sites[0]), "made for another job or receiver")
    shutil.copy(server / "outbox" / "north.down", server / "saved as.down")
    inspect = ("--job", "job.pace", "--json")
    shown = good(pace("inspect", "saved as.down", *inspect, cwd=server)).json
    assert shown["signature_bytes"] == 72
    assert shown["sanity"][-1] == "a return of this job, to north"
    shown = good(pace("inspect", sites[0] / "forged.down", *inspect, cwd=server)).json
    assert shown["sanity"][-1].startswith("NOT taken (signature)")
    for file in ("south.pub", "server.key"):
        shown = good(pace("inspect", tmp_path / file, *inspect, cwd=server)).json
        assert shown["sanity"][-1] == f"the job's key of {Path(file).stem}"
    good(pace("keys", "new", "east", cwd=tmp_path))
    shown = good(pace("inspect", tmp_path / "east.pub", *inspect, cwd=server)).json
    assert shown["sanity"][-1] == "NOT among the job's keys"


def test_new_and_show_speak_of_the_same_job(pace: Preloaded, root: Path) -> None:
    words = ("new", "our.pace", "--like", "north/mine.graph", "--participant", "a,b,c")
    made = good(pace(*words, "--json", cwd=root)).json
    found = good(pace("show", "our.pace", "--json", cwd=root)).json
    assert found == {key: value for key, value in made.items() if key != "file"}
    assert found["model"]["features"] == 40
    assert found["names"]["classes"] == ["red", "green", "blue", "grey"]
    assert found["participants"] == {"minimum": 3, "names": ["a", "b", "c"]}
    shown = good(pace("show", "our.pace", cwd=root))
    assert max(map(len, shown.out.splitlines())) <= 80
    refused(pace(*words, cwd=root), "already exists")


def test_a_method_without_factors_has_no_rank() -> None:
    assert "rank" not in job(method="pace-ridge").settings
    assert job(method="pace").settings == {"rank": 6}


def test_a_job_in_int8_says_so_and_its_upload_is_as_small_as_it_said(
    pace: Preloaded, tmp_path: Path
) -> None:
    words = ("--like", "mine.graph", "--participant", "north,south", "--epochs", "2")
    write_graph(tmp_path / "mine.graph", clients(1)[0])
    made = good(pace("new", "job.pace", *words, "--numbers", "int8", "--json", cwd=tmp_path)).json
    assert made["numbers"] == "int8"
    shown = good(pace("show", "job.pace", cwd=tmp_path))
    assert "once each way, as int8" in " ".join(shown.out.split())
    good(pace(*FIT, "north.up", cwd=tmp_path))
    assert (tmp_path / "north.up").stat().st_size == made["bytes"]["upload_frame"]
    found = good(pace("inspect", "north.up", "--job", "job.pace", "--json", cwd=tmp_path)).json
    assert found["numbers"] == "int8"
    assert not any("NOT" in each for each in found["sanity"])
    record = json.loads((tmp_path / "north.egress.json").read_bytes())
    assert [each["bytes"] for each in found["tensors"]] == [
        item["bytes"] for item in record["disclosed"]["items"]
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["new", "a.txt", "--features", "4", "--classes", "2"], "ends in .pace"),
        (["new", "a.pace", "--features", "4"], "both --features and --classes"),
        (["new", "a.pace", "--like", "x.graph"], "x.graph not found"),
        (["new", "a.pace", "--features", "4", "--classes", "2", "--method", "pce"], "did you mean"),
        (["new", "a.pace", "--features", "4", "--classes", "2", "--hidden", "x"], "--hidden is"),
        (
            ["new", "a.pace", "--features", "4", "--classes", "2", "--numbers", "x"],
            "is not one of 'float32', 'float16', 'int8'",
        ),
        (["new", "a.pace", "--features", "4", "--classes", "2", "--seed", f"{2**70}"], "64 bits"),
        (
            ["new", "a.pace", "--features", "4", "--classes", "2", "--hidden", "4," * 99 + "4"],
            "use fewer",
        ),
        (["show", "x.pace"], "cannot read x.pace"),
        (["server", "merge", "x.pace", "--out", "o"], "cannot read x.pace"),
        (["client", "predict", "x.model", "x.graph", "--out", "p.csv"], "is not a model"),
        (["client", "fit", "x.pace", "x.graph"], "Missing option"),
        (["keys", "new"], "Missing argument"),
    ],
)
def test_mistakes_get_one_clear_sentence(
    pace: Preloaded, tmp_path: Path, words: list[str], says: str
) -> None:
    refused(pace(*words, cwd=tmp_path), says)
    assert list(tmp_path.iterdir()) == []


def test_a_table_in_place_of_a_graph_is_told(pace: Preloaded, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("id,label,size\na,1,2\n")
    shown = pace("partition", "--dataset", "mine.csv", cwd=tmp_path)
    refused(shown, "mine.csv is not a .graph file")
    refused(shown, "make one of tables with `pace graph import`")


@pytest.mark.parametrize(
    "words",
    [
        ["new"],
        ["show"],
        ["inspect"],
        ["keys", "new"],
        ["client", "fit"],
        ["client", "adopt"],
        ["client", "predict"],
        ["client", "evaluate"],
        ["server", "merge"],
    ],
)
def test_help_has_an_example_a_json_option_and_80_columns(
    pace: Preloaded, tmp_path: Path, words: list[str]
) -> None:
    done = good(pace(*words, "--help", cwd=tmp_path))
    assert f"pace {' '.join(words)}" in done.out.partition("Example")[2]
    assert "--json" in done.out
    assert max(map(len, done.out.splitlines())) <= 80


@pytest.mark.parametrize("held", [0, uploads.HELD], ids=["spilled", "in memory"])
def test_the_server_decodes_an_upload_twice_and_reads_a_return_once(
    root: Path, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    """When it is admitted, and when it is merged and reported on."""
    decoded, read = Counter[bytes](), Counter[str]()
    decode_rows, read_file = wire.decode_rows, untrusted.read

    def counted(frames: list[bytes], *options: Any, **more: Any) -> Any:
        decoded.update(frames)
        return decode_rows(frames, *options, **more)

    def seen(path: Path, limit: int) -> bytes:
        read[path.name] += path.parent.name == "returns"
        return read_file(path, limit)

    monkeypatch.setattr(wire, "decode_rows", counted)
    monkeypatch.setattr(untrusted, "read", seen)
    monkeypatch.setattr(uploads, "HELD", held)
    inbox, journal, out = (
        root / "server" / name for name in ("inbox", f"fresh{held}", f"away{held}")
    )
    merging.merge_files(the_job(root), [inbox], journal=journal, out=out)
    frames = [model.read_kept(root / name / "mine.local", the_job(root)).frame for name in NAMES]
    assert [decoded[frame] - 1 for frame in frames] == [2] * 3  # `model.read_kept` decodes it too
    assert [read[f"{name}.down"] for name in NAMES] == [1] * 3
