"""A sealed job by files: three sites, one of them missing for a while, and what is refused."""

import dataclasses
import json
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pace.errors import FileError, OverlapError, SettingError, SignatureError
from pace.jobs import signatures
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
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PACE_STATE", str(root / "state"))
        _play(pace, root)
    return root


def _play(pace: Preloaded, root: Path) -> None:
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


@pytest.fixture
def root(done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PACE_STATE", str(tmp_path / "root" / "state"))
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
    assert "numbers sealed" in said
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
    records = sealed_jobs.memory(key_of("north")).glob("*.json")
    assert {path.stem for path in records} == {second.digest, the_job(root).digest}


@pytest.mark.fault(54)
def test_two_overlapping_jobs_that_are_sealed_at_once_need_a_yes(root: Path) -> None:
    """While one waits for a person's answer, the other is sealed: the first asks again."""
    north, jobs = root / "north", [sealed_job(("north", *names)) for names in (("a", "b"), "acd")]
    site = load_site(north / "mine.graph", jobs[0])

    def fit(number: int, **options: Any) -> object:
        paths = (north / f"{number}.local", north / f"{number}.up")
        return client.fit_files(jobs[number], site, *paths, key=north / "north.key", **options)

    with pytest.raises(OverlapError, match="--overlapping"):
        fit(0, confirm=lambda: fit(1) is not None)
    assert (north / "1.up").exists()
    assert not (north / "0.up").exists()


def test_jobs_with_nobody_else_in_common_do_not_overlap() -> None:
    key = key_of("north")
    sealed_jobs.remember(key, sealed_job(("north", "a", "b")), b"frame", agreed=True)
    assert sealed_jobs.check_overlap(key, sealed_job(("north", "c", "d")), agreed=False) == []
    with pytest.raises(OverlapError, match="and no others"):
        sealed_jobs.check_overlap(key, sealed_job(("b", "a", "north")), agreed=False)
    for seed, told in (
        (sealed_job().seed, "all that they sent exactly"),
        (5, "their moments exactly"),
    ):
        with pytest.raises(OverlapError, match=told):
            sealed_jobs.check_overlap(key, sealed_job(("north", "a", "d"), seed=seed), agreed=False)


def test_a_damaged_record_is_said_to_be_one() -> None:
    key, made = key_of("north"), sealed_job()
    sealed_jobs.remember(key, made, b"frame", agreed=True)
    (record,) = sealed_jobs.memory(key).iterdir()
    record.write_text("{")
    with pytest.raises(FileError, match="is damaged"):
        sealed_jobs.remember(key, made, b"frame", agreed=True)


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
        key=west / "west.key",
    )
    assert (tmp_path / "west.up").read_bytes() == (west / "west.up").read_bytes()


@pytest.mark.fault(53)
def test_a_copy_of_the_key_is_the_same_key(pace: Preloaded, root: Path) -> None:
    """Neither a second upload for a job nor an overlap passes with the key under another name."""
    north = root / "north"
    shutil.copy(north / "north.key", north / "copy.key")
    (north / "link.key").symlink_to("north.key")
    before = (north / "north.up").read_bytes()
    for other in ("copy.key", "link.key"):
        for name in ("mine.local", "north.up", "north.egress.json"):
            (north / name).unlink()
        moved = load_site(north / "mine.graph", the_job(root))
        changed = dataclasses.replace(moved.graph, x=2 * moved.graph.x)
        with pytest.raises(FileError, match="another upload was sealed for this job before"):
            client.fit_files(
                the_job(root),
                dataclasses.replace(moved, graph=changed),
                *(north / name for name in ("mine.local", "north.up")),
                key=north / other,
            )
        assert not (north / "north.up").exists()
        good(pace(*FIT, "north.up", "--key", other, cwd=north))
        assert (north / "north.up").read_bytes() == before
    write_job(north / "second.pace", sealed_job(("north", "south", "east")))
    words = ("client", "fit", "second.pace", "mine.graph", "--keep", "s.local", "--yes")
    refused(pace(*words, "--upload", "s.up", "--key", "copy.key", cwd=north), "--overlapping")


@pytest.mark.fault(54)
def test_whose_part_several_sums_give_away_is_named() -> None:
    """Against the definition: a unit vector that is a combination of the jobs' rows."""
    keys = {name: name.upper() for name in "abcdefg"}

    def rows(jobs: Sequence[str]) -> list[dict[str, str]]:
        return [{name: keys[name] for name in job} for job in jobs]

    assert sealed_jobs.exposed(rows(["abcd", "bcd"])) == ["a"]
    assert sealed_jobs.exposed(rows(["abcd", "abce"])) == []
    assert sealed_jobs.exposed(rows(["gabcd", "gab"])) == []
    assert sealed_jobs.exposed(rows(["gabcd", "gab", "gcd"])) == ["g"]  # by three sums, no two
    assert sealed_jobs.exposed(rows(["abcd", "bcd", "abcd"])) == []  # it was out before
    renamed = [{"a": "1", "b": "2", "c": "3", "d": "4"}, {"x": "2", "c": "9", "d": "4"}]
    assert sealed_jobs.exposed(renamed) == ["a"]  # b by its key, c by its name
    random = np.random.default_rng(0)
    for _ in range(200):
        jobs = ["".join(n for n in keys if random.random() < 0.6) or "a" for _ in range(4)]
        found = sealed_jobs.exposed(rows(jobs))
        matrix = np.array([[float(name in job) for name in keys] for job in jobs])

        def told(name: str, some: np.ndarray) -> bool:
            unit = np.array([float(name == other) for other in keys])
            weights = np.linalg.lstsq(some.T, unit, rcond=None)[0]
            return bool(np.allclose(weights @ some, unit, atol=1e-8))

        assert found == [n for n in keys if told(n, matrix) and not told(n, matrix[:-1])]


@pytest.mark.fault(54)
def test_consent_to_an_overlap_names_whose_data_it_exposes() -> None:
    key = key_of("b")
    sealed_jobs.remember(key, sealed_job(("a", "b", "c", "d")), b"frame", agreed=True)
    with pytest.raises(OverlapError, match="give away the part of a alone"):
        sealed_jobs.check_overlap(key, sealed_job(("b", "c", "d")), agreed=False)
    (pair, all_jobs) = sealed_jobs.check_overlap(key, sealed_job(("b", "c", "d")), agreed=True)
    assert "the difference of both sums tells about a " in pair
    assert "to agree is to agree for them" in all_jobs


@pytest.mark.fault(55)
def test_invented_participants_are_not_among_the_known(
    pace: Preloaded, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, known = the_job(root), tmp_path / "known"
    prints = {name: signatures.fingerprint(key).hex() for name, key in made.keys.items()}
    shown = " ".join(pace("show", "job.pace", cwd=root / "north").out.split())
    assert all(f"{name} ({prints[name]})" in shown for name in NAMES)
    known.write_text(f"{made.keys['south']} south\n# from the telephone\n{prints['west']}\n")
    assert sealed_jobs.check_known(made, "north", known) == ["south", "west"]
    known.write_text(f"{prints['south']} south\n{prints['north']} north\n")
    with pytest.raises(SettingError, match="may have invented west"):
        sealed_jobs.check_known(made, "north", known)
    assert sealed_jobs.check_known(made, "north", known, 1) == ["south"]
    other = signatures.public_key(key_of("somebody else"))
    for mark in (prints["west"], other):
        known.write_text(f"{mark} south\n")
        with pytest.raises(SignatureError, match="ask south and the maker of the job"):
            sealed_jobs.check_known(made, "north", known)
    with monkeypatch.context() as patch:  # two keys of one short fingerprint are two keys
        patch.setattr(signatures, "fingerprint", lambda public: bytes(8))
        known.write_text(f"{other}\n{signatures.public_key(key_of('another'))}\n")
        with pytest.raises(SettingError, match="may have invented south, west"):
            sealed_jobs.check_known(made, "north", known)
    known.write_text(f"{prints['west']} south\n")
    with pytest.raises(SignatureError, match="ask south and the maker of the job"):
        sealed_jobs.check_known(made, "north", known)
    north = root / "north"
    for name in ("mine.local", "north.up"):
        (north / name).unlink()
    words = (*FIT, "north.up", "--key", "north.key", "--known", known)
    refused(pace(*words, cwd=north), "which is right")
    assert not (north / "north.up").exists()
    known.write_text("\n".join(signatures.public_key(key_of(name)) for name in NAMES))
    said = " ".join(good(pace(*words, cwd=north)).out.split())
    assert all(f"{name} ({prints[name]})" in said for name in (*NAMES, "server"))


@pytest.mark.fault(22)
def test_a_hostile_answer_to_a_sealed_job_leaves_local_in_force(
    pace: Preloaded, root: Path
) -> None:
    """Numbers of 3e38 would overflow where a receiver makes its own return of the answer."""
    north, made = root / "north", the_job(root)
    content = (north / "north.down").read_bytes()[: -signatures.TRAILER]
    frame = wire.decode(content)
    hostile = {name: torch.full_like(value, 3e38) for name, value in frame.message.items()}
    layout = wire.layout(hostile, made.numbers)
    body = wire.written(hostile, made.numbers)
    forged = wire.framed(layout, body, made.federation.digest, frame.answers)
    signed = signatures.sign(
        forged, key_of("server"), kind=signatures.RETURN, job=made.digest, name="north"
    )
    (north / "north.down").write_bytes(signed)
    shutil.rmtree(north / "mine.model")
    good(pace(*ADOPT, "--return", "north.down", "--without-roll", cwd=north))
    assert model.read_model(north / "mine.model").outcome.alpha == 0
