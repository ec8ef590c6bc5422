"""What everybody agrees on, and the three steps fit, merge and adopt over bytes."""
