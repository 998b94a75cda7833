"""A bidirectional encoder on Triton's Python backend; other backends serve the same one, exported."""
