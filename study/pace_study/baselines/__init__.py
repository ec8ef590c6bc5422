"""The paper's baselines but FedAvg and FedProx, one file each, its ablations of PACE, and pace-duo."""
