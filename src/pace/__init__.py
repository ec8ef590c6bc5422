"""PACE: one-shot personalized federated graph learning.

kept, upload = fit(graph, federation)             # a client, once
returns = merge(uploads, federation)              # the server, once
adoption = adopt(graph, kept, returned, federation)  # the client: adoption.alpha, adoption.logits
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pace.errors import GraphError, PaceError, SettingError, WireError
    from pace.federation import Federation, Message, Method, Recipe
    from pace.gcn import GCN
    from pace.graph import Graph
    from pace.methods import METHODS, FedAvg, Local, Pace
    from pace.protocol import Adoption, Kept, adopt, fit, merge
    from pace.rows import results

# Where each public name lives. Loaded when first asked for, so that `pace --help` need not wait.
_HOME = {
    "METHODS": "methods",
    "GCN": "gcn",
    "Adoption": "protocol",
    "FedAvg": "methods",
    "Federation": "federation",
    "Graph": "graph",
    "GraphError": "errors",
    "Kept": "protocol",
    "Local": "methods",
    "Message": "federation",
    "Method": "federation",
    "Pace": "methods",
    "PaceError": "errors",
    "Recipe": "federation",
    "SettingError": "errors",
    "WireError": "errors",
    "adopt": "protocol",
    "fit": "protocol",
    "merge": "protocol",
    "results": "rows",
}

__all__ = [
    "GCN",
    "METHODS",
    "Adoption",
    "FedAvg",
    "Federation",
    "Graph",
    "GraphError",
    "Kept",
    "Local",
    "Message",
    "Method",
    "Pace",
    "PaceError",
    "Recipe",
    "SettingError",
    "WireError",
    "__version__",
    "adopt",
    "fit",
    "merge",
    "results",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"pace.{_HOME[name]}"), name)
    raise AttributeError(f"module 'pace' has no attribute {name!r}")
