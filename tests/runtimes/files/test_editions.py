"""Editions of a job by files: who comes late, who leaves, who comes back, and a server that cheats."""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pace.errors import (
    EditionError,
    FileError,
    PaceError,
    RollError,
    SettingError,
    WithdrawnError,
)
from pace.io import untrusted
from pace.jobs import editions, read_job, signatures, write_job
from pace.jobs.admission import frame_of
from pace.jobs.journal import Decision, Journal
from pace.jobs.roll import roll_writer
from pace.protocol import steps
from pace.registry import METHODS
from pace.runtimes.files import Changes, adopt_files, fit_files, load_site, merge_files
from pace.runtimes.files.client import edition_changes, withdraw_files
from pace.runtimes.files.model import read_model
from tests.blocks import ROOT, blocks
from tests.graphs import clients
from tests.preloaded import KILLED, Preloaded
from tests.runtimes.files.test_files import hashes
from tests.sites import ADOPT, FIT, job, write_graph

MERGED = "server merge job.pace inbox/ --out first/ --key server.key"
SITES = ("east", "north", "south", "west", "zenith")


class Federation:
    """Five sites and a server in folders, with keys; the first four are in the job."""

    def __init__(self, root: Path, first: tuple[str, ...] = SITES[:4], **changes: object) -> None:
        self.root, self.keys = root, {}
        for name, graph in zip(SITES, clients(len(SITES)), strict=True):
            (root / name).mkdir(parents=True)
            write_graph(root / name / "mine.graph", graph)
        (root / "inbox").mkdir()
        for name in (*SITES, "server"):
            paths = (root / f"{name}.key", root / f"{name}.pub")
            self.keys[name] = signatures.new_keys(*paths)
        keys = {name: self.keys[name] for name in (*first, "server")}
        settings = {"participants": first, "minimum": len(first), "keys": keys} | changes
        self.job = job(**settings)

    def fit(self, name: str, *, serves: bool = True, edition: Path | None = None) -> Path:
        made = self.job if edition is None else editions.read_edition(edition, self.job)
        site, upload = self.root / name, self.root / "inbox" / f"{name}.up"
        upload.unlink(missing_ok=True)
        mine = load_site(site / "mine.graph", made)
        key = self.root / f"{name}.key"
        fit_files(made, mine, site / "mine.local", upload, key=key, editions=serves)
        return upload

    def merge(self, out: str, changes: Changes | None = None, **options: object):  # type: ignore[no-untyped-def]
        places = {"journal": self.root / "journal", "out": self.root / out} | options
        key, inbox = self.root / "server.key", [self.root / "inbox"]
        return merge_files(self.job, inbox, key=key, changes=changes, **places)  # type: ignore[arg-type]

    def withdraw(self, name: str, reason: str = "", edition: Path | None = None) -> Path:
        made = self.job if edition is None else editions.read_edition(edition, self.job)
        out = self.root / f"{name}.withdrawal"
        out.unlink(missing_ok=True)
        kept, key = self.root / name / "mine.local", self.root / f"{name}.key"
        withdraw_files(made, kept, out, key=key, reason=reason)
        return out

    def adopt(self, name: str, out: str, **options: object):  # type: ignore[no-untyped-def]
        site = self.root / name
        texts = {
            word: (self.root / out / f"{name}.{end}").read_bytes()
            for word, end in (("returned", "down"), ("roll", "roll"))
        }
        mine, kept = load_site(site / "mine.graph", self.job), site / "mine.local"
        return adopt_files(self.job, mine, kept, site / "mine.model", **(texts | options))  # type: ignore[arg-type]

    def frames(self, out: str, names: tuple[str, ...]) -> list[bytes]:
        paths = (self.root / out / f"{name}.down" for name in names)
        return [frame_of(path.read_bytes(), self.job) for path in paths]

    def merged(self, names: tuple[str, ...]) -> list[bytes]:
        """What a merge of these sites' uploads returns, in memory, without a journal."""
        uploads = []
        for name in names:
            content = (self.root / "inbox" / f"{name}.up").read_bytes()
            uploads.append(frame_of(content, self.job))
        return steps.merge(uploads, self.job.federation)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Federation:
    """The first edition, merged and adopted; tests copy it."""
    four = Federation(tmp_path_factory.mktemp("first") / "root")
    for name in SITES[:4]:
        four.fit(name)
    four.merge("one")
    for name in SITES[:4]:
        four.adopt(name, "one")
    return four


@pytest.fixture
def four(first: Federation, tmp_path: Path) -> Federation:
    copy = object.__new__(Federation)
    shutil.copytree(first.root, tmp_path / "root")
    copy.root, copy.keys, copy.job = tmp_path / "root", first.keys, first.job
    return copy


def zenith(four: Federation) -> Changes:
    return Changes(added={"zenith": four.keys["zenith"]})


def test_a_late_site_fits_once_and_the_others_not_at_all(four: Federation) -> None:
    waiting = four.merge("two", zenith(four))
    assert waiting.edition == 2
    assert waiting.missing == ("zenith",)
    assert not waiting.merged
    four.fit("zenith", edition=four.root / "two" / "small.2.edition")
    report = four.merge("two")
    assert report.merged
    assert four.frames("two", SITES) == four.merged(SITES)  # as if all had been there at once
    older = read_model(four.root / "north" / "mine.model").outcome
    outcome = four.adopt("north", "two")
    assert (older.edition, outcome.edition) == (1, 2)
    assert outcome.roll.merged == SITES
    kept = four.root / "north" / "mine.model.edition-1"
    assert read_model(kept).outcome == older  # still there, as it was
    said = " ".join(edition_changes(four.root / "north" / "mine.model", outcome))
    assert f"Edition 1 had α = {older.alpha:.2f}" in said
    page = (four.root / "north" / "mine.model" / "index.html").read_text()
    card = (four.root / "north" / "mine.model" / "README.md").read_text()
    assert "edition 2" in page
    assert "New: zenith" in card
    assert four.adopt("zenith", "two").edition == 2
    assert four.adopt("north", "two") == outcome  # asked again, the same answer


def test_a_leaver_leaves_nothing_but_a_tombstone(four: Federation) -> None:
    upload = (four.root / "inbox" / "south.up").read_bytes()
    path = four.withdraw("south", "the ethics board asked for it")
    (four.root / "inbox" / "south.up").unlink()
    assert four.merge("two", Changes(withdrawn=[path])).left == ("south",)
    rest = ("east", "north", "west")
    assert four.frames("two", rest) == four.merged(rest)
    sha256 = hashlib.sha256(frame_of(upload, four.job)).hexdigest()
    for file, content in hashes(four.root / "journal").items():
        assert upload[:-72] not in content, file
        assert not file.startswith("returns/"), "they hold the leaver's part"
    signed = (four.root / "two" / "south.certificate").read_bytes()
    statement = {"kind": "certificate", "job": four.job.digest, "name": "south"}
    content = json.loads(signatures.verify(signed, four.keys["server"], **statement))
    assert content["left"]["upload"] == sha256
    assert content["left"]["reason"] == "the ethics board asked for it"
    assert content["merged_before"].keys() == set(SITES[:4])
    assert content["merged_now"].keys() == set(rest)
    assert "copies" in " ".join(content["sentences"])
    outcome = four.adopt("north", "two")
    said = " ".join(edition_changes(four.root / "north" / "mine.model", outcome))
    assert "mine.model.edition-1 still holds the part of south" in said


def test_a_late_site_and_a_leaver_at_once(four: Federation) -> None:
    changes = replace(zenith(four), withdrawn=[four.withdraw("south")])
    four.merge("two", changes)
    four.fit("zenith", edition=four.root / "two" / "small.2.edition")
    report = four.merge("two")
    assert (report.new, report.left) == (("zenith",), ("south",))
    assert [(one.sender, one.code) for one in report.refused] == [("south", "withdrawn")]
    now = ("east", "north", "west", "zenith")
    assert four.frames("two", now) == four.merged(now)


def test_a_leaver_who_comes_back_signs_again_and_old_words_count_no_more(four: Federation) -> None:
    path = four.withdraw("south")
    old = (four.root / "inbox" / "south.up").read_bytes()
    four.merge("two", Changes(withdrawn=[path]))
    back = Changes(added={"south": four.keys["south"]})
    waiting = four.merge("three", back)
    assert [(one.sender, one.code) for one in waiting.refused] == [("south", "other-edition")]
    third = four.root / "three" / "small.3.edition"
    assert four.fit("south", edition=third).read_bytes() != old
    assert four.merge("three").merged
    assert four.frames("three", SITES[:4]) == four.frames("one", SITES[:4])
    assert four.adopt("north", "three", withdrawals=[path]).edition == 3
    with pytest.raises(WithdrawnError, match="has to sign again"):
        four.merge("four", Changes(withdrawn=[path]))
    four.merge("four", Changes(withdrawn=[four.withdraw("south", edition=third)]))
    assert four.frames("four", ("east", "north", "west")) == four.merged(("east", "north", "west"))


@pytest.mark.parametrize("method", list(METHODS))
def test_returns_are_those_of_a_merge_that_never_saw_the_leaver(
    tmp_path: Path, method: str
) -> None:
    """Byte for byte, signatures included, for every method."""
    saw = Federation(tmp_path / "saw", method=method, minimum=2, rate=1e-3)
    for name in SITES[:4]:
        saw.fit(name)
    shutil.copytree(saw.root, tmp_path / "never")
    saw.merge("one")
    path = saw.withdraw("south")
    saw.merge("two", Changes(withdrawn=[path]))
    never = object.__new__(Federation)
    never.root, never.keys, never.job = tmp_path / "never", saw.keys, saw.job
    (never.root / "inbox" / "south.up").unlink()
    never.merge("one")
    never.merge("two", Changes(removed=["south"]))
    for name in ("east", "north", "west"):
        found, expected = (root / "two" / f"{name}.down" for root in (saw.root, never.root))
        assert found.read_bytes() == expected.read_bytes()
    rest = ("east", "north", "west")
    assert saw.frames("two", rest) == never.frames("one", rest) == saw.merged(rest)


@pytest.mark.fault(43)
def test_without_consent_an_upload_serves_one_edition(tmp_path: Path) -> None:
    four = Federation(tmp_path / "root")
    for name in SITES[:4]:
        four.fit(name, serves=name != "north")
    four.merge("one")
    waiting = four.merge("two", Changes(withdrawn=[four.withdraw("south")]))
    assert waiting.here == ("east", "west")
    assert "north" in waiting.missing
    (refusal,) = (one for one in waiting.refused if one.sender == "north")
    assert refusal.code == "other-edition"
    four.fit("north", serves=False, edition=four.root / "two" / "small.2.edition")
    assert four.merge("two").merged
    assert four.frames("two", ("north",)) == four.merged(("east", "north", "west"))[1:2]
    assert four.adopt("east", "two").edition == 2


def forged(four: Federation, number: int, members: tuple[str, ...], serves: str = "") -> bytes:
    """East's roll of an edition that the server makes as it likes, and the return to go with it."""
    book = Journal.open(four.root / "journal", four.job)
    changed = editions.next_edition(book.job, {"zenith": four.keys["zenith"]}, {}, {})
    assert changed is not None
    key = signatures.load_key(four.root / "server.key")
    enrolled = editions.enrol(four.job, replace(changed, minimum=2))
    uploads = {name: (four.root / "inbox" / f"{name}.up").read_bytes() for name in members}
    frames = [frame_of(uploads[name], four.job) for name in members]
    frame = steps.merge(frames, four.job.federation)[members.index("east")]
    kind = editions.signed_as("return", 2)
    returned = signatures.sign(frame, key, kind=kind, job=four.job.digest, name="east")
    (four.root / "forged").mkdir(exist_ok=True)
    (four.root / "forged" / "east.down").write_bytes(returned)
    parts = {"job": enrolled, "stored": staticmethod(uploads.get)}
    missing = tuple(sorted(set(enrolled.participants) - set(members)))
    decided = Decision(four.job.digest, dict.fromkeys(members, "0" * 64), {}, missing)
    parts |= {"brought": staticmethod(lambda: None), "decided": staticmethod(lambda: decided)}
    roll = roll_writer(type("Stored", (), parts), key)("east", returned)  # type: ignore[arg-type]
    (four.root / "forged" / "east.roll").write_bytes(roll)
    return roll


@pytest.mark.fault(43)
def test_sites_notice_an_upload_that_was_merged_without_consent(tmp_path: Path) -> None:
    four = Federation(tmp_path / "root")
    for name in SITES[:4]:
        four.fit(name, serves=name != "north")
    four.merge("one")
    four.adopt("east", "one")
    forged(four, 2, SITES[:4])
    with pytest.raises(RollError, match=r"'north' that it did not sign for this edition"):
        four.adopt("east", "forged")
    assert read_model(four.root / "east" / "mine.model").outcome.edition == 1
    forged(four, 2, ("east", "south", "west"))
    assert four.adopt("east", "forged").edition == 2  # without north it is honest


@pytest.mark.fault(44)
def test_sites_notice_a_server_that_ignores_a_withdrawal(four: Federation) -> None:
    path = four.withdraw("south", "recalled")
    forged(four, 2, SITES[:4])  # the next edition, with south in it
    with pytest.raises(WithdrawnError, match="'south' withdrew its upload"):
        four.adopt("east", "forged", withdrawals=[path])
    assert read_model(four.root / "east" / "mine.model").outcome.edition == 1
    assert not (four.root / "east" / "mine.model.edition-1").exists()
    changed = bytearray(path.read_bytes())
    changed[20] ^= 1
    path.write_bytes(changed)
    with pytest.raises(PaceError):  # nobody can withdraw for another
        four.adopt("east", "forged", withdrawals=[path])


@pytest.mark.fault(45)
def test_another_edition_is_told_from_tampering(four: Federation) -> None:
    four.merge("two", Changes(withdrawn=[four.withdraw("south")]))
    mixed = four.root / "mixed"
    mixed.mkdir()
    shutil.rmtree(four.root / "north" / "mine.model")
    shutil.copy(four.root / "one" / "north.down", mixed)
    shutil.copy(four.root / "two" / "north.roll", mixed)
    with pytest.raises(EditionError, match="return is of edition 1, its roll of edition 2"):
        four.adopt("north", "mixed")
    shutil.copy(four.root / "two" / "north.down", mixed)
    shutil.copy(four.root / "one" / "north.roll", mixed)
    with pytest.raises(EditionError, match="return is of edition 2, its roll of edition 1"):
        four.adopt("north", "mixed")
    four.adopt("north", "two")
    with pytest.raises(FileError, match="holds another model, of edition 2"):
        four.adopt("north", "one")  # there is no way back to what holds south's part


@pytest.mark.fault(45)
def test_two_second_editions_are_noticed(four: Federation) -> None:
    """A server that tells a site one history and then another one."""
    shutil.copytree(four.root / "journal", four.root / "other")
    four.merge("two", Changes(withdrawn=[four.withdraw("south")]))
    four.adopt("north", "two")
    other = {"journal": four.root / "other"}
    four.merge("not two", Changes(removed=["west"]), **other)
    four.merge("three", Changes(removed=["east"]), **other)
    with pytest.raises(EditionError, match="tells of another edition 2"):
        four.adopt("north", "three")


def test_sealed_jobs_and_jobs_without_keys_have_one_edition(tmp_path: Path) -> None:
    four = Federation(tmp_path / "root")
    keys = {name: signatures.load_key(tmp_path / "root" / f"{name}.key") for name in SITES[:4]}
    sealing = {name: signatures.sealing_key(key) for name, key in keys.items()}
    sealed = Federation(tmp_path / "sealed")
    sealed.job = replace(four.job, sealing=sealing)
    sealed.root = four.root
    with pytest.raises(SettingError, match="difference of two sums"):
        sealed.merge("two", zenith(four))
    with pytest.raises(SettingError, match="difference of two sums"):
        sealed.fit("north", serves=True)
    sealed.fit("north", serves=False)
    with pytest.raises(SettingError, match="difference of two sums"):
        sealed.withdraw("north")
    plain = Federation(tmp_path / "plain", keys={})
    with pytest.raises(SettingError, match="has no keys"):
        plain.merge("two", zenith(four), journal=tmp_path / "another")
    plain.fit("north", serves=False)
    with pytest.raises(SettingError, match="has no keys"):
        plain.withdraw("north")


def test_nobody_leaves_for_another_or_twice(four: Federation) -> None:
    path = four.withdraw("south")
    content = untrusted.read(path, 10**6)
    said = json.loads(content[:-72])
    key = signatures.load_key(four.root / "north.key")
    text = json.dumps(said).encode()
    statement = {"kind": "withdrawal", "job": four.job.digest, "name": "south"}
    path.write_bytes(signatures.sign(text, key, **statement))
    with pytest.raises(PaceError, match="signed by key"):
        four.merge("two", Changes(withdrawn=[path]))
    path.write_bytes(content)
    assert four.merge("two", Changes(withdrawn=[path])).edition == 2
    assert (
        four.merge("two", Changes(withdrawn=[path])).edition == 2
    )  # asked again: no third edition
    with pytest.raises(SettingError, match="'nobody' is not in edition 2"):
        four.merge("three", Changes(removed=["nobody"]))
    with pytest.raises(SettingError, match="with another key"):
        four.merge("three", Changes(added={"north": four.keys["zenith"]}))


def after_kills(pace: Preloaded, start: Path, *words: str, ends: int = 0) -> Iterator[Path]:
    """For each step on the disk: a copy in which the command was killed there and then run again."""
    work = start.with_name("work")
    for step in range(1, 1000):
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(start, work)
        killed = pace(*words, cwd=work, kill_at=step)
        if killed.code == ends:
            assert step > 3, "no step was found"
            return
        assert killed.code == KILLED, killed.err
        yield work


def server_folder(four: Federation, folder: Path) -> Path:
    """All that the server has, in a folder of its own, and what sites have sent it."""
    folder.mkdir()
    write_job(folder / "job.pace", four.job)
    shutil.copytree(four.root / "journal", folder / "job.journal")
    for name in ("server.key", "zenith.pub"):
        shutil.copy(four.root / name, folder)
    shutil.copy(four.withdraw("south"), folder)
    return folder


@pytest.mark.fault(46)
@pytest.mark.parametrize("change", ["a leaver", "a late one", "both"])
def test_an_edition_killed_at_any_moment_ends_in_the_same_bytes(
    four: Federation, pace: Preloaded, tmp_path: Path, change: str
) -> None:
    """Uploads are taken from the journal: an inbox may not bring the leaver's back."""
    start = server_folder(four, tmp_path / "start")
    merge = ("server", "merge", "job.pace", "--out", "two", "--key", "server.key")
    late, leaves = ("--add", "zenith.pub"), ("--withdrawal", "south.withdrawal")
    words = (*merge, *{"a leaver": leaves, "a late one": late, "both": (*late, *leaves)}[change])
    whole, ends = tmp_path / "whole", 1 if "--add" in words else 0  # it waits for who is new
    shutil.copytree(start, whole)
    assert pace(*words, cwd=whole).code == ends
    expected = hashes(whole)
    for work in after_kills(pace, start, *words, ends=ends):
        assert pace(*words, cwd=work).code == ends
        found = {name: text for name, text in hashes(work).items() if "/." not in f"/{name}"}
        assert found == expected
        assert (work / "job.journal" / "uploads" / "north.up").exists()
        gone = "--withdrawal" in words
        assert (work / "job.journal" / "uploads" / "south.up").exists() != gone


def site_folder(four: Federation, name: str, folder: Path) -> Path:
    """All that a site has, in a folder of its own."""
    shutil.copytree(four.root / name, folder)
    write_job(folder / "job.pace", four.job)
    shutil.copy(four.root / f"{name}.key", folder / "mine.key")
    return folder


@pytest.mark.fault(46)
def test_a_site_that_is_killed_while_it_adopts_again_loses_no_model(
    four: Federation, pace: Preloaded, tmp_path: Path
) -> None:
    four.merge("two", Changes(withdrawn=[four.withdraw("south")]))
    start = site_folder(four, "north", tmp_path / "north")
    for end in ("down", "roll"):
        shutil.copy(four.root / "two" / f"north.{end}", start)
    older = read_model(start / "mine.model")
    outcome = four.adopt("north", "two")
    words = (*ADOPT, "--return", "north.down")
    for work in after_kills(pace, start, *words):
        kept = [path for path in work.glob("mine.model*") if path.suffix != ".part"]
        assert kept, "neither the model before nor the one after is there"
        assert all(read_model(path) for path in kept)
        assert pace(*words, cwd=work).code == 0
        found = read_model(work / "mine.model").outcome
        assert replace(found, adopted=outcome.adopted) == outcome
        assert read_model(work / "mine.model.edition-1").outcome == older.outcome
        assert not list(work.glob(".*"))


@pytest.mark.fault(46)
def test_a_late_site_that_is_killed_at_any_step_sends_one_upload(
    four: Federation, pace: Preloaded, tmp_path: Path
) -> None:
    four.merge("two", zenith(four))
    start = site_folder(four, "zenith", tmp_path / "zenith")
    shutil.copy(four.root / "two" / "small.2.edition", start)
    expected = four.fit("zenith", edition=start / "small.2.edition").read_bytes()
    options = ("--key", "mine.key", "--edition", "small.2.edition", "--editions")
    words = (*FIT, "zenith.up", *options)
    for work in after_kills(pace, start, *words):
        if (work / "zenith.up").exists():
            assert (work / "zenith.up").read_bytes() == expected
        assert pace(*words, cwd=work).code == 0
        assert (work / "zenith.up").read_bytes() == expected
        assert not list(work.glob(".*"))


@pytest.mark.fault(46)
def test_a_withdrawal_is_whole_or_absent_whenever_it_is_killed(
    four: Federation, pace: Preloaded, tmp_path: Path
) -> None:
    start = site_folder(four, "south", tmp_path / "south")
    words = ("client", "withdraw", "job.pace", "--kept", "mine.local", "--key", "mine.key")
    for work in after_kills(pace, start, *words):
        path = work / "mine.withdrawal"
        done = pace(*words, cwd=work)
        assert done.code == 0 or "send it, or choose another" in done.err
        assert editions.read_withdrawal(path, four.job).name == "south"


def test_what_comes_has_to_follow_the_edition_before_also_after_a_kill(four: Federation) -> None:
    """Killed when the older model was moved away: the newest one beside it says what is known."""
    shutil.copytree(four.root / "journal", four.root / "other")
    four.merge("two", Changes(withdrawn=[four.withdraw("south")]))
    four.adopt("north", "two")
    four.merge("not two", Changes(removed=["west"]), journal=four.root / "other")
    four.merge("three", Changes(removed=["east"]), journal=four.root / "other")
    (four.root / "north" / "mine.model").rename(four.root / "north" / "mine.model.edition-2")
    with pytest.raises(EditionError, match="tells of another edition 2"):
        four.adopt("north", "three")


def test_the_commands_of_the_page_run(pace: Preloaded, tmp_path: Path) -> None:
    """Those of docs/site.md, in order, each at its party; files are carried in between."""
    root = tmp_path / "root"
    four = Federation(root, first=("north", "south", "west"))
    for folder in (*(root / name for name in SITES), root):
        write_job(folder / "job.pace", replace(four.job, name="job"))
    four.job = replace(four.job, name="job")
    for name in SITES:
        shutil.copy(root / f"{name}.key", root / name)
    for name in ("south", "west"):
        four.fit(name)
    page = ROOT / "docs" / "site.md"
    block = next(
        b for b in blocks(page) if b.mark("run by") == str(Path(__file__).relative_to(ROOT))
    )
    for line in block.text.splitlines():
        words = shlex.split(line)[1:]
        party = next((name for name in SITES if f"{name}." in line and words[0] == "client"), "")
        words += ["--yes", "--device", "cpu"] if words[1] == "fit" else []
        shutil.copytree(
            root / "second", root / "east", dirs_exist_ok=True
        ) if party == "east" else 0
        done = pace(*words, cwd=root / party)
        waiting = "--add" in words
        assert done.code == (1 if waiting else 0), done.err
        for upload in (root / party).glob("*.up") if party else ():
            shutil.copy(upload, root / "inbox")
        if party == "north":  # the first edition is merged before the second begins
            assert pace(*shlex.split(MERGED), cwd=root).code == 0
        if party == "south":
            shutil.copy(root / "south" / "mine.withdrawal", root / "south.withdrawal")
    assert four.frames("third", ("east", "north", "west")) == four.merged(("east", "north", "west"))


def test_inspect_tells_records_apart_and_whose_word_they_are(
    four: Federation, pace: Preloaded
) -> None:
    four.merge("two", replace(zenith(four), withdrawn=[four.withdraw("south", "recalled")]))
    four.fit("zenith", edition=four.root / "two" / "small.2.edition")
    four.merge("two")
    write_job(four.root / "job.pace", four.job)
    expected = {
        "two/small.2.edition": ("edition", "signed by the server, for this job"),
        "two/north.roll": ("roll", "signed by the server, for this job"),
        "two/south.certificate": ("certificate", "signed by the server, for this job"),
        "south.withdrawal": ("withdrawal", "signed by south, for this job"),
    }
    for name, (kind, sanity) in expected.items():
        found = pace("inspect", name, "--job", "job.pace", "--json", cwd=four.root).json
        assert (found["kind"], found["sanity"][-1]) == (kind, sanity)
        path = four.root / name
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        changed = pace("inspect", name, "--job", "job.pace", "--json", cwd=four.root).json
        assert changed["sanity"][-1].startswith("NOT of this job (signature)")
    journal = pace("inspect", "journal", "--json", cwd=four.root).json
    assert (journal["edition"], journal["missing"]) == (2, [])
    assert journal["returns"] == ["east", "north", "west", "zenith"]


def test_nothing_is_asked_or_logged_where_another_upload_is_in_the_way(four: Federation) -> None:
    four.merge("two", Changes(withdrawn=[four.withdraw("south")]))
    made = editions.read_edition(four.root / "two" / "small.2.edition", four.job)
    site, upload = four.root / "north", four.root / "inbox" / "north.up"
    mine, key = load_site(site / "mine.graph", made), four.root / "north.key"
    with pytest.raises(FileError, match="signed for another edition"):
        fit_files(
            made, mine, site / "mine.local", upload, key=key, tell=lambda _: pytest.fail("asked")
        )


def test_the_next_job_is_on_the_same_footing(pace: Preloaded, four: Federation) -> None:
    write_job(four.root / "job.pace", four.job)
    words = ("new", "next.pace", "--from", "job.pace", "--add", "zenith.pub", "--remove", "south")
    assert pace(*words, cwd=four.root).code == 0
    made = read_job(four.root / "next.pace")
    assert made.participants == ("east", "north", "west", "zenith")
    assert made.keys == {name: four.keys[name] for name in (*made.participants, "server")}
    assert (made.minimum, made.nonce != four.job.nonce) == (4, True)
    same = ("model", "training", "method", "names", "numbers")
    assert [made.content[key] for key in same] == [four.job.content[key] for key in same]
    done = pace("new", "more.pace", "--from", "job.pace", "--remove", "zenith", cwd=four.root)
    assert done.code == 2
    assert "--remove zenith" in done.err
