"""What a SuperNode runs."""

from pace.runtimes.flower.client import app

__all__ = ["app"]
