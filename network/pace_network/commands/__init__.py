"""`pace flower`, `pace folder`, `pace nvflare`: rounds over a network."""
