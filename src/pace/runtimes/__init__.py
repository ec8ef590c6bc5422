"""Three ways to carry the bytes: one process, files, the network."""
