"""Three ways to carry the bytes: one process, files, the network.

Other rooms use `simulation`.
"""
