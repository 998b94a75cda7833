"""The architectures whose arithmetic the harness counts and the selfcheck compares."""

ARCHITECTURES = ("gpt", "llama", "bert", "vit")
