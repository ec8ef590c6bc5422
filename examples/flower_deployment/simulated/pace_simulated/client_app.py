"""What a simulated node runs: site number `partition-id` of the folder `sites`."""

from pace.runtimes.flower.simulated import app

__all__ = ["app"]
