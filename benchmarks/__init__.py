"""`pace bench`: how fast, against what everybody writes, measured beside it in the same run.

Other rooms use `clock`, `command`, `measure`, `memory`, `models`, `numbers`, `picture`, `scale`,
`sealing` and `server`.
"""
