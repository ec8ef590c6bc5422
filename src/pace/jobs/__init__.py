"""A federation in the world: its file, keys, participants, disclosure and the server's journal.

Other rooms use `admission`, `codebook`, `disclosure`, `explain`, `influence`, `job`, `job_file`,
`journal`, `proposal`, `received`, `roll`, `sealing` and `signatures`.
"""
