"""Sections 4.1 to 4.3: the carrier, the moments, the consensus, the correction, and variants of them.

Other rooms use `carrier`, `consensus`, `correction`, `moments` and `ridge`.
"""
