"""PACE as a Flower app whose nodes are simulated."""
