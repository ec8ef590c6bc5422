"""How a client trains: a fixed budget from the public start, on a CPU or for whole cohorts on a GPU.

Other rooms use `gpu.cohort`, `optimiser`, `recipe` and `train`.
"""
