"""A sealed job by files: three sites, one of them missing for a while, and what is refused."""

import json
import shutil
from functools import partial
from pathlib import Path

import pytest

from pace.errors import FileError, OverlapError
from pace.jobs.job import Job, read_job, write_job
from pace.protocol import steps, wire
from pace.runtimes.files import client, model, sealed_jobs
from pace.runtimes.files.site import load_site
from tests.preloaded import Preloaded
from tests.runtimes.files.test_files import good, refused
from tests.sealed import key_of, sealed_job, write_key
from tests.sites import ADOPT, FIT, MERGE, NAMES, write_sites


@pytest.fixture(scope="module")
def done(pace: Preloaded, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A federation from beginning to end, `west` coming late; tests copy it."""
    root = tmp_path_factory.mktemp("sealed")
    server, made = root / "server", sealed_job()
    for folder in write_sites(root, made):
        name = folder.name
        write_key(folder, name)
        good(pace(*FIT, f"{name}.up", "--key", f"{name}.key", cwd=folder))
    write_key(server, "server")
    for name in NAMES[:2]:
        shutil.copy(root / name / f"{name}.up", server / "inbox")
    waiting = pace(*MERGE, "--key", "server.key", cwd=server)
    assert waiting.code == 1
    said = " ".join(waiting.out.split())
    assert "2 of at least 3 uploads are here, missing are west" in said
    assert "nothing of it can be opened" in said
    assert not (server / "outbox").exists()
    shutil.copy(root / "west" / "west.up", server / "inbox")
    merged = good(pace(*MERGE, "--key", "server.key", "--json", cwd=server))
    for each in json.loads(merged.out)["took_part"]:
        assert (each["share"], each["norm"]) == (None, None)  # nobody's can be seen
    page = (server / "outbox" / "report.md").read_text()
    assert "no client's influence can be seen" in page
    assert "| Influence |" not in page
    for name in NAMES:
        for end in ("down", "roll"):
            shutil.copy(server / "outbox" / f"{name}.{end}", root / name)
        good(pace(*ADOPT, "--return", f"{name}.down", cwd=root / name))
    return root


@pytest.fixture
def root(done: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(done, tmp_path / "root"))


def the_job(root: Path) -> Job:
    return read_job(root / "server" / "job.pace")


def test_the_same_bytes_as_in_one_process_and_the_model_that_follows(root: Path) -> None:
    made = the_job(root)
    agreed = made.federation
    fitted = {}
    for name in NAMES:
        graph = load_site(root / name / "mine.graph", made).graph
        seal = made.seal(name, key_of(name))
        fitted[name] = steps.fit(graph, agreed, seal=seal)
        assert model.read_kept(root / name / "mine.local", made).frame == fitted[name][1]
    returns = steps.merge([fitted[name][1] for name in sorted(NAMES)], agreed)
    bodies = {returned[wire.HEAD.size : -wire.CHECKSUM] for returned in returns}
    assert len(bodies) == 1  # one answer for everybody
    for name, returned in zip(sorted(NAMES), returns, strict=True):
        assert (root / "server" / "outbox" / f"{name}.down").read_bytes().startswith(returned)
        graph = load_site(root / name / "mine.graph", made).graph
        adoption = steps.adopt(graph, fitted[name][0], returned, agreed)
        assert model.read_model(root / name / "mine.model").outcome.weights == adoption.weights


def test_fit_says_what_the_server_sees_and_could_see_with_others(
    pace: Preloaded, root: Path
) -> None:
    again = good(pace(*FIT, "north.up", "--key", "north.key", cwd=root / "north"))
    said = " ".join(again.out.split())
    assert "fewer than all 3 uploads it is noise" in said
    assert "with 1 of the others it sees the sum of you and one more site" in said
    assert "with all 2 others your part alone" in said
    assert "The same upload as before" in said


def test_what_is_sealed_can_be_inspected_and_shown(pace: Preloaded, root: Path) -> None:
    seen = good(pace("inspect", "north.up", "--job", "job.pace", cwd=root / "north"))
    said = " ".join(seen.out.split())
    assert "its numbers are sealed" in said
    assert "the job takes it as the upload of north" in said
    shown = good(pace("show", "job.pace", cwd=root / "north"))
    assert "sums over all participants" in " ".join(shown.out.split())


@pytest.mark.fault(32)
def test_a_second_upload_under_the_same_masks_is_never_made(pace: Preloaded, root: Path) -> None:
    """The kept model and the upload are lost, and the site has other data now."""
    north = root / "north"
    (north / "mine.local").unlink()
    (north / "north.up").unlink()
    shutil.copy(root / "south" / "mine.graph", north / "mine.graph")
    refused(
        pace(*FIT, "north.up", "--key", "north.key", cwd=north),
        "two under the same masks would give away their difference",
    )
    assert not (north / "north.up").exists()


def test_lost_files_can_be_made_again_as_they_were(pace: Preloaded, root: Path) -> None:
    north = root / "north"
    before = (north / "north.up").read_bytes()
    (north / "mine.local").unlink()
    (north / "north.up").unlink()
    good(pace(*FIT, "north.up", "--key", "north.key", cwd=north))
    assert (north / "north.up").read_bytes() == before


def test_a_job_that_overlaps_an_earlier_one_needs_a_yes(pace: Preloaded, root: Path) -> None:
    """The same sites but for one: both sums together tell about that one."""
    others = ("north", "south", "east")
    second = sealed_job(others)
    north = root / "north"
    write_job(north / "second.pace", second)
    words = (
        *("client", "fit", "second.pace", "mine.graph", "--keep", "second.local", "--yes"),
        *("--upload", "second.up", "--key", "north.key"),
    )
    done = pace(*words, cwd=north)
    refused(done, "without west and with east")
    refused(done, "--overlapping")
    assert not (north / "second.up").exists()
    good(pace(*words, "--overlapping", cwd=north))
    key = write_key(north, "north")
    records = key.with_name(f"{key.name}.sealed").glob("*.json")
    assert {path.stem for path in records} == {second.digest, the_job(root).digest}


def test_jobs_with_nobody_else_in_common_do_not_overlap(tmp_path: Path) -> None:
    key = write_key(tmp_path, "north")
    sealed_jobs.remember(key, sealed_job(("north", "a", "b")), b"frame")
    assert sealed_jobs.check_overlap(key, sealed_job(("north", "c", "d")), agreed=False) == []
    with pytest.raises(OverlapError, match="and no others"):
        sealed_jobs.check_overlap(key, sealed_job(("b", "a", "north")), agreed=False)
    for seed, told in (
        (sealed_job().seed, "all that they sent exactly"),
        (5, "their moments exactly"),
    ):
        with pytest.raises(OverlapError, match=told):
            sealed_jobs.check_overlap(key, sealed_job(("north", "a", "d"), seed=seed), agreed=False)


def test_a_damaged_record_is_said_to_be_one(tmp_path: Path) -> None:
    key, made = write_key(tmp_path, "north"), sealed_job()
    sealed_jobs.remember(key, made, b"frame")
    (record,) = (tmp_path / "north.key.sealed").iterdir()
    record.write_text("{")
    with pytest.raises(FileError, match="is damaged"):
        sealed_jobs.remember(key, made, b"frame")


def test_keys_and_a_sealed_job_from_the_command_line(pace: Preloaded, tmp_path: Path) -> None:
    for name in (*NAMES, "server"):
        good(pace("keys", "new", name, cwd=tmp_path))
    pairs = ",".join(f"{name}={name}.pub" for name in NAMES)
    words = ("new", "job.pace", "--features", "4", "--classes", "2", "--participant", pairs)
    good(pace(*words, "--server-key", "server.pub", "--sealed", cwd=tmp_path))
    made = read_job(tmp_path / "job.pace")
    assert made.sealed
    assert made.minimum == 3
    (tmp_path / "job.pace").unlink()
    good(pace(*words, "--server-key", "server.pub", "--sealed", cwd=tmp_path))
    assert read_job(tmp_path / "job.pace").seed != made.seed  # drawn for each
    (tmp_path / "job.pace").unlink()
    old = (tmp_path / "west.pub").read_text().splitlines()[0]
    (tmp_path / "west.pub").write_text(f"{old}\n")
    refused(
        pace(*words, "--server-key", "server.pub", "--sealed", cwd=tmp_path),
        "west.pub has no sealing key",
    )
    refused(pace(*words[:-1], "a,b,c", "--sealed", cwd=tmp_path), "--sealed needs a key")


@pytest.mark.fault(32)
def test_killed_after_sealing_the_same_upload_is_made(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is written before anything can be sent; what follows may be lost."""
    north = root / "north"
    before = (north / "north.up").read_bytes()
    for name in ("mine.local", "north.up"):
        (north / name).unlink()
    made = the_job(root)
    fit = partial(
        client.fit_files,
        made,
        load_site(north / "mine.graph", made),
        north / "mine.local",
        north / "north.up",
        north / "r.json",
        key=north / "north.key",
    )
    with monkeypatch.context() as patch:
        patch.setattr(model.KeptModel, "encode", _killed)
        with pytest.raises(KeyboardInterrupt):
            fit()
    assert not (north / "north.up").exists()
    fit()
    assert (north / "north.up").read_bytes() == before


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.fault(33, 34)
def test_merged_again_and_with_a_late_upload_the_returns_stay(pace: Preloaded, root: Path) -> None:
    """`west` was late already: the first merge opened nothing, the second all."""
    server = root / "server"
    before = {path.name: path.read_bytes() for path in (server / "outbox").glob("*.down")}
    assert len(before) == 3
    shutil.rmtree(server / "outbox")
    shutil.copy(server / "inbox" / "west.up", server / "inbox" / "again.up")  # the same bytes
    good(pace(*MERGE, "--key", "server.key", cwd=server))
    after = {path.name: path.read_bytes() for path in (server / "outbox").glob("*.down")}
    assert after == before


@pytest.mark.fault(35)
def test_clocks_that_differ_change_no_byte(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A year late, and running backwards."""
    made, west = the_job(root), root / "west"
    monkeypatch.setattr("time.time", lambda: 4e9)
    monkeypatch.setattr("time.perf_counter", iter(range(1000, 0, -1)).__next__)
    client.fit_files(
        made,
        load_site(west / "mine.graph", made),
        tmp_path / "other.local",
        tmp_path / "west.up",
        tmp_path / "other.json",
        key=west / "west.key",
    )
    assert (tmp_path / "west.up").read_bytes() == (west / "west.up").read_bytes()
