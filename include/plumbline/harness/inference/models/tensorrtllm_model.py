"""TensorRT-LLM's LLM API (its PyTorch backend, which reads checkpoints as they are) as a model of Triton's Python backend.

Greedy tokens, each piece as the engine gives it. Times are those of the engine's own request metrics (`return_perf_metrics`)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from generation import Ending, Generation, Piece, Request  # type: ignore[import-not-found]


class TritonPythonModel(Generation):  # type: ignore[misc]
    async def start(self, settings: dict[str, Any]) -> dict[str, Any]:
        import tensorrt_llm
        from tensorrt_llm import LLM, SamplingParams
        from tensorrt_llm.llmapi import KvCacheConfig

        arguments = dict(settings["engine_args"])
        arguments["kv_cache_config"] = KvCacheConfig(**arguments["kv_cache_config"])
        if "speculative_config" in arguments:
            arguments["speculative_config"] = _speculation(**arguments["speculative_config"])
        self.sampling = SamplingParams

        def load() -> Any:
            try:
                return LLM(**arguments)
            except (TypeError, ValueError) as error:
                raise ValueError(f"server.engine_args: {error}; expected arguments of TensorRT-LLM {tensorrt_llm.__version__}") from error

        # It starts processes and waits for them: on a thread, so that this loop can go on.
        self.engine = await asyncio.get_running_loop().run_in_executor(None, load)
        return {
            "engine": "tensorrt_llm",
            "engine_version": tensorrt_llm.__version__,
            "device": settings["device"],
            "dtype": str(arguments["dtype"]),
            "parameters": settings["parameters"],
        }

    async def generate(self, request: Request) -> AsyncIterator[Piece]:
        forced = not request.natural
        sampling = self.sampling(
            max_tokens=request.tokens,
            top_k=1,
            ignore_eos=forced,
            detokenize=self.text is not None,
            return_perf_metrics=True,
            **({"min_tokens": request.tokens} if forced and self.settings["end_of_text"] else {}),
        )
        running = self.engine.generate_async(request.prompt, sampling, streaming=True)
        sent, written = 0, 0
        try:
            async for output in running:
                answer = output.outputs[0]
                tokens, text = answer.token_ids[sent:], (answer.text or "")[written:]
                sent, written = sent + len(tokens), written + len(text)
                if tokens or output.finished:
                    yield Piece(tokens, text, _ending(answer, int(output.cached_tokens or 0)) if output.finished else None)
        finally:
            if not running.finished:
                running.abort()

    async def stop(self) -> None:
        self.engine.shutdown()


def _speculation(decoding_type: str, speculative_model: str | None = None, **fields: Any) -> Any:
    from tensorrt_llm import llmapi

    classes = {"NGram": "NGramDecodingConfig", "Draft_Target": "DraftTargetDecodingConfig", "Eagle": "EagleDecodingConfig"}
    config = getattr(llmapi, classes[decoding_type])
    if speculative_model is not None:
        # Renamed in 1.2.
        name = "speculative_model" if "speculative_model" in config.model_fields else "speculative_model_dir"
        fields[name] = speculative_model
    return config(**fields)


def _ending(answer: Any, cached_tokens: int) -> Ending:
    metrics = answer.request_perf_metrics
    if metrics is None:
        raise RuntimeError("TensorRT-LLM reports no times of this request; expected a version with return_perf_metrics")
    times = metrics.timing_metrics  # moments of the engine's clock: differences are timedeltas
    return Ending(
        (times.first_scheduled_time - times.arrival_time).total_seconds(),
        (times.first_token_time - times.first_scheduled_time).total_seconds(),
        (times.last_token_time - times.first_token_time).total_seconds(),
        cached_tokens,
    )
