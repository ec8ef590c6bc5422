"""What all parties agree on, and the three steps fit, merge and adopt over bytes.

Other rooms use `federation`, `method`, `number_formats`, `ring`, `sealing`, `steps`, `uploads` and
`wire`.
"""
