"""Retrieval-augmented generation as a pipeline of Triton's models: its orchestrator and its index."""
