"""Kits: a folder for the server and one for each site, with all that a deployment needs on Flower.

    kits/server/   job.pace, ca.crt, ca.key, tls.crt, tls.key, secret, nodes/NAME.pub,
                   start.sh, check.sh, run.sh, pace-superlink.service
    kits/NAME/     job.pace, ca.crt, node, node.pub, node.toml,
                   start.sh, check.sh, pace-node.service

A site adds its graph and, where the job has keys, its own key: neither was ever with whoever made the
kit. Paths are relative to the kit, so a folder works wherever it is put.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from secrets import token_bytes

from pace.errors import FileError, SettingError
from pace.io import atomic, toml
from pace.jobs.job import SERVER, Job
from pace.jobs.job_file import read_job

PORT = 18080
NODE_PORT = 9094  # of a node's own local API
HEAD = """\
#!/usr/bin/env bash
# Made by `pace flower provision`. It needs `pace` with the extra `flower` on the PATH.
set -euo pipefail
cd "$(dirname "$0")"
"""
START_SERVER = (
    HEAD
    + "# The server: Flower's SuperLink with TLS. Nodes are let in as soon as it answers.\n"
    + """\
(
  until pace flower register nodes/*.pub --superlink {control} --root-certificates ca.crt --quiet; do
    sleep 2
  done
) &
exec pace flower superlink . --port {port}
"""
)
CHECK_SERVER = (
    HEAD
    + "# Whether the server answers, and who has ever joined.\n"
    + 'exec pace flower status --superlink {control} --root-certificates ca.crt "$@"\n'
)
RUN = (
    HEAD
    + "# The round: ask every site, merge, send each its return. Options go to `pace flower run`.\n"
    + "exec pace flower run job.pace {key}--superlink {control} --root-certificates ca.crt "
    + '--secret secret "$@"\n'
)
START_SITE = (
    HEAD
    + "# This site's node: it uploads once and adopts once, when the server asks.\n"
    + "exec pace flower node node.toml\n"
)
CHECK_SITE = (
    HEAD
    + "# What would keep this site from taking part, before anybody asks.\n"
    + "exec pace flower node node.toml --check\n"
)
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


def provision(
    job: Path, host: str, out: Path, *, port: int = PORT, node_port: int = NODE_PORT
) -> list[str]:
    """Write the kits of a job's participants; their names.

    Args:
        host: the server's name or address, as sites reach it.
        port: where sites reach it; the next one is the operator's, on loopback.
        node_port: of the first node's local API; the others follow, so that all fit on one machine.
    """
    from pace.runtimes.flower import certificates

    agreed = read_job(job)
    if not agreed.participants:
        raise SettingError("this job lists nobody: make one with `pace new --participant …`")
    if SERVER in agreed.participants:
        raise SettingError(f"a participant is called {SERVER!r}, which is the server's own folder")
    if out.exists():
        raise FileError(f"{out} already exists: choose another --out or move it")
    ca_key, ca = certificates.authority()
    key, certificate = certificates.server(host, ca_key, ca)
    common = {"job.pace": job.read_bytes(), "ca.crt": ca}
    nodes = {name: certificates.node() for name in agreed.participants}
    made = out.with_name(f"{out.name}.part")
    server_files = common | _server(agreed, port)
    server_files |= {f"nodes/{name}.pub": public for name, (_, public) in nodes.items()}
    _write(made / SERVER, server_files | {"tls.crt": certificate})
    _write(
        made / SERVER, {"ca.key": ca_key, "tls.key": key, "secret": token_bytes(32)}, private=True
    )
    for place, (name, (private, public)) in enumerate(nodes.items()):
        address = f"{host}:{port}"
        files = _site(agreed, name, address, node_port + place)
        _write(made / name, common | {"node.pub": public} | files)
        _write(made / name, {"node": private}, private=True)
    os.rename(made, out)
    return list(nodes)


def _server(job: Job, port: int) -> dict[str, bytes]:
    words = {"control": f"127.0.0.1:{port + 1}", "port": port}
    words["key"] = "--key server.key " if job.signed else ""
    unit = {"folder": "/etc/pace/server", "name": "pace-superlink", "restart": "on-failure"}
    return {
        "start.sh": START_SERVER.format(**words).encode(),
        "check.sh": CHECK_SERVER.format(**words).encode(),
        "run.sh": RUN.format(**words).encode(),
        "pace-superlink.service": UNIT.format(**unit, what="Flower SuperLink for PACE").encode(),
    }


def _site(job: Job, name: str, address: str, port: int) -> dict[str, bytes]:
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
    folder = f"/etc/pace/{name}"
    unit = {"folder": folder, "name": "pace-node", "restart": "always\nRestartSec=5"}
    return {
        "node.toml": toml.dump(settings, comments).encode(),
        "start.sh": START_SITE.encode(),
        "check.sh": CHECK_SITE.encode(),
        "pace-node.service": UNIT.format(**unit, what=f"PACE node of {name}").encode(),
    }


def _write(folder: Path, files: Mapping[str, bytes], *, private: bool = False) -> None:
    for name, content in files.items():
        atomic.write(folder / name, content, private=private)
        if name.endswith(".sh"):
            (folder / name).chmod(0o755)
