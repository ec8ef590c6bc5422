"""Methods of our own, beyond the paper."""
