"""A federation in the world: its file, keys, participants, disclosure and the server's journal."""
