"""What people look at: a run as data, in a terminal, as a page, as a data frame."""
