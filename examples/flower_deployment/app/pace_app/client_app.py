"""What a SuperNode runs."""

from pace.flower.client import app

__all__ = ["app"]
