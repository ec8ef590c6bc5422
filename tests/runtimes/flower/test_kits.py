"""Kits of a deployment and a site's node; no Flower is needed to make and check them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from pace.errors import FileError, SettingError
from pace.jobs import signatures
from pace.jobs.job import write_job
from pace.runtimes.files import sealed_jobs
from pace_network.flower import kits, supernode
from pace_network.flower.supernode import SuperNode
from tests.deployment import LONG, alive, wait
from tests.graphs import clients
from tests.preloaded import Preloaded
from tests.sealed import key_of, sealed_job, write_key
from tests.sites import NAMES, job, write_graph

pytest.importorskip("cryptography")


def made(root: Path, **changes: object) -> Path:
    write_job(root / "job.pace", job(**changes))
    assert kits.provision(root / "job.pace", "server.example", root / "kits") == list(NAMES)
    return root / "kits"


def test_a_kit_holds_all_that_its_owner_needs_and_nothing_of_another(tmp_path: Path) -> None:
    folder = made(tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["north", "server", "south", "west"]
    common = {"job.pace", "ca.crt", "start.sh", "check.sh"}
    site = {"node", "node.pub", "node.toml", "pace-node.service"}
    for name in NAMES:
        assert {path.name for path in (folder / name).iterdir()} == common | site
        assert (folder / "server" / "nodes" / f"{name}.pub").read_bytes() == (
            folder / name / "node.pub"
        ).read_bytes()
    server = {"ca.key", "tls.key", "tls.crt", "secret", "server.toml"}
    server |= {"nodes", "run.sh", "pace-superlink.service"}
    assert {path.name for path in (folder / "server").iterdir()} == common | server
    for private in (
        "server/ca.key",
        "server/tls.key",
        "server/secret",
        *(f"{name}/node" for name in NAMES),
    ):
        assert (folder / private).stat().st_mode & 0o777 == 0o600
    keys = {(folder / name / "node").read_bytes() for name in NAMES}
    assert len(keys) == len(NAMES)
    for script in folder.rglob("*.sh"):
        assert os.access(script, os.X_OK)
        assert subprocess.run(["bash", "-n", str(script)]).returncode == 0


def test_the_certificate_is_the_authoritys_and_for_the_servers_name(tmp_path: Path) -> None:
    """A TLS handshake in memory, by the name of the server and by others."""
    folder = made(tmp_path) / "server"
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    mine = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    mine.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python does from 3.13 on

    def reached(host: str) -> bool:
        up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
        site = mine.wrap_bio(down, up, server_hostname=host)
        server = theirs.wrap_bio(up, down, server_side=True)
        done = False
        for _ in range(4):
            for side in (site, server):
                try:
                    side.do_handshake()
                    done = side is site or done
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLCertVerificationError:
                    return False
        return done

    assert reached("server.example")
    assert reached("localhost")
    assert reached("127.0.0.1")
    assert not reached("other.example")


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_site_is_added_under_the_same_authority_and_no_other_kit_changes(
    tmp_path: Path, pace: Preloaded
) -> None:
    folder = made(tmp_path)
    before = contents(folder)
    words = ("flower", "provision", "job.pace", "--out", "kits", "--add")
    done = pace(*words, "east", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "pace flower register kits/server/nodes/east.pub" in done.out
    after = contents(folder)
    new = {name for name in after if name.startswith("east/")} | {"server/nodes/east.pub"}
    assert {name: text for name, text in after.items() if name not in new} == before
    assert after["east/ca.crt"] == before["server/ca.crt"]
    assert after["east/node.pub"] == after["server/nodes/east.pub"]
    assert {name.removeprefix("east/") for name in new if name.startswith("east/")} == {
        name.removeprefix("north/") for name in before if name.startswith("north/")
    }
    node = SuperNode.read(folder / "east" / "node.toml")
    assert (node.superlink, node.port) == ("server.example:18080", 9097)
    (tmp_path / "theirs.pub").write_bytes(kits.node_key()["node.pub"])
    assert pace(*words, "up=theirs.pub", cwd=tmp_path).code == 0  # a site with a key of its own
    assert not (folder / "up" / "node").exists()
    assert contents(folder)["server/nodes/up.pub"] == (tmp_path / "theirs.pub").read_bytes()
    for name, says in (("north", "has a kit"), ("server", "has a kit"), ("../x", "cannot be used")):
        done = pace(*words, name, cwd=tmp_path)
        assert (done.code, says in done.err) == (2, True), done.err
    (tmp_path / "theirs.pub").write_text("ssh-rsa nonsense")
    assert pace(*words, "down=theirs.pub", cwd=tmp_path).code == 2
    assert not (folder / "down").exists()
    assert "--host is not given" in pace(*words[:3], "--out", "other", cwd=tmp_path).err


def test_certificates_are_renewed_by_the_same_authority_or_not_at_all(tmp_path: Path) -> None:
    """The former and the new certificates of authority and server fit each other."""
    folder = made(tmp_path)
    before = contents(folder)
    kits.renew(folder)
    after = contents(folder)
    changed = {name for name in before if before[name] != after[name]}
    sites = {f"{name}/ca.crt" for name in (*NAMES, "server")}
    assert changed == sites | {"server/tls.crt", "server/tls.key"}
    assert (folder / "server" / "tls.key").stat().st_mode & 0o777 == 0o600
    for authority in (before, after):
        for server in (before, after):
            ca, leaf = (
                kits.x509.load_pem_x509_certificate(text)
                for text in (authority["north/ca.crt"], server["server/tls.crt"])
            )
            leaf.verify_directly_issued_by(ca)
    (folder / "server" / "ca.key").write_bytes(before["server/tls.key"])
    with pytest.raises(FileError, match=r"not the key of ca\.crt"):
        kits.renew(folder)
    (folder / "server" / "ca.key").unlink()
    with pytest.raises(FileError, match="only the authority's own key can renew"):
        kits.renew(folder)
    assert {n: t for n, t in contents(folder).items() if n != "server/ca.key"} == {
        n: t for n, t in after.items() if n != "server/ca.key"
    }


@contextmanager
def answering(folder: Path, *, ahead: float = 0.0) -> Iterator[int]:
    """A server with the kit's certificate, whose clock may differ; its port."""

    class Door(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(403)
            self.end_headers()

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string(time.time() + ahead)

        def log_message(self, *words: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Door)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def test_a_site_is_told_whether_it_reaches_the_server_and_how_clocks_differ(tmp_path: Path) -> None:
    folder = made(tmp_path)
    node = SuperNode.read(folder / "north" / "node.toml")
    write_graph(folder / "north" / "mine.graph", clients(1)[0])
    for ahead, says in (
        (0, None),
        (3600, r"clock is (3599|36..) s behind"),
        (-3600, "s ahead of the"),
    ):
        with answering(folder / "server", ahead=ahead) as port:
            here = replace(node, superlink=f"127.0.0.1:{port}")
            problems = here.problems()
            assert len(problems) == (says is not None)
            assert says is None or re.search(says, problems[0])
    (problem,) = here.problems()  # nobody is there any more
    assert f"127.0.0.1:{port} cannot be reached" in problem
    (tmp_path / "other").mkdir()
    with answering(made(tmp_path / "other") / "server") as port:  # of another authority
        (problem,) = replace(node, superlink=f"127.0.0.1:{port}").problems()
    assert "certificate verify failed" in problem


def test_kits_are_made_once_and_for_listed_participants(tmp_path: Path) -> None:
    folder = made(tmp_path)
    with pytest.raises(FileError, match="already exists"):
        kits.provision(tmp_path / "job.pace", "server.example", folder)
    for changes, says in (
        ({"participants": (), "minimum": 2}, "no participants are listed"),
        ({"participants": ("north", "server"), "minimum": 2}, "'server'"),
    ):
        write_job(tmp_path / f"{says}.pace", job(**changes))
        with pytest.raises(SettingError, match=says):
            kits.provision(tmp_path / f"{says}.pace", "server.example", tmp_path / "others")
    with pytest.raises(SettingError, match="--host"):
        kits.provision(tmp_path / "job.pace", "bücher.example", tmp_path / "others")
    assert not (tmp_path / "others").exists()


def test_a_site_is_told_what_would_keep_it_from_taking_part(
    pace: Preloaded, tmp_path: Path
) -> None:
    keys = {
        name: signatures.new_keys(tmp_path / f"{name}.key", tmp_path / f"{name}.pub")
        for name in (*NAMES, "server")
    }
    north = made(tmp_path, keys=keys) / "north"
    done = pace("flower", "node", "node.toml", "--check", cwd=north)
    assert done.code == 1
    assert "north.key" in done.out
    shutil.copy(tmp_path / "south.key", north / "north.key")
    done = pace("flower", "node", "node.toml", "--check", "--json", cwd=north)
    assert done.code == 1
    assert "is the key of 'south'" in done.json["problems"][0]
    assert "mine.graph" in done.json["problems"][1]  # everything at once
    shutil.copy(tmp_path / "north.key", north / "north.key")
    done = pace("flower", "node", "node.toml", "--check", cwd=north)
    assert "mine.graph" in done.out
    write_graph(north / "mine.graph", clients(1)[0])
    (north / "ca.crt").rename(north / "elsewhere")
    done = pace("flower", "node", "node.toml", "--check", cwd=north)
    assert "ca.crt not found" in done.out
    (north / "elsewhere").rename(north / "ca.crt")
    done = pace("flower", "node", "node.toml", "--check", cwd=north)
    assert "the server server.example:18080 cannot be reached from here" in done.out
    with answering(north.parent / "server") as port:
        settings = (
            (north / "node.toml").read_text().replace("server.example:18080", f"127.0.0.1:{port}")
        )
        (north / "node.toml").write_text(settings)
        done = pace("flower", "node", "node.toml", "--check", cwd=north)
    fits = "north can take part: job, graph, keys and CA file fit, and the server answers.\n"
    assert (done.code, done.out) == (0, fits)


def test_a_site_says_yes_to_a_sealed_job_that_overlaps_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, `check.sh` says what both sums would tell; the word in node.toml reaches the node."""
    write_job(tmp_path / "job.pace", sealed_job())
    kits.provision(tmp_path / "job.pace", "server.example", tmp_path / "kits")
    north = tmp_path / "kits" / "north"
    write_key(north, "north")
    write_graph(north / "mine.graph", clients(1)[0])
    monkeypatch.setattr(SuperNode, "unreachable", lambda node: None)
    assert SuperNode.read(north / "node.toml").problems() == []
    sealed_jobs.remember(key_of("north"), sealed_job(("north", "south", "east")), b"frame")
    (problem,) = SuperNode.read(north / "node.toml").problems()
    assert "without east and with west" in problem
    assert "overlapping = true in its node.toml" in problem
    with (north / "node.toml").open("a") as file:
        file.write("overlapping = true\n")
    agreed = SuperNode.read(north / "node.toml")
    assert agreed.problems() == []
    assert agreed.overlapping


def test_a_node_knows_its_folder_wherever_the_kit_is_put(tmp_path: Path) -> None:
    north = made(tmp_path) / "north"
    north.rename(tmp_path / "moved")
    found = SuperNode.read(tmp_path / "moved" / "node.toml")
    assert found.job == tmp_path / "moved" / "job.pace"
    assert (found.superlink, found.port) == ("server.example:18080", 9094)
    for wrong, says in (
        ("epochs = 5", "epochs"),
        ("limit = 0", "limit is 0"),
        ("device = 'gpu'", "device is 'gpu'"),
        ("port = '9'", "port is '9', expected a whole number"),
        ("= 1", "not TOML"),
    ):
        file = tmp_path / "moved" / "wrong.toml"
        file.write_text(f'name = "north"\nsuperlink = "a:1"\n{wrong}\n')
        with pytest.raises((SettingError, FileError), match=says) as error:
            SuperNode.read(file)
        assert "wrong.toml" in str(error.value)
    file.write_text('name = "north"\n')
    with pytest.raises(SettingError, match="superlink"):
        SuperNode.read(file)


def test_the_process_beside_flowers_own_does_not_load_torch() -> None:
    """Hundreds of MB a node; the process that steps are forked from has loaded it already."""
    code = "import pace_network.flower.supernode, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_flowers_process_gives_its_messages_to_this_node_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It loads no app of a run itself, listens on loopback, and wants a secret for a message."""
    monkeypatch.setattr(supernode, "program", str)
    node = SuperNode.read(made(tmp_path) / "north" / "node.toml")
    command = " ".join(node.command())
    assert "--isolation process" in command
    assert "--host 127.0.0.1" in command
    assert f"--superexec-auth-secret-file {node.folder}/secret" in command


def quiet(patch: pytest.MonkeyPatch) -> None:
    """A node without the processes and threads in which it answers."""
    patch.setattr("multiprocessing.forkserver.ensure_running", lambda: None)
    patch.setattr(SuperNode, "answer", lambda self, secret: None)


SUPERNODE = """#!/bin/sh
echo again >> '{log}'
case $(grep -c again '{log}') in
  1) {first};;
  2) echo "SuperNode ID: 17"; kill -TERM {parent}; sleep 600;;  # as `systemctl stop` ends a node
esac
"""
ENDS = {
    "not let in": (
        'echo "[code: 2004] Failed to activate SuperNode."; sleep 600 & exit 1',
        "the server still takes it for alive",
    ),
    "the server is away": (
        'echo "SuperNode ID: 17"; echo "Giving up reconnection after 194 seconds."; sleep 600',
        "the server was lost",
    ),
    "killed by a signal": ("kill -9 $$", "was killed by signal 9"),
    "ended with 0, before it joined": ('echo "Unauthenticated"; exit 0', "ended with 0.*Unauthent"),
    "TLS ended, before it joined": ('echo "SSLEOFError: EOF"; exit 1', "ended with 1.*SSLEOFError"),
    "ended with 0, after it joined": ('echo "SuperNode ID: 17"; exit 0', "the server was lost"),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_node_is_tried_again_after_every_end_that_nobody_asked_for(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    end: str,
) -> None:
    """With the reason. What its operator ends, by a signal, stays ended."""
    north = made(tmp_path) / "north"
    program, log, (first, told) = tmp_path / "flower-supernode", tmp_path / "log", ENDS[end]
    program.write_text(SUPERNODE.format(log=log, first=first, parent=os.getpid()))
    program.chmod(0o755)
    monkeypatch.setattr(supernode, "program", lambda name: str(program))
    monkeypatch.setattr(supernode, "AGAIN", 0.0)
    quiet(monkeypatch)
    with answering(north.parent / "server", ahead=-3600) as port:
        node = replace(SuperNode.read(north / "node.toml"), superlink=f"127.0.0.1:{port}")
        node.run()
    assert log.read_text().split() == ["again"] * 2
    said = capfd.readouterr().err
    assert re.search(told, said)
    assert "s ahead of the server's" in said  # the clock is named with every reason


def test_a_node_ends_though_flowers_process_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked to end by its operator, and deaf to it: it is killed after a while."""
    north, program = made(tmp_path) / "north", tmp_path / "flower-supernode"
    program.write_text(f"#!/bin/sh\ntrap '' TERM\nkill -TERM {os.getpid()}\nsleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr(supernode, "program", lambda name: str(program))
    monkeypatch.setattr(supernode, "GOODBYE", 0.5)
    quiet(monkeypatch)
    assert SuperNode.read(north / "node.toml").run() == -signal.SIGKILL


RUNNING = """
import sys
from pathlib import Path
from pace_network.flower import supernode
from pace_network.flower.supernode import SuperNode
supernode.program = lambda name: sys.argv[1]
SuperNode.answer = lambda self, secret: None
if __name__ == "__main__":
    SuperNode.read(Path(sys.argv[2])).run()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux ends children so")
def test_flowers_process_ends_with_a_node_that_was_killed(tmp_path: Path) -> None:
    """No orphan keeps the port."""
    north, program, pid = made(tmp_path) / "north", tmp_path / "flower-supernode", tmp_path / "pid"
    program.write_text(
        f"#!/bin/sh\necho $$ > '{pid}.part'; mv '{pid}.part' '{pid}'; exec sleep 600\n"
    )
    program.chmod(0o755)
    (tmp_path / "running.py").write_text(RUNNING)
    words = [sys.executable, str(tmp_path / "running.py"), str(program), str(north / "node.toml")]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as node:
        wait(pid.exists, LONG)
        child = int(pid.read_text())
        assert alive(child)
        os.kill(node.pid, signal.SIGKILL)
    wait(lambda: not alive(child), LONG)
