import base64
import codecs
import json
import tomllib
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pace.errors import FileError, OtherJobError, SettingError
from pace.io import records
from pace.jobs.disclosure import disclosure
from pace.jobs.explain import job_facts
from pace.jobs.job import Job, digest, read_job, render_job, write_job
from pace.methods import METHODS
from pace.models.networks import GCN
from pace.protocol import layouts, number_formats, steps, wire
from pace.protocol.number_formats import KINDS
from tests.graphs import clients
from tests.sites import job

PARTIES = ("north", "south", "west", "server")
KEY = "ed25519:" + base64.b64encode(bytes(31) + b"\x01").decode()


def written(path: Path, made: Job) -> Path:
    write_job(path, made)
    return path


def test_a_job_survives_its_file(tmp_path: Path) -> None:
    for place, made in enumerate(
        [
            job(),
            job(settings={"rank": None}, participants=(), minimum=2),
            job(method="fedprox", epochs=None),
            Job("bare", GCN((5, 3)), seed=7),
            job(numbers="int8"),
        ]
    ):
        found = read_job(written(tmp_path / f"{place}.pace", made))
        assert found.content == made.content
        assert found.digest == made.digest
        assert found.federation.digest == made.federation.digest


@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_agreed_on(method: str) -> None:
    """What the file says of its training is what TOML can say."""
    made = job(method=method)
    found = tomllib.loads(render_job(made))
    assert found.pop("signed-off") == {"sha256": digest(found)} == {"sha256": made.digest}


@settings(max_examples=40)
@given(names=st.lists(st.text(min_size=1), min_size=5, max_size=5))
def test_any_names_of_features_survive(names: list[str]) -> None:
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        return  # half a character: no file has it
    made = Job("names", GCN((5, 3)), features=tuple(names))
    assert tuple(tomllib.loads(render_job(made))["names"]["features"]) == made.features


@pytest.mark.fault(13)
def test_equal_settings_are_two_jobs(tmp_path: Path) -> None:
    """The nonce: a message of one is refused by the other."""
    one, other = job(), job()
    assert one.digest != other.digest
    upload = steps.fit(clients(1)[0], one.federation)[1]
    with pytest.raises(OtherJobError, match=one.federation.digest.hex()):
        steps.check_upload(upload, other.federation)


def test_who_takes_part_is_in_the_digest() -> None:
    made = job()
    fewer = job(nonce=made.nonce, minimum=2)
    assert made.federation.digest != fewer.federation.digest


@pytest.mark.fault(15)
@pytest.mark.parametrize(
    ("change", "to"),
    [
        ("epochs = 5", "epochs = 6"),
        ("rank = 6", "rank = 5"),
        ("minimum = 3", "minimum = 2"),
        ('"south"', '"soutj"'),
        ('"grey"', '"gray"'),
        ("hidden = [16]", 'hidden = ["a"]'),
        ("rate = 0.01", "rate = 0.02"),
        ('numbers = "float32"', 'numbers = "int8"'),
    ],
)
def test_a_change_of_one_setting_is_noticed_and_both_digests_shown(
    tmp_path: Path, change: str, to: str
) -> None:
    made = job()
    path = written(tmp_path / "job.pace", made)
    text = path.read_text()
    assert text.count(change) == 1
    path.write_text(text.replace(change, to))
    with pytest.raises(OtherJobError, match=rf"digest [0-9a-f]{{16}}.*{made.digest[:16]}"):
        read_job(path)


def test_comments_spaces_and_line_ends_do_not_matter(tmp_path: Path) -> None:
    """E-mail changes line ends, an editor puts a mark before the text; no training depends on them."""
    made = job()
    path = written(tmp_path / "job.pace", made)
    changed = path.read_bytes().replace(b"\n", b"\r\n").replace(b"# W", b"#  W")
    for mark in (b"", codecs.BOM_UTF8):
        path.write_bytes(mark + changed)
        assert read_job(path).digest == made.digest


@pytest.mark.parametrize("where", ["", "[model]\n", "[method]\n", "[participants]\n"])
def test_an_unknown_key_is_refused_by_name(tmp_path: Path, where: str) -> None:
    """Of a file that other software has made, and signed off."""
    path = written(tmp_path / "job.pace", made := job())
    text = path.read_text()
    extra = f"{where}extra = 1\n"
    text = text.replace(where, extra, 1) if where else extra + text
    content = tomllib.loads(text)
    content.pop("signed-off")
    path.write_text(text.replace(made.digest, digest(content)))
    with pytest.raises(SettingError, match=r"no setting 'extra'|its (participants\.)?extra is 1"):
        read_job(path)


@pytest.mark.fault(15)
def test_a_software_that_trains_otherwise_is_noticed_with_both_values(tmp_path: Path) -> None:
    """The file is consistent, but says a momentum that this software would not use."""
    made = job()
    content = {**made.content, "training": {**made.content["training"], "momentum": 0.5}}
    text = render_job(made).replace("momentum = 0.0", "momentum = 0.5")
    (tmp_path / "job.pace").write_text(text.replace(made.digest, digest(content)))
    with pytest.raises(SettingError, match=r"training\.momentum is 0\.5, here it is 0\.0"):
        read_job(tmp_path / "job.pace")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"minimum": 4}, "minimum is 4, expected 1 to 3"),
        ({"minimum": 0}, "minimum is 0"),
        ({"numbers": "int4"}, "numbers are 'int4', expected one of float32"),
        ({"participants": ("a", "../b"), "minimum": 1}, "cannot be used"),
        ({"participants": ("a", "A"), "minimum": 1}, "same name"),
        ({"keys": {"north": "x"}}, r"missing \['server', 'south', 'west'\]"),
        ({"keys": dict.fromkeys(PARTIES, KEY)}, "the same key"),
        ({"keys": dict.fromkeys(PARTIES, "x")}, "not a public key"),
        ({"nonce": ""}, "nonce is '', expected 32"),
        ({"nonce": "0" * 31}, "expected 32 hexadecimal"),
        ({"model": GCN((40, *[8] * 64, 4))}, "65 layers, expected at most 64"),
        ({"model": GCN((40, 2000, 2000, 4))}, "shorter side is 2,000, expected at most 1,024"),
        ({"participants": (), "minimum": 2, "keys": {"server": "x"}}, "name the participants"),
        ({"participants": ("Su\u0308d",), "minimum": 1}, "composed as NFC"),
        ({"participants": ("Süd", "süd"), "minimum": 1}, "same name"),
        ({"participants": ("north", "\uff4eorth"), "minimum": 1}, "same name"),  # full width
        ({"participants": ("no\u202erth",), "minimum": 1}, "cannot be used"),  # right to left
        ({"participants": ("北" * 60,), "minimum": 1}, "cannot be used"),  # 180 bytes
        ({"classes": ("a", "b")}, "2 names for 4 classes"),
        ({"model": GCN((10**6, 10**2, 3)), "features": (), "classes": ()}, "numbers, expected at"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, object], says: str) -> None:
    settings = {"name": "small", "model": job().model, "participants": ("north", "south", "west")}
    settings |= {"minimum": 3} | changes
    with pytest.raises(SettingError, match=says):
        Job(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["süd", "Łódź", "東京", "Αθήνα", "नागपुर", "site-3_b.1"])
def test_names_have_any_letters(tmp_path: Path, name: str) -> None:
    made = job(participants=("north", name), minimum=2)
    found = read_job(written(tmp_path / "job.pace", made))
    assert found.participants == ("north", name)
    assert found.digest == made.digest


def test_a_file_that_is_there_is_never_replaced(tmp_path: Path) -> None:
    path = written(tmp_path / "job.pace", job())
    before = path.read_bytes()
    with pytest.raises(FileError, match="already exists"):
        write_job(path, job())
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[", b"format = 'pace-job-9'", b"a = 1"])
def test_what_is_no_job_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "job.pace").write_bytes(content)
    with pytest.raises(FileError, match=r"job\.pace"):
        read_job(tmp_path / "job.pace")


def test_a_job_of_a_newer_pace_says_to_update(tmp_path: Path) -> None:
    """By its format, or by a setting that this software has never heard of; both are as made."""
    path = tmp_path / "job.pace"
    for change in ({"format": "pace-job-2"}, {"weather": "fine"}):
        content = {**change, **job().content, **change}
        path.write_text(records.dump_toml({**content, "signed-off": {"sha256": digest(content)}}))
        with pytest.raises((FileError, SettingError), match=r"newer PACE.*pip install --upgrade"):
            read_job(path)
    path.write_text(render_job(job()).replace('"pace-job-1"', '"pace-graph-2"'))
    with pytest.raises(FileError, match="expected 'pace-job-1': make a job"):
        read_job(path)


@pytest.mark.parametrize("numbers", KINDS)
def test_sizes_are_known_before_anybody_trains(numbers: str) -> None:
    made = job(numbers=numbers)
    upload = steps.fit(clients(1)[0], made.federation)[1]
    (returned,) = steps.merge([upload], made.federation)
    said = job_facts(made)["sent"]
    assert f"upload {len(upload):,} bytes" in said
    assert f"return {len(returned):,} bytes" in said
    assert f"once each way, as {numbers}" in said


def test_numbers_are_in_the_file_and_in_the_federation() -> None:
    assert job().content["numbers"] == "float32"
    assert job().federation.numbers == "float32"
    assert job(numbers="int8").federation.numbers == "int8"


@pytest.mark.parametrize(
    ("numbers", "says"), [('"int4"', "numbers are 'int4'"), ("8", "numbers are 8")]
)
def test_unknown_numbers_in_a_file_are_refused(tmp_path: Path, numbers: str, says: str) -> None:
    made = job()
    text = render_job(made).replace('numbers = "float32"', f"numbers = {numbers}")
    content = {**made.content, "numbers": json.loads(numbers)}
    (tmp_path / "job.pace").write_text(text.replace(made.digest, digest(content)))
    with pytest.raises(SettingError, match=says):
        read_job(tmp_path / "job.pace")


@pytest.mark.parametrize("numbers", KINDS)
def test_what_is_disclosed_adds_up_to_the_frame(numbers: str) -> None:
    """Each tensor's bytes where they stand in a real frame, and an envelope that is the same for all."""
    federation = job(numbers=numbers).federation
    upload = steps.fit(clients(1)[0], federation)[1]
    message = steps.check_upload(upload, federation)
    found = disclosure(message, federation)
    assert found.frame == len(upload)
    place = wire.HEAD.size + len(layouts.upload_layout(federation).table)
    for item in found.items:
        part = upload[place : place + item.bytes]
        assert part == number_formats.write(message[item.name].numpy(), numbers)
        place += item.bytes
    assert len(upload) == place + wire.CHECKSUM


def test_a_moment_that_was_rounded_away_is_not_said_to_be_absent() -> None:
    said = []
    for agreed in (job(numbers=numbers).federation for numbers in ("float32", "int8")):
        blank = {name: torch.zeros(of) for name, of in layouts.upload_layout(agreed).items()}
        message = blank | {"0.weight/m": torch.tensor([0.0] + [1.0] * 39)}
        said.append(" ".join(disclosure(message, agreed).sentences))
    exact, rounded = said
    assert all("1 of 40 are exactly zero" in words for words in said)
    assert "occur nowhere in your" in exact
    assert "occur nowhere, or next to nowhere, in your" in rounded
