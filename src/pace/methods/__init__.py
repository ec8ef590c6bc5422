"""The methods, by the name the command line knows them by."""

from collections.abc import Mapping

from pace.federation import Method
from pace.methods.fedavg import FedAvg
from pace.methods.local import Local
from pace.methods.pace import Pace

METHODS: Mapping[str, type[Method]] = {"local": Local, "fedavg": FedAvg, "pace": Pace}

__all__ = ["METHODS", "FedAvg", "Local", "Pace"]
