"""Training and asking clients × seeds at once: what a simulation on a GPU needs, and nobody else."""
