"""The paper's baselines but FedAvg and FedProx, one file each, and its ablations of PACE."""
