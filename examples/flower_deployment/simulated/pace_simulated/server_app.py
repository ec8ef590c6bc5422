"""What the SuperLink runs."""

from pace.flower.server import app

__all__ = ["app"]
