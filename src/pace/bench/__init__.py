"""`pace bench`: how fast, against what everybody writes, measured beside it in the same run."""
