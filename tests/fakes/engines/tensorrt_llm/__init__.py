"""The part of TensorRT-LLM's LLM API that tensorrtllm_model.py uses, by the documentation of its version 1.x."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from tensorrt_llm.llmapi import KvCacheConfig

__version__ = "1.0.fake"
QUEUE_S, PREFILL_S, STEP_S = 0.002, 0.005, 0.001
_KNOWN = {
    *("model", "load_format", "dtype", "max_seq_len", "max_batch_size", "tensor_parallel_size", "pipeline_parallel_size"),
    *("moe_expert_parallel_size", "skip_tokenizer_init", "return_perf_metrics", "kv_cache_config", "speculative_config"),
}


@dataclass
class SamplingParams:
    max_tokens: int = 32
    top_k: int | None = None
    min_tokens: int | None = None
    ignore_eos: bool = False
    detokenize: bool = True
    return_perf_metrics: bool = False


class LLM:
    def __init__(self, **arguments: Any) -> None:
        if unknown := set(arguments) - _KNOWN:
            raise ValueError(f"extra fields not permitted: {', '.join(sorted(unknown))}")
        assert isinstance(arguments["kv_cache_config"], KvCacheConfig)
        self.arguments, self._cached = arguments, set[tuple[int, ...]]()

    def generate_async(self, prompt: list[int], sampling: SamplingParams, streaming: bool = False) -> RequestOutput:
        assert streaming
        assert sampling.top_k == 1
        known = self.arguments["kv_cache_config"].enable_block_reuse and tuple(prompt) in self._cached
        self._cached.add(tuple(prompt))
        return RequestOutput(prompt, sampling, len(prompt) - 1 if known else 0)

    def shutdown(self) -> None:
        self.arguments = {}


class RequestOutput:
    """Iterating gives the same object again and again; its output's tokens grow."""

    def __init__(self, prompt: list[int], sampling: SamplingParams, cached_tokens: int) -> None:
        self._prompt, self._sampling, self.cached_tokens = prompt, sampling, cached_tokens
        self.outputs = [SimpleNamespace(token_ids=[], text="", request_perf_metrics=None)]
        self.finished = self.aborted = False

    def abort(self) -> None:
        self.aborted = True

    async def __aiter__(self) -> AsyncIterator[RequestOutput]:
        (answer,), n = self.outputs, self._sampling.max_tokens
        for i in range(n):
            await asyncio.sleep(STEP_S)
            token = (sum(self._prompt) + i) % 50
            answer.token_ids = [*answer.token_ids, token]
            if self._sampling.detokenize:
                answer.text += f" {token}"
            if i == n - 1 or (not self._sampling.ignore_eos and token == 7):
                self.finished = True
                moments = {
                    "arrival_time": timedelta(seconds=1),
                    "first_scheduled_time": timedelta(seconds=1 + QUEUE_S),
                    "first_token_time": timedelta(seconds=1 + QUEUE_S + PREFILL_S),
                    "last_token_time": timedelta(seconds=1 + QUEUE_S + PREFILL_S + n * STEP_S),
                }
                answer.request_perf_metrics = SimpleNamespace(timing_metrics=SimpleNamespace(**moments))
            yield self
            if self.finished:
                return
