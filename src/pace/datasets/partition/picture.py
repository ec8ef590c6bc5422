"""A picture of a division: who has which classes, and which edges were lost (extra `report`)."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pace.datasets.partition.describe import Client
from pace.errors import SettingError
from pace.io import atomic
from pace.io.text import shown

NAMED = 20  # classes or clients beyond this many go unnamed
LETTERS = 72  # fit side by side below the bars
UPRIGHT = 10  # letters of room or fewer: long names are turned, and cut
CUT = 24


def draw(path: Path, clients: Sequence[Client], title: str, classes: Sequence[str]) -> None:
    """Write the picture; matplotlib chooses the format by the file's ending."""
    try:
        from matplotlib import colormaps
        from matplotlib.figure import Figure
    except ImportError:
        raise SettingError("--plot needs matplotlib: pip install 'pace-fgl[report]'") from None
    figure = Figure(figsize=(8, 5.6), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    place = np.arange(len(clients))
    floor = np.zeros(len(clients))
    colours = colormaps["tab20" if len(classes) > 10 else "tab10"]
    for label, name in enumerate(classes):
        height = np.array([client.labels[label] for client in clients])
        top.bar(place, height, bottom=floor, color=colours(label % colours.N), label=_plain(name))
        floor += height
    if any(client.unlabelled for client in clients):
        height = np.array([client.unlabelled for client in clients])
        top.bar(place, height, bottom=floor, color="lightgrey", label="no label")
    kept = [client.edges for client in clients]
    bottom.bar(place, kept, color="0.35", label="kept")
    bottom.bar(place, [c.lost for c in clients], bottom=kept, color="0.8", label="lost")
    most = max(client.nodes for client in clients)
    top.set(title=_plain(title), ylabel="nodes by class", ylim=(0, 1.05 * most))
    bottom.set(xlabel="client", ylabel="edges")
    if len(clients) <= NAMED:
        room = LETTERS // len(clients)
        names = [_plain(client.name) for client in clients]
        turned = max(map(len, names)) > room <= UPRIGHT
        names = [
            f"{name[:CUT]}{'…' if len(name) > CUT else ''}" if turned else textwrap.fill(name, room)
            for name in names
        ]
        bottom.set_xticks(place, names, rotation=90 if turned else 0)
    if len(classes) <= NAMED:
        top.legend(title="class", loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
    bottom.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
    content = io.BytesIO()
    try:
        figure.savefig(content, format=path.suffix.lstrip(".") or "png", dpi=150)
        atomic.write(path, content.getvalue())
    except ValueError as error:  # an ending matplotlib does not know
        raise SettingError(f"--plot {path}: {error}") from error
    except OSError as error:
        raise SettingError(f"cannot write {path}: {error.strerror or error}") from error


def _plain(name: str) -> str:
    """Somebody else's name as text: matplotlib takes what stands between two dollars for TeX."""
    return shown(name).replace("$", r"\$")
