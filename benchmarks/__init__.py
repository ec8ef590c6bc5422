"""`pace bench`: how fast, against what everybody writes, measured beside it in the same run.

Other rooms use `clock`, `command`, `measure`, `picture`, `rows`, `scale`,
`sealing` and `server`.
"""
