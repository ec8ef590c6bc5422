"""Sections 4.1 to 4.3: the carrier, the moments, the consensus, the correction, and variants of them.

Other rooms use `batches`, `carrier`, `consensus`, `correction`, `evidence`, `moments`, `peers`
and `ridge`.
"""
