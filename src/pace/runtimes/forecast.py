"""How much memory and time a fit will take, said before it begins; what cannot fit is refused.

Rates are of one core of a virtual machine: forecasts are about right, within a factor of two or three.
"""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pace.datasets import graph_sizes, is_folder, read_folder
from pace.errors import SettingError
from pace.graph import Graph
from pace.protocol import Federation

RATE = 3e10  # floating-point operations a second
ALONG = 4e8  # numbers a second that travel along edges
LIBRARIES = 4e8  # bytes


@dataclass(frozen=True)
class Forecast:
    """What a fit is expected to take."""

    memory: float
    seconds: float
    disk: float | None = None
    """Bytes of products beside a graph's folder; None where all of it is in memory."""

    def __str__(self) -> str:
        minutes = f"{self.seconds:.0f} s" if self.seconds < 90 else f"{self.seconds / 60:.0f} min"
        took = f"about {minutes} of one core"
        if self.disk is None:
            return f"In memory: about {self.memory / 1e9:.1f} GB, {took}."
        return (
            f"From the disk: at most {self.memory / 1e9:.1f} GB of memory, {took}, and up to "
            f"{self.disk / 1e9:.1f} GB more in the graph's folder. A network is trained on a sample of "
            "nodes, with all their neighbours."
        )


def forecast_fit(path: Path, federation: Federation) -> Forecast:
    """Of a site's graph, a file or a folder; one that does not fit is refused."""
    if not is_folder(path):
        sizes, remedy = graph_sizes(path), "stream its tables with `pace graph import --memory GB`"
        return _fitting(in_memory(*sizes, federation), remedy)
    _, about = read_folder(path)
    form = federation.closed_form
    columns = sum(form.row_columns(federation).values()) if form else 0
    seconds = about.entries * (about.features + columns) / ALONG
    seconds += about.nodes * columns**2 * 4 / RATE
    stored = sum(part.stat().st_size for part in (path / "made").rglob("*") if part.is_file())
    disk = max(0.0, 4.0 * about.nodes * (about.features + columns) - stored)
    forecast = Forecast(LIBRARIES + about.memory, seconds, disk)
    _fitting(forecast, "import the graph again with less --memory")
    if (free := shutil.disk_usage(path).free) < disk:
        raise SettingError(
            f"products of {path} take up to {disk / 1e9:.1f} GB beside it, and {free / 1e9:.1f} GB are "
            "free on its disk: make room, or move the folder"
        )
    return forecast


def forecast_run(graph: Graph, federations: Iterable[Federation], seeds: int) -> Forecast:
    """Of all clients that a graph is divided among, one federation for each training; as above."""
    size = graph.nodes, graph.edges.shape[1], graph.features
    parts = [in_memory(*size, federation) for federation in federations]
    seconds = seeds * sum(part.seconds for part in parts)
    return _fitting(Forecast(max(part.memory for part in parts), seconds), "take a smaller graph")


def in_memory(nodes: int, entries: int, features: int, federation: Federation) -> Forecast:
    """Of a graph with so many edges, counted in both directions."""
    hidden, classes = sum(federation.model.widths[1:-1]), federation.model.classes
    numbers = nodes * (2 * features + 4 * hidden + 3 * classes) + 10 * entries
    epoch = 4 * nodes * hidden * (features + classes) + 2 * entries * (hidden + classes)
    return Forecast(LIBRARIES + 4 * numbers, federation.recipe.epochs * epoch / RATE)


def _fitting(forecast: Forecast, remedy: str) -> Forecast:
    """The forecast, if there is so much memory."""
    free = available_memory()
    if free is not None and forecast.memory > free:
        raise SettingError(
            f"this takes about {forecast.memory / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are "
            f"free: free some, or {remedy}"
        )
    return forecast


def available_memory() -> int | None:
    """Bytes that can be taken without swapping; None where the system does not say."""
    path = Path("/proc/meminfo")
    if not path.exists():
        return None
    (line,) = (line for line in path.read_text().splitlines() if line.startswith("MemAvailable"))
    return int(line.split()[1]) * 1024
