"""Served checkpoints: where they come from, the cache, what their files say."""
