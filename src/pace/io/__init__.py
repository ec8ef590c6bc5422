"""Reading and writing: files that are whole or absent, TOML, what comes from outside, the terminal.

Other rooms use `atomic`, `lock`, `plugins`, `records`, `regular`, `terminal`, `text`, `toml`,
`untrusted` and `versions`.
"""
