"""PACE as a Flower app."""
