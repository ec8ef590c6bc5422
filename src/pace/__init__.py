"""PACE: one-shot personalized federated graph learning.

graphs = divide(load("cora"), "louvain", clients=10)
result = simulate(graphs, methods=["local", "pace"])  # its repr is the table of scores

kept, upload = fit(graph, federation)             # a client, once
returns = merge(uploads, federation)              # the server, once
adoption = adopt(graph, kept, returned, federation)  # the client: adoption.alpha, adoption.logits
"""

from importlib import import_module as _import
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pace import datasets, export, graph, jobs, methods, models, protocol, reports, tables
    from pace.datasets import Dataset, divide, load
    from pace.errors import GraphError, PaceError, SettingError, WireError
    from pace.graph import Graph
    from pace.methods import METHODS, FedAvg, Local, Pace
    from pace.models import GCN, MODELS, Model, from_torch
    from pace.protocol import Adoption, Federation, Kept, Message, Method, adopt, fit, merge
    from pace.reports import RunResult
    from pace.runtimes import files, forecast, simulation
    from pace.runtimes.simulation import agree, simulate
    from pace.training import Recipe

# The rooms, and where each public name lives. Loaded when first asked for, so that `pace --help` and
# completion need not wait: commands say `pace.jobs.read_job`, `pace.files.fit_files`.
_HOMES = {
    "datasets": ("Dataset", "divide", "load"),
    "export": (),
    "errors": ("GraphError", "PaceError", "SettingError", "WireError"),
    "graph": ("Graph",),
    "jobs": (),
    "methods": ("METHODS", "FedAvg", "Local", "Pace"),
    "models": ("GCN", "MODELS", "Model", "from_torch"),
    "protocol": ("Adoption", "Federation", "Kept", "Message", "Method", "adopt", "fit", "merge"),
    "reports": ("RunResult",),
    "runtimes.files": (),
    "runtimes.forecast": (),
    "runtimes.simulation": ("agree", "simulate"),
    "tables": (),
    "training": ("Recipe",),
}

__all__ = sorted(["__version__", *(name for names in _HOMES.values() for name in names)])


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(_import(f"pace.{module}"), name)
        if name == module.rpartition(".")[2]:
            return _import(f"pace.{module}")
    raise AttributeError(f"module 'pace' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
