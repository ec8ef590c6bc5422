"""Speed, memory and growth, attacks, privacy and load: each module is a program of its own."""
