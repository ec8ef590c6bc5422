"""The paper's baselines, one file each."""
