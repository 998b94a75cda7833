from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass
class KvCacheConfig:
    enable_block_reuse: bool = True
    dtype: str = "auto"
    free_gpu_memory_fraction: float = 0.9


@dataclass
class NGramDecodingConfig:
    max_draft_len: int
    max_matching_ngram_size: int = 2
    model_fields: ClassVar[tuple[str, ...]] = ("max_draft_len", "max_matching_ngram_size")


@dataclass
class EagleDecodingConfig:
    max_draft_len: int
    speculative_model_dir: str = ""
    model_fields: ClassVar[tuple[str, ...]] = ("max_draft_len", "speculative_model_dir")
