"""The precisions in which the project's own models are served; imports nothing but torch.

fp32, bf16, fp16   weights, cache and arithmetic (fp16 needs a GPU: the declarations say so)
int8               products of linear layers in int8: weights scaled by output channel, inputs by token as they come, so that a token's result
                   does not depend on its neighbours in the batch; everything else in fp32
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_LEVELS = 127
# CUDA's int8 product takes no fewer rows than this.
_CUDA_ROWS = 32


class Int8Linear(nn.Module):
    """A linear layer [..., in] → [..., out] whose product is done in int8."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        reach = linear.weight.detach().float().abs().amax(1).clamp_min(torch.finfo(torch.float32).tiny) / _LEVELS
        self.register_buffer("weight", (linear.weight.detach() / reach[:, None]).round().to(torch.int8))
        self.weight: Tensor
        self.register_buffer("scale", reach)
        self.scale: Tensor
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output, in the dtype of `x`."""
        rows = x.reshape(-1, x.shape[-1])
        reach = rows.abs().amax(1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny) / _LEVELS
        levels = (rows / reach).round().to(torch.int8)
        if levels.is_cuda and len(rows) < _CUDA_ROWS:
            levels = nn.functional.pad(levels, (0, 0, 0, _CUDA_ROWS - len(rows)))
        product = torch._int_mm(levels, self.weight.t())[: len(rows)].to(x.dtype) * reach * self.scale
        if self.bias is not None:
            product = product + self.bias
        return product.view(*x.shape[:-1], -1)


def in_precision(model: nn.Module, precision: str) -> nn.Module:
    """The model in one of the precisions above, changed in place; ValueError for another one."""
    if precision in _DTYPES:
        return model.to(_DTYPES[precision])
    if precision != "int8":
        raise ValueError(f"precision {precision} is not served; expected one of {', '.join([*_DTYPES, 'int8'])}")
    for name, child in model.named_children():
        if isinstance(child, nn.Linear):
            setattr(model, name, Int8Linear(child))
        else:
            in_precision(child, precision)
    return model


def weight_bytes(model: nn.Module) -> int:
    """Bytes of everything that was learned, in the precision in which it is stored; caches are not."""
    tensors = [*model.parameters(), *(b for m in model.modules() if isinstance(m, Int8Linear) for b in m.buffers(recurse=False))]
    return sum(t.numel() * t.element_size() for t in tensors)
