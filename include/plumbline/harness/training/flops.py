"""How much arithmetic the model itself asks for, whatever the kernels really do (recomputation, masking, padding do not count)."""

from __future__ import annotations

from plumbline.declarations.architectures import TransformerShape


def matmul_parameters(shape: TransformerShape) -> int:
    """Parameters that are factors of a matrix product: attention and MLP weights of each layer, and the head.

    Embeddings are looked up; biases and norms are added or scaled: none of them is a product worth counting.
    """
    return 12 * shape.layers * shape.width**2 + shape.vocabulary * shape.width


def flops_per_token(shape: TransformerShape, sequence: int) -> float:
    """Floating-point operations of one trained token: forward and backward.

    6·N + 6·layers·width·(sequence + 1), where N are the matmul parameters: each costs one multiplication and one addition
    forward and twice that backward. Attention: query i sees i keys, (sequence + 1)/2 on average; scores and weighted sum take
    2·width operations a key each, so 2·width·(sequence + 1) forward and three times that in all. What the causal mask hides is
    not counted.
    """
    return 6.0 * matmul_parameters(shape) + 6.0 * shape.layers * shape.width * (sequence + 1)
