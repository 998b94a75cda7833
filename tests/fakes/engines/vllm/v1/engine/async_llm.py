from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import torch
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.v1.metrics.reader import TOTALS

QUEUE_S, PREFILL_S, STEP_S = 0.002, 0.005, 0.001
VOCABULARY, END = 50, 7


class AsyncLLM:
    """Two tokens a step; it caches whole prompts."""

    def __init__(self, arguments: AsyncEngineArgs) -> None:
        self.arguments, self.errored, self._cached = arguments, False, set[tuple[int, ...]]()
        cache = SimpleNamespace(num_gpu_blocks=8, block_size=16)
        self.vllm_config = SimpleNamespace(cache_config=cache, model_config=SimpleNamespace(dtype=torch.bfloat16))

    @classmethod
    def from_engine_args(cls, arguments: AsyncEngineArgs) -> AsyncLLM:
        asyncio.get_running_loop()  # as the real one, which starts tasks
        return cls(arguments)

    async def generate(
        self, prompt: dict[str, Any], sampling: SamplingParams, request_id: str, *, lora_request: Any = None
    ) -> AsyncIterator[Any]:
        ids = prompt["prompt_token_ids"]
        assert sampling.temperature == 0.0
        assert sampling.output_kind is RequestOutputKind.DELTA
        if ids[0] == 13:
            self.errored = True
            raise RuntimeError("EngineCore encountered an issue")
        if ids[0] == 14:
            raise ValueError("the prompt begins with 14")
        known = self.arguments.enable_prefix_caching and tuple(ids) in self._cached
        self._cached.add(tuple(ids))
        offset = 100 * lora_request.lora_int_id if lora_request else 0
        tokens = [(sum(ids) + i) % VOCABULARY + offset for i in range(sampling.max_tokens)]
        if not sampling.ignore_eos and END in tokens:
            tokens = tokens[: tokens.index(END) + 1]
        await asyncio.sleep(QUEUE_S + PREFILL_S)
        for at in range(0, len(tokens), 2):
            await asyncio.sleep(STEP_S)
            piece, last = tokens[at : at + 2], at + 2 >= len(tokens)
            if self.arguments.speculative_config:
                TOTALS["vllm:spec_decode_num_draft_tokens"] += 4
                TOTALS["vllm:spec_decode_num_accepted_tokens"] += 1
            times = SimpleNamespace(
                queued_ts=1.0,
                scheduled_ts=1.0 + QUEUE_S,
                first_token_ts=1.0 + QUEUE_S + PREFILL_S,
                last_token_ts=1.0 + QUEUE_S + PREFILL_S + len(tokens) * STEP_S,
            )
            text = "".join(f" {token}" for token in piece) if sampling.detokenize else ""
            output = SimpleNamespace(token_ids=piece, text=text)
            scored = None if sampling.prompt_logprobs is None or at else [None, *({token: _scored(token)} for token in ids[1:])]
            cached = len(ids) - 1 if known else 0
            yield SimpleNamespace(outputs=[output], finished=last, metrics=times, num_cached_tokens=cached, prompt_logprobs=scored)

    def shutdown(self) -> None:
        self.errored = True


def _scored(token: int) -> SimpleNamespace:
    """Even tokens are the most probable ones."""
    return SimpleNamespace(logprob=-token / 4, rank=1 + token % 2)
