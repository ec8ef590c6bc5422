"""Sites are separate processes in separate folders, and can be killed at any moment."""

import shutil
from pathlib import Path

import pytest

from tests.preloaded import KILLED, Done, Preloaded
from tests.runtimes.files.test_files import hashes
from tests.sites import ADOPT, FIT, MERGE, NAMES, job, write_sites


@pytest.mark.fault(25, 27)
def test_each_command_touches_its_own_folder_and_only_messages_cross(
    pace: Preloaded, tmp_path: Path
) -> None:
    """While one party works, the others' folders are not there; what it touched is written down."""
    root, away = tmp_path / "root", tmp_path / "away"
    away.mkdir()
    for folder in (*write_sites(root, job()), root / "server"):
        folder.rename(away / folder.name)
    crossed = []

    def at(party: str, *words: object) -> None:
        before = {each.name: hashes(each) for each in away.iterdir() if each.name != party}
        (away / party).rename(root / party)
        done = pace(*words, cwd=root / party, watch=str(tmp_path))
        assert done.code == 0, done.err
        own = str(root / party)
        assert done.touched
        assert all(path == own or path.startswith(f"{own}/") for path in done.touched)
        assert [each.name for each in root.iterdir()] == [party]
        (root / party).rename(away / party)
        assert before == {name: hashes(away / name) for name in before}

    def carry(file: str, to: str) -> None:
        shutil.copy(away / file, away / to)
        crossed.append(Path(file).suffix)

    for name in NAMES:
        at(name, *FIT, f"{name}.up")
        carry(f"{name}/{name}.up", "server/inbox")
    at("server", *MERGE)
    for name in NAMES:
        carry(f"server/outbox/{name}.down", name)
        carry(f"server/outbox/{name}.roll", name)
        at(name, *ADOPT, "--return", f"{name}.down")
        at(name, "client", "predict", "mine.model", "mine.graph", "--out", "p.csv")
    assert sorted(crossed) == [".down"] * 3 + [".roll"] * 3 + [".up"] * 3
    assert {path.name for path in away.rglob("*.local")} == {"mine.local"}
    assert not list((away / "server").rglob("*.graph"))
    assert not list((away / "server").rglob("*.local"))


def interrupted(
    pace: Preloaded, start: Path, work: Path, words: tuple[object, ...], same: tuple[str, ...]
) -> int:
    """Kill the command at its first step on the disk, its second, ...; each time run it again.

    Whatever is visible after the kill, and all of it after the repetition, is as in a run that
    nobody disturbed. `same` are the ends of names whose bytes must be equal; other files hold a time.
    """
    shutil.copytree(start, work)
    assert pace(*words, cwd=work).code == 0
    whole = hashes(work)

    def agrees(found: dict[str, bytes]) -> bool:
        return all(found[name] == whole[name] for name in found if name.endswith(same))

    for step in range(1, 1000):
        shutil.rmtree(work)
        shutil.copytree(start, work)
        killed: Done = pace(*words, cwd=work, kill_at=step)
        if killed.code == 0:
            return step - 1
        assert killed.code == KILLED, killed.err
        left = {
            name: content
            for name, content in hashes(work).items()
            if not any(part.startswith(".") for part in Path(name).parts)
        }
        assert set(left) <= set(whole)
        assert agrees(left), f"a half file after step {step}"
        again = pace(*words, cwd=work)
        assert again.code == 0, again.err
        found = hashes(work)
        assert set(found) == set(whole), f"after step {step}"
        assert agrees(found), f"after step {step}"
    raise AssertionError("it never ended")


@pytest.fixture(scope="module")
def sent(pace: Preloaded, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three uploads in the server's inbox; nothing merged yet."""
    root = tmp_path_factory.mktemp("sent")
    for site in write_sites(root, job()):
        assert pace(*FIT, f"{site.name}.up", cwd=site).code == 0
        shutil.copy(site / f"{site.name}.up", root / "server" / "inbox")
    return root


@pytest.mark.fault(19)
def test_fit_killed_at_any_moment(pace: Preloaded, tmp_path: Path) -> None:
    north, *_ = write_sites(tmp_path / "root", job())
    words = (*FIT, "north.up")
    assert interrupted(pace, north, tmp_path / "work", words, (".up", ".graph", ".pace")) > 10


@pytest.mark.fault(18)
def test_merge_killed_at_any_moment(pace: Preloaded, tmp_path: Path) -> None:
    """Two uploads and a hostile file: every file of a merge is among these."""
    sites = write_sites(tmp_path / "root", job(minimum=2))[:2]
    inbox = tmp_path / "root" / "server" / "inbox"
    for site in sites:
        assert pace(*FIT, f"{site.name}.up", cwd=site).code == 0
        shutil.copy(site / f"{site.name}.up", inbox)
    (inbox / "east.up").write_bytes(b"noise")
    assert interrupted(pace, inbox.parent, tmp_path / "work", MERGE, ("",)) > 30


@pytest.mark.fault(19)
def test_adopt_killed_at_any_moment(pace: Preloaded, sent: Path, tmp_path: Path) -> None:
    shutil.copytree(sent / "server", tmp_path / "server")
    assert pace(*MERGE, cwd=tmp_path / "server").code == 0
    shutil.copytree(sent / "north", tmp_path / "north")
    for suffix in (".down", ".roll"):
        shutil.copy(tmp_path / "server" / "outbox" / f"north{suffix}", tmp_path / "north")
    words = (*ADOPT, "--return", "north.down")
    kinds = (".safetensors", ".local", ".down", ".roll", ".pace")
    assert interrupted(pace, tmp_path / "north", tmp_path / "work", words, kinds) > 12


@pytest.mark.fault(20)
@pytest.mark.parametrize("target", ["mine.local", "outbox"])
def test_a_place_that_cannot_be_written_gets_one_sentence(
    pace: Preloaded, sent: Path, tmp_path: Path, target: str
) -> None:
    """A file where a folder should be; even an administrator cannot write there."""
    (tmp_path / "file").write_text("in the way")
    if target == "outbox":
        words = [tmp_path / "file" / "outbox" if word == "outbox" else word for word in MERGE]
        shutil.copytree(sent / "server", tmp_path / "server")
        done = pace(*words, cwd=tmp_path / "server")
    else:
        site = sent / "south"
        words = [tmp_path / "file" / target if word == target else word for word in FIT]
        done = pace(*words, tmp_path / "south.up", cwd=site)
    assert done.code == 2
    assert "Traceback" not in done.err
    assert "pace: " in done.err
