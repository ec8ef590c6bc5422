"""Runtime 3: organisations join over the network, on Flower, by thin adapters over job and journal."""
