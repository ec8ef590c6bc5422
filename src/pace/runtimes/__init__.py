"""Three ways to carry the bytes: one process, files, the network."""

from pace.runtimes.simulation import agree, evaluate, progress_steps, run_trials, simulate
