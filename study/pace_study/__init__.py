"""The paper's study: what to run, the cells it is stored in, and the tables and figures made of them.

Other rooms use `cell`, `folder`, `outcome`, `page`, `run` and `study`.
"""
