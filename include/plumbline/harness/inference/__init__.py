"""Inference: a real server, a load that was computed before, and what its client saw."""
