"""Flower as an engine of the network runtime: what needs Flower, and nothing else."""
