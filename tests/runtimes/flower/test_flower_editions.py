"""Five sites on a real deployment: who comes late, who leaves, who comes back, and a second job.

Returns are compared, signatures included, with those that the same uploads give by files.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs pace-network[flower]: run `make test-flower`")
from pace.jobs import Job, signatures, write_job
from pace.runtimes.files import Changes, merge_files, read_model
from pace.runtimes.files.client import withdraw_files
from pace_network.flower import kits
from tests.deployment import BIN, LONG, MARKS, Deployment, free_port, wait
from tests.graphs import clients
from tests.sites import job, write_graph

SITES = ("east", "north", "south", "west", "zenith")
FIRST = SITES[:4]
pytestmark = MARKS


class Hospitals(Deployment):
    """Four sites with keys in a job, and a fifth one that is not in it yet."""

    def found(self) -> None:
        (self.work / "keys").mkdir()
        self.publics = {
            name: signatures.new_keys(
                self.work / "keys" / f"{name}.key", self.work / "keys" / f"{name}.pub"
            )
            for name in (*SITES, "server")
        }
        keys = {name: self.publics[name] for name in (*FIRST, "server")}
        self.job = job(participants=FIRST, minimum=4, keys=keys)
        write_job(self.work / "job.pace", self.job)
        self.provision(self.work / "job.pace")
        shutil.copy(self.key("server"), self.server)
        for name in FIRST:
            self.furnish(name)

    def key(self, name: str) -> Path:
        return self.work / "keys" / f"{name}.key"

    def furnish(self, name: str) -> None:
        """What a site adds to its kit: graph, key, and that its upload may serve later editions."""
        kit = self.work / "kits" / name
        write_graph(kit / "mine.graph", clients(5)[SITES.index(name)])
        shutil.copy(self.key(name), kit)
        (kit / "jobs").mkdir()
        with (kit / "node.toml").open("a") as file:
            file.write("editions = true\n")

    def go(self, *words: str) -> dict[str, Any]:
        return self.ended(self.run("--deadline", "400", *words))

    def ended(self, running: subprocess.Popen[bytes]) -> dict[str, Any]:
        """The report of a run that went well."""
        out, err = running.communicate()
        assert running.returncode == 0, (out.decode(), err.decode())
        return self.told(out)

    def told(self, out: bytes) -> dict[str, Any]:
        """The report of a run; with `pytest -s`, what it took."""
        told = json.loads(out)
        report: dict[str, Any] = told["report"]
        asked = [one["step"] for one in report["contacts"] if one["code"] == "ok"]
        self.took = told["bytes"], asked.count("upload"), asked.count("return")
        words = "{} bytes over the link, {} uploads, {} returns".format(*self.took)
        print(f"edition {report['edition']}: {told['seconds']:.1f} s, {words}")
        return report

    def state(self, name: str, made: Job | None = None) -> Path:
        return self.work / "kits" / name / "state" / (made or self.job).digest[:16]

    def withdraw(self, name: str) -> Path:
        out = self.work / f"{name}.withdrawal"
        withdraw_files(self.job, self.state(name) / "local", out, key=self.key(name), reason="ours")
        return out

    def by_files(self, out: str, changes: Changes | None = None) -> dict[str, bytes]:
        """What the same uploads give in a journal of its own, merged as files."""
        inbox = self.work / "inbox"
        inbox.mkdir(exist_ok=True)
        for pattern in ("*.up", "edition-*/*.up"):  # a later edition's after the first one's
            for path in self.work.glob(f"kits/*/state/{self.job.digest[:16]}/{pattern}"):
                shutil.copy(path, inbox)
        journal, place, key = self.work / "by-files", self.work / out, self.key("server")
        merge_files(self.job, [inbox], journal=journal, out=place, key=key, changes=changes)
        return {path.stem: path.read_bytes() for path in (self.work / out).glob("*.down")}

    def returns(self, number: int) -> dict[str, bytes]:
        """What sites have got of an edition."""
        found = {}
        for name in SITES:
            place = self.state(name) if number == 1 else self.state(name) / f"edition-{number}"
            if (path := place / f"{name}.down").exists():
                found[name] = path.read_bytes()
        return found


def test_five_sites_come_leave_and_come_back(tmp_path: Path) -> None:
    here = Hospitals(tmp_path)
    here.found()
    kit_before = contents(tmp_path / "kits" / "north")
    try:
        here.serve(len(FIRST))
        for name in FIRST:
            here.start(name)
        assert here.go()["edition"] == 1
        assert here.returns(1) == here.by_files("one")
        late_and_leaver(here)
        a_leaver_comes_back(here)
        a_second_job(here)
        certificates_are_renewed(here)
        untouched = {"ca.crt", "mine.graph", "node.toml", "north.key", "state", "jobs"}
        after = contents(tmp_path / "kits" / "north")
        assert {key: after[key] for key in kit_before if key not in untouched} == {
            key: value for key, value in kit_before.items() if key not in untouched
        }
    finally:
        here.close()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def late_and_leaver(here: Hospitals) -> None:
    """Both at once; the run is killed when the edition begins and when it is decided, and run again."""
    words = ["flower", "provision", "job.pace", "--out", "kits", "--add", "zenith", "--json"]
    subprocess.run([str(BIN / "pace"), *words], cwd=here.work, check=True)
    here.furnish("zenith")
    toml = here.work / "kits" / "zenith" / "node.toml"
    lines = [line for line in toml.read_text().splitlines() if not line.startswith("port")]
    toml.write_text("\n".join([*lines, f"port = {free_port()}\n"]))
    public = here.server / "nodes" / "zenith.pub"
    told = here.pace("register", str(public)).communicate()[0]
    assert "zenith" in json.loads(told)["nodes"]
    withdrawal = here.withdraw("south")
    change = ("--add", str(here.work / "keys" / "zenith.pub"), "--withdrawal", str(withdrawal))
    record = here.server / "job.report" / "edition-2" / "small.2.edition"
    killed_at(here, record, *change)
    here.start("zenith")  # its kit has no edition yet: it says so, and its person puts it there
    running = here.run("--deadline", "400", *change)
    wait(lambda: "put its .edition file into" in here.log("zenith"), LONG)
    assert "other-edition" in here.log("zenith")
    running.kill()
    running.communicate()
    shutil.copy(record, here.work / "kits" / "zenith" / "jobs")
    edition = here.server / "job.journal" / "editions" / "2"
    killed_at(here, edition / "closed.json", "--deadline", "400", *change)
    report = here.go(*change)
    assert (report["edition"], report["new"], report["left"]) == (2, ["zenith"], ["south"])
    asked = {one["name"] for one in report["contacts"] if one["step"] == "upload"}
    assert not asked & set(FIRST), "they were merged from the journal"
    added = {"zenith": here.publics["zenith"]}
    assert here.returns(2) == here.by_files("two", Changes(added, [withdrawal]))
    assert here.returns(2).keys() == set(SITES) - {"south"}
    assert (record.parent / "south.certificate").exists()
    older = read_model(here.state("north") / "model.edition-1").outcome
    assert (older.edition, read_model(here.state("north") / "model").outcome.edition) == (1, 2)
    assert "still holds the part of south" in here.log("north")


def killed_at(here: Hospitals, path: Path, *words: str) -> None:
    """A run whose process is killed as soon as a file is there."""
    running = here.run(*words)
    wait(path.exists, LONG)
    running.kill()
    running.communicate()


def a_leaver_comes_back(here: Hospitals) -> None:
    """Its first upload counts no more; its person puts the new edition into its folder of jobs."""
    record = here.server / "job.report" / "edition-3" / "small.3.edition"
    add = ("--add", str(here.work / "keys" / "south.pub"))
    running = here.run("--deadline", "400", *add)
    wait(record.exists, LONG)
    shutil.copy(record, here.work / "kits" / "south" / "jobs")
    assert here.ended(running)["edition"] == 3
    assert here.took[1:] == (1, 5)  # of a new job: five uploads, and five trainings
    added = Changes({"south": here.publics["south"]})
    assert here.returns(3) == here.by_files("three", added)
    assert here.returns(3).keys() == set(SITES)


def a_second_job(here: Hospitals) -> None:
    """On running nodes: the sites that agree put its file into their folder of jobs."""
    keys = {name: here.publics[name] for name in (*SITES, "server")}
    made = job(participants=SITES, minimum=4, keys=keys, epochs=6)
    for place in (here.work, *(here.work / "kits" / name / "jobs" for name in FIRST)):
        write_job(place / "next.pace", made)  # zenith has not agreed
    codes = set()
    for deadline in (20, 40, 80, 160):  # on a slow machine uploads come too late: it is run again
        process = here.run("--job", str(here.work / "next.pace"), "--deadline", str(deadline))
        out, err = process.communicate()
        codes |= {one["code"] for one in json.loads(out)["report"]["contacts"]}
        if process.returncode == 0:
            break
    assert process.returncode == 0, (out.decode(), err.decode())
    assert [one["name"] for one in here.told(out)["took_part"]] == list(FIRST)
    assert "other-job" in codes
    assert "if this site agrees to it" in here.log("zenith")
    for name in FIRST:
        assert (here.state(name, made) / "model" / "README.md").exists()


def certificates_are_renewed(here: Hospitals) -> None:
    """The server starts again with them, and nodes that know the authority's former one join."""
    old = (here.work / "kits" / "north" / "ca.crt").read_bytes()
    kits.renew(here.work / "kits")
    (here.work / "kits" / "north" / "ca.crt").write_bytes(old)  # north has not got its own yet
    joined = {name: here.log(name).count("SuperNode ID") for name in ("north", "west")}
    for name in (*joined, "server"):
        here.stop(name)
    (here.work / "server.log").unlink()
    here.serve(len(SITES))
    for name in joined:
        here.start(name)
    wait(lambda: all(here.log(n).count("SuperNode ID") > joined[n] for n in joined), LONG)


def test_ctrl_c_ends_the_run_and_says_how_to_go_on(tmp_path: Path) -> None:
    """The process carries the run out, so the run ends with it, and the SuperLink knows."""
    alone = Deployment(tmp_path)
    write_job(tmp_path / "job.pace", job())
    alone.provision(tmp_path / "job.pace")
    try:
        alone.serve(3)
        running = alone.run()
        assert running.stderr is not None
        first = running.stderr.readline().decode()
        number = first.split()[1]
        assert f"pace flower stop {number} --kit" in first
        status = alone.server / "job.report" / "status.html"
        wait(status.exists, LONG)  # the round has begun, and waits for sites
        running.send_signal(signal.SIGINT)
        out, err = running.communicate()
        assert running.returncode == 1
        assert json.loads(out)["status"] == "finished:failed"
        assert "interrupted" in json.loads(out)["why"]
        assert b"Traceback" not in err
        told = json.loads(alone.pace("status", number).communicate()[0])["runs"]
        assert told[0]["status"] == "finished:failed"
    finally:
        alone.close()
