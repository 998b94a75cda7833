from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class AsyncEngineArgs:
    model: str
    load_format: str = "auto"
    dtype: str = "auto"
    seed: int = 0
    max_model_len: int = 0
    max_num_seqs: int = 0
    enable_prefix_caching: bool = False
    tensor_parallel_size: int = 1
    skip_tokenizer_init: bool = False
    enforce_eager: bool = False
    gpu_memory_utilization: float = 0.9
    speculative_config: dict[str, Any] | None = None
    enable_lora: bool = False
    max_loras: int = 1
    max_lora_rank: int = 16
