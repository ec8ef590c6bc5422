"""Kits: a folder for the server and one for each site, with all that a deployment needs on Flower.

    kits/server/   job.pace, ca.crt, ca.key, tls.crt, tls.key, secret, nodes/NAME.pub,
                   server.toml, start.sh, check.sh, run.sh, pace-superlink.service
    kits/NAME/     job.pace, ca.crt, node, node.pub, node.toml,
                   start.sh, check.sh, pace-node.service

A site adds its graph and, where the job has keys, its own key: the maker of
the kit never has either. Paths are relative to the kit, so a folder works wherever it is put.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from secrets import token_bytes

from pace.errors import FileError, SettingError
from pace.io import atomic, records
from pace.io.records import load_toml, read_record
from pace.jobs.job import SERVER, Job, read_job
from pace.runtimes.flower.certificates import new_authority, node_key, server_certificate

PORT = 18080
NODE_PORT = 9094  # of a node's own local API
LARGEST = 4096  # bytes of server.toml
SCRIPT = """\
#!/usr/bin/env bash
# Made by `pace flower provision`. It needs `pace` with the extra `flower` on the PATH.
# {purpose}
set -euo pipefail
cd "$(dirname "$0")"
exec pace flower {command} "$@"
"""
SERVER_SCRIPTS = {
    "start.sh": (
        "The server: Flower's SuperLink with TLS, which lets these nodes in.",
        "superlink",
    ),
    "check.sh": ("Whether the server answers, and who has ever joined.", "status"),
    "run.sh": ("The round: ask every site, merge, send each its return.", "run"),
}
SITE_SCRIPTS = {
    "start.sh": (
        "This site's node: it uploads once and adopts once, when the server asks.",
        "node node.toml",
    ),
    "check.sh": (
        "What would keep this site from taking part, before the server asks.",
        "node node.toml --check",
    ),
}
UNIT = """\
# Made by `pace flower provision`: put the kit in {folder}, then
#   chown -R pace {folder}
#   systemctl enable --now {folder}/{name}.service
[Unit]
Description={what}
After=network-online.target

[Service]
User=pace
Environment=PATH=/opt/pace/bin:/usr/bin:/bin
ExecStart={folder}/start.sh
Restart={restart}

[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True)
class ServerKit:
    """The server's folder."""

    folder: Path
    port: int
    """Where sites reach the server; the next port is the operator's, on loopback."""

    @classmethod
    def read(cls, folder: Path) -> ServerKit:
        """The kit in a folder, by its server.toml."""
        content = load_toml(folder / "server.toml", LARGEST, "take the kit's again")
        return read_record(cls, {"folder": str(folder), **content}, "server.toml", strict=True)

    @property
    def control(self) -> str:
        """The address of the SuperLink for its operator."""
        return f"127.0.0.1:{self.port + 1}"

    @property
    def certificate(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def secret(self) -> Path:
        """For which the SuperLink lets a process carry out a run."""
        return self.folder / "secret"


def provision(
    job: Path, host: str, out: Path, *, port: int = PORT, node_port: int = NODE_PORT
) -> list[str]:
    """Write the kits of a job's participants; their names.

    Args:
        host: the server's name or address, as sites reach it.
        port: where sites reach it; the next one is the operator's, on loopback.
        node_port: of the first node's local API; the others follow, so that all fit on one machine.
    """
    agreed = read_job(job)
    if not agreed.participants:
        raise SettingError("this job lists nobody: make one with `pace new --participant …`")
    if SERVER in agreed.participants:
        raise SettingError(f"a participant is called {SERVER!r}, which is the server's own folder")
    if out.exists():
        raise FileError(f"{out} already exists: choose another --out or move it")
    ca_key, ca = new_authority()
    key, certificate = server_certificate(host, ca_key, ca)
    common = {"job.pace": job.read_bytes(), "ca.crt": ca}
    nodes = {name: node_key() for name in agreed.participants}
    part = out.with_name(f"{out.name}.part")
    publics = {f"nodes/{name}.pub": public for name, (_, public) in nodes.items()}
    _write(part / SERVER, common | publics | _server_files(port) | {"tls.crt": certificate})
    secret = {"ca.key": ca_key, "tls.key": key, "secret": token_bytes(32)}
    _write(part / SERVER, secret, private=True)
    for index, (name, (private, public)) in enumerate(nodes.items()):
        files = _site_files(agreed, name, f"{host}:{port}", node_port + index)
        _write(part / name, common | {"node.pub": public} | files)
        _write(part / name, {"node": private}, private=True)
    os.rename(part, out)
    return list(nodes)


def _server_files(port: int) -> dict[str, bytes]:
    comments = {"port": "that sites reach; the next one is the operator's, on this machine only"}
    unit = {"folder": "/etc/pace/server", "name": "pace-superlink", "restart": "on-failure"}
    return {
        "server.toml": records.dump_toml({"port": port}, comments).encode(),
        "pace-superlink.service": UNIT.format(**unit, what="Flower SuperLink for PACE").encode(),
        **_scripts(SERVER_SCRIPTS),
    }


def _site_files(job: Job, name: str, address: str, port: int) -> dict[str, bytes]:
    settings = {
        "name": name,
        "superlink": address,
        "graph": "mine.graph",
        **({"key": f"{name}.key"} if job.signed else {}),
        "limit": 3600.0,
        "device": "cpu",
        "port": port,
    }
    comments = {
        "superlink": "the server",
        "graph": "this site's own graph: `pace graph import` makes it",
        "key": "this site's own private key, as `pace keys new` made it",
        "limit": "seconds for one step; then its process is ended",
        "port": "of the node's local API: nodes on one machine need different ones",
    }
    unit = {"folder": f"/etc/pace/{name}", "name": "pace-node", "restart": "always\nRestartSec=5"}
    return {
        "node.toml": records.dump_toml(settings, comments).encode(),
        "pace-node.service": UNIT.format(**unit, what=f"PACE node of {name}").encode(),
        **_scripts(SITE_SCRIPTS),
    }


def _scripts(scripts: Mapping[str, tuple[str, str]]) -> dict[str, bytes]:
    return {
        name: SCRIPT.format(purpose=purpose, command=command).encode()
        for name, (purpose, command) in scripts.items()
    }


def _write(folder: Path, files: Mapping[str, bytes], *, private: bool = False) -> None:
    for name, content in files.items():
        atomic.write(folder / name, content, private=private)
        if name.endswith(".sh"):
            (folder / name).chmod(0o755)
