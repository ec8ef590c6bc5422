"""Section 4.4: how a receiver weighs Local against what came back, on its own validation nodes."""
