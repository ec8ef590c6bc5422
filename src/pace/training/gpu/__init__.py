"""Training clients × seeds at once: all that only a GPU needs."""
