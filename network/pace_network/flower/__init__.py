"""Flower as an engine of the network runtime: what needs Flower, and nothing else.

With this import Flower's telemetry, its checks for updates and its installs at run time are off,
here and in its processes.
"""

import os

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
os.environ |= QUIET
