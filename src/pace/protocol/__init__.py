"""What everybody agrees on, and the three steps fit, merge and adopt over bytes.

Other rooms use `bounds`, `federation`, `method`, `number_formats`, `ring`, `sealing`, `steps`,
`uploads` and `wire`.
"""
