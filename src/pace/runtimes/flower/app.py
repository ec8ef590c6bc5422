"""The Flower app that a run sends: a page that names what this package brings, and no code.

PACE must be installed at the server and at every node; Flower itself installs nothing.
"""

from __future__ import annotations

from pathlib import Path

from pace.io import atomic

PAGE = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "pace-app"
version = "1.0.0"
description = "PACE over Flower: one upload, one return."
license = "Apache-2.0"
dependencies = ["flwr>=1.41,<1.43"]

[tool.flwr.app]
publisher = "pace"

[tool.flwr.app.components]
serverapp = "pace.runtimes.flower.server:app"
clientapp = "pace.runtimes.flower.{client}:app"

[tool.flwr.app.config] # for the server only: a real node reads none of it
job = ""               # the job file, on the server's disk
journal = ""           # default: beside the job
out = ""               # of the report; default: beside the job
key = ""               # the server's private key, if the job has keys
allow = ""             # package.module:Name: code of somebody's own that the job may run
nodes = ""             # north=123,south=456: who is who, if the operator fixes it
sites = ""             # of a simulation: the folder with a folder for each site
deadline = 600.0       # seconds for uploads
delivery = 0.0         # seconds for returns; 0: as many as so many nodes may need
patience = 0.0         # seconds for one answer; 0: the same
"""


def write(folder: Path, *, simulated: bool = False) -> Path:
    """The app's folder, made if need be."""
    page = PAGE.format(client="simulated" if simulated else "client")
    atomic.write(folder / "pyproject.toml", page.encode())
    return folder
