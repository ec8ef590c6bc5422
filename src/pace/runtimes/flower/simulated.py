"""The ClientApp of Flower's simulation engine, where one operator holds every site's folder.

A real node never takes a path from the run: there the operator of the server is somebody else.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from flwr.app import Context

from pace.errors import SettingError
from pace.runtimes.flower.client import client_app
from pace.runtimes.network.node import Config
from pace.runtimes.network.settings import sites_of
from pace.runtimes.network.watchdog import Station

KEY = "mine.key"  # of a site, where the job has keys


def settings(context: Context) -> Config:
    """Site number `partition-id` of the run's folder `sites`, in the order of names."""
    root, number = str(context.run_config.get("sites", "")), context.node_config["partition-id"]
    sites = sites_of(Path(root)) if root else []
    if not 0 <= int(number) < len(sites):
        raise SettingError(
            f"sites is {root!r} with {len(sites)} sites, expected one for each of the "
            f"{context.node_config['num-partitions']} nodes"
        )
    site = sites[int(number)]
    state = site / "state"
    state.mkdir(exist_ok=True)
    paths = {"job": "job.pace", "graph": "mine.graph", "folder": "state"}
    if (site / KEY).exists():
        paths["key"] = KEY
    allow = {"allow": str(context.run_config.get("allow", ""))}
    return {"name": site.name, **allow, **{word: str(site / path) for word, path in paths.items()}}


def station() -> Station:
    """One worker for all the sites that this process of Ray plays."""
    return Station(Path(tempfile.gettempdir()) / f"pace-simulated-{os.getpid()}", os.getpid())


app = client_app(settings, station)
