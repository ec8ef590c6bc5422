"""Flower as an engine of the network runtime: what needs Flower, and nothing else.

Other rooms use `kits`, `launch` and `supernode`.
"""
