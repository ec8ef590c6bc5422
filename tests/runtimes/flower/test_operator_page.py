"""The commands of docs/operator.md on Flower, in the page's order, on loopback."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs pace-network[flower]: run `make test-flower`")
from tests.blocks import ROOT, blocks
from tests.deployment import BIN, LONG, MARKS, Deployment, free_port, wait
from tests.graphs import clients
from tests.sites import NAMES, write_graph

pytestmark = MARKS
PAGE = ROOT / "docs" / "operator.md"
HERE = str(Path(__file__).relative_to(ROOT))


def test_the_commands_of_the_page_run_in_order(tmp_path: Path) -> None:
    here = Deployment(tmp_path)
    write_graph(tmp_path / "any.graph", clients(3)[0])
    lines = [
        line.partition("#")[0].strip()
        for block in blocks(PAGE)
        if block.mark("run by") == HERE
        for line in block.text.splitlines()
    ]
    assert len(lines) == 14
    try:
        for line in lines:
            obey(here, line)
        for name in NAMES:
            (model,) = tmp_path.glob(f"kits/{name}/state/*/model/README.md")
            assert model.is_file()
    finally:
        here.close()


def obey(here: Deployment, line: str) -> None:
    """One line of the page: at loopback, with ports of our own, and for all sites what north does."""
    kit, _, script = line.removeprefix("kits/").partition("/")
    if script == "start.sh":
        for name in NAMES if kit == "north" else [kit]:
            here.start(name) if name != "server" else here.serve(len(NAMES))
        return
    if "node.pub" in line:  # the site's own key
        words = ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", "node"]
        subprocess.run(words, cwd=here.work, check=True)
    if script == "run.sh":
        wait(lambda: answer(here, "kits/server/check.sh --json").count('"online"') == 3, LONG)
    if "--host" in line:
        line = line.replace("server.example", "127.0.0.1")
        line += f" --port {here.port} --node-port {free_port(8)}"
    if "RUN" in line:
        runs = json.loads(answer(here, "pace flower status --kit kits/server --json"))["runs"]
        line = line.replace("RUN", runs[-1]["run"])
    over = 2 if " stop " in line else 0  # the run has ended, and it says so
    answer(here, line, code=over)
    if "--host" in line:
        for name, graph in zip(NAMES, clients(3), strict=True):
            write_graph(here.work / "kits" / name / "mine.graph", graph)


def answer(here: Deployment, line: str, code: int = 0) -> str:
    words = shlex.split(line)
    program = BIN / words[0] if words[0] == "pace" else here.work / words[0]
    environment = {"PATH": f"{BIN}:/usr/bin:/bin", "PACE_STATE": str(here.work / "remembered")}
    done = subprocess.run(
        [str(program), *words[1:]], cwd=here.work, env=environment, capture_output=True, text=True
    )
    assert done.returncode == code, (line, done.stdout, done.stderr)
    assert not re.search("Traceback", done.stderr)
    return done.stdout
