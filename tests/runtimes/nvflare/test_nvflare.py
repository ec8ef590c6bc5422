"""NVFlare: the exported job, in its simulator, and in a provisioned federation with TLS."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pace.errors import FileError
from pace.jobs import Job
from pace.protocol import steps
from pace_network.nvflare import COMPONENTS, allow_components, export
from tests.deployment import descendants, free_port, kill, wait
from tests.graphs import clients
from tests.networked import only
from tests.preloaded import Preloaded
from tests.sites import NAMES, job, write_graph, write_sites


def made(root: Path, **changes: object) -> Job:
    agreed = job(**changes)
    write_sites(root, agreed)
    export(root / "server/job.pace", root / "nv")
    return agreed


def test_an_exported_job_brings_no_code(tmp_path: Path) -> None:
    made(tmp_path)
    files = sorted(
        str(path.relative_to(tmp_path / "nv")) for path in (tmp_path / "nv").rglob("*.*")
    )
    assert [name for name in files if name.startswith("job/")] == [
        "job/app/config/config_fed_client.json",
        "job/app/config/config_fed_server.json",
        "job/meta.json",
    ]
    server = json.loads((tmp_path / "nv/job/app/config/config_fed_server.json").read_text())
    assert [flow["path"] for flow in server["workflows"]] == [f"{COMPONENTS}.RoundController"]
    with pytest.raises(FileError, match="already exists"):
        export(tmp_path / "server/job.pace", tmp_path / "nv")


def test_a_kit_allows_two_classes_more_and_keeps_what_it_has(
    pace: Preloaded, tmp_path: Path
) -> None:
    made(tmp_path)
    local = tmp_path / "kit/local"
    local.mkdir(parents=True)
    before = {"format_version": 2, "class_allow_list": ["nvflare.a.B"], "other": [1]}
    (local / "resources.json.default").write_text(json.dumps(before))
    words = ("nvflare", "allow", "kit", "--from", "nv/north", "--json")
    assert len(pace(*words, cwd=tmp_path).json["written"]) == 3
    assert pace(*words, cwd=tmp_path).code == 0  # again: nothing more
    after = json.loads((local / "resources.json").read_text())
    ours = [f"{COMPONENTS}.RoundController", f"{COMPONENTS}.SiteExecutor"]
    assert after == {**before, "class_allow_list": ["nvflare.a.B", *ours]}
    check = pace("nvflare", "check", "kit/local/pace.toml", cwd=tmp_path)
    assert check.code == 1
    assert "mine.graph" in check.out
    write_graph(local / "mine.graph", clients(3)[0])
    assert pace("nvflare", "check", "kit/local/pace.toml", cwd=tmp_path).code == 0
    with pytest.raises(FileError, match="another file"):
        allow_components(tmp_path / "kit", tmp_path / "nv/south")
    with pytest.raises(FileError, match="NVFlare"):
        allow_components(tmp_path / "nv", tmp_path / "nv/south")


def returns(agreed: Job, names: tuple[str, ...] = NAMES) -> dict[str, bytes]:
    uploads = [steps.fit(graph, agreed.federation)[1] for graph in clients(3)][: len(names)]
    return dict(zip(names, steps.merge(uploads, agreed.federation), strict=True))


def test_a_round_in_nvflares_simulator_gives_equal_bytes(tmp_path: Path) -> None:
    pytest.importorskip("nvflare", reason="needs pace-network[nvflare]: run `make test-nvflare`")
    agreed = made(tmp_path)
    local = tmp_path / "ws/local"
    local.mkdir(parents=True)
    allowed = ["nvflare.", f"{COMPONENTS}."]
    (local / "resources.json").write_text(
        json.dumps({"format_version": 2, "class_allow_list": allowed})
    )
    for name in NAMES:
        mine = tmp_path / name
        text = f'name = "{name}"\njob = "{mine}/job.pace"\ngraph = "{mine}/mine.graph"\n'
        (local / f"{name}.toml").write_text(text + f'folder = "{mine}/state"\n')
    mine = tmp_path / "server"
    text = f'job = "{mine}/job.pace"\njournal = "{mine}/job.journal"\nout = "{mine}/job.report"\n'
    (local / "pace.toml").write_text(text)
    nvflare = str(Path(sys.executable).parent / "nvflare")
    words = ["simulator", str(tmp_path / "nv/job"), "-w", str(tmp_path / "ws"), "-t", "3"]
    done = subprocess.run(
        [nvflare, *words, "-c", ",".join(NAMES)], capture_output=True, text=True, cwd=tmp_path
    )
    assert "the round is finished" in done.stderr + done.stdout
    for name, returned in returns(agreed).items():
        assert only(tmp_path / name, f"{name}.down") == returned
    assert json.loads((mine / "job.report/report.json").read_text())["finished"]


PROJECT = """\
api_version: 3
name: pace
description: three sites on loopback
participants:
  - {{name: localhost, type: server, org: pace, fed_learn_port: {port}, admin_port: {admin}}}
  - {{name: north, type: client, org: pace}}
  - {{name: south, type: client, org: pace}}
  - {{name: west, type: client, org: pace}}
  - {{name: admin@pace.example, type: admin, org: pace, role: project_admin}}
builders:
  - path: nvflare.lighter.impl.workspace.WorkspaceBuilder
    args: {{template_file: master_template.yml}}
  - path: nvflare.lighter.impl.static_file.StaticFileBuilder
    args:
      config_folder: config
      overseer_agent:
        path: nvflare.ha.dummy_overseer_agent.DummyOverseerAgent
        overseer_exists: false
        args: {{sp_end_point: "localhost:{port}:{admin}"}}
  - path: nvflare.lighter.impl.cert.CertBuilder
  - path: nvflare.lighter.impl.signature.SignatureBuilder
"""


class Federation:
    """A provisioned server and its clients; every process by its id."""

    def __init__(self, root: Path) -> None:
        self.root, self.running = root, dict[str, subprocess.Popen[bytes]]()
        port = free_port(2)
        (root / "project.yml").write_text(PROJECT.format(port=port, admin=port + 1))
        nvflare = str(Path(sys.executable).parent / "nvflare")
        words = [nvflare, "provision", "-p", "project.yml", "-w", "kits"]
        subprocess.run(words, cwd=root, check=True, capture_output=True)

    def kit(self, name: str) -> Path:
        return self.root / "kits/pace/prod_00" / name

    def start(self, name: str) -> None:
        side = "server" if name == "localhost" else "client"
        uid = [] if side == "server" else [f"uid={name}"]
        words = ["-m", f"nvflare.private.fed.app.{side}.{side}_train", "-m", str(self.kit(name))]
        words += ["-s", f"fed_{side}.json", "--set", "secure_train=true", *uid]
        with (self.root / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-u", *words, "org=pace", "config_folder=config"],
                cwd=self.root, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            )  # fmt: skip

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        kill({process.pid} | descendants({process.pid}))
        process.wait()

    def session(self) -> Any:
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        end = time.monotonic() + 120
        while True:
            try:
                return new_secure_session("admin@pace.example", str(self.kit("admin@pace.example")))
            except Exception:  # the server is about to start
                assert time.monotonic() < end
                time.sleep(2)

    def log(self) -> str:
        return "".join(path.read_text(errors="replace") for path in self.root.glob("*.log"))


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Federation]:
    pytest.importorskip("nvflare", reason="needs pace-network[nvflare]: run `make test-nvflare`")
    found = Federation(tmp_path)
    try:
        yield found
    finally:
        for name in list(found.running):
            found.kill(name)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore:ssl_context is deprecated:DeprecationWarning")  # NVFlare's own
def test_a_provisioned_federation_with_one_client_missing_and_one_killed(
    federation: Federation,
) -> None:
    """West never joins; south is killed once its upload is here, and comes back for its return."""
    root = federation.root
    agreed = made(root, minimum=2)
    for name, kit in (("server", "localhost"), *zip(NAMES, NAMES, strict=True)):
        allow_components(federation.kit(kit), root / "nv" / name)
    for name, graph in zip(NAMES, clients(3), strict=True):
        write_graph(federation.kit(name) / "local/mine.graph", graph)
    local = federation.kit("localhost") / "local"
    text = (local / "pace.toml").read_text().replace("deadline = 3600.0", "deadline = 90.0")
    (local / "pace.toml").write_text(text + "delivery = 30.0\npatience = 30.0\n")
    for name in ("localhost", "north", "south"):
        federation.start(name)
    with_session(federation, lambda session: wait_for_clients(session, 2))
    first = with_session(federation, lambda session: session.submit_job(str(root / "nv/job")))
    wait(lambda: len(list(local.glob("job.journal/uploads/*.up"))) == 2, 400)
    federation.kill("south")
    wait(lambda: (local / "job.report/report.json").exists(), 400)
    report = json.loads((local / "job.report/report.json").read_text())
    assert report["missing"] == ["west"]
    assert [each["name"] for each in report["took_part"]] == ["north", "south"]
    assert report["undelivered"] == ["south"]

    federation.start("south")
    with_session(federation, lambda session: wait_for_clients(session, 2))
    with_session(federation, lambda session: ended(session, first))
    second = with_session(federation, lambda session: session.submit_job(str(root / "nv/job")))
    status = with_session(federation, lambda session: ended(session, second))
    report = json.loads((local / "job.report/report.json").read_text())
    assert report["finished"], federation.log()[-5000:]
    assert status == "FINISHED:COMPLETED"
    for name, returned in returns(agreed, NAMES[:2]).items():
        assert only(federation.kit(name) / "local", f"{name}.down") == returned
    assert {each["step"] for each in report["contacts"]} == {"return"}  # nobody trained again


def with_session(federation: Federation, act: Callable[[Any], Any]) -> Any:
    session = federation.session()
    try:
        return act(session)
    finally:
        session.close()


def wait_for_clients(session: Any, count: int) -> None:
    wait(lambda: len(session.get_system_info().client_info) >= count, 240)


def ended(session: Any, number: str) -> str:
    def status() -> str:
        return str(session.get_job_meta(number).get("status"))

    wait(lambda: status().startswith("FINISHED"), 300)
    return status()
