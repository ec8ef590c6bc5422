"""Runtime 3: organisations join over a network. The round and its nodes, whatever the engine."""
