"""What the SuperLink runs."""

from pace.runtimes.flower.server import app

__all__ = ["app"]
