"""Reading and writing: files that are whole or absent, what comes from outside, the terminal.

Other rooms use `atomic`, `plugins`, `records`, `settings`, `terminal`, `text` and `untrusted`.
"""
