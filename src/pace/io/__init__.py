"""Reading and writing: files that are whole or absent, TOML, what comes from outside, the terminal."""
