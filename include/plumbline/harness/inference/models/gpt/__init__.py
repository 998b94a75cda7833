"""A decoder-only transformer on Triton's Python backend."""
