"""vLLM's AsyncLLM as a model of Triton's Python backend: on GPUs in NVIDIA's image with vLLM, on a CPU in any environment with a vLLM for CPUs.

Greedy tokens, each piece as the engine gives it. Times and cached tokens are those of the engine's own request metrics."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

# The stub imports this file as a member of a package named after the version folder and puts no such folder on the path.
sys.path.insert(0, str(Path(__file__).parent))
from generation import Ending, Generation, Piece, Request, Scores  # type: ignore[import-not-found]


class TritonPythonModel(Generation):  # type: ignore[misc]
    async def start(self, settings: dict[str, Any]) -> dict[str, Any]:
        if settings["device"] == "cpu":
            # The cores that the harness pinned the server to: vLLM binds its threads itself, and they spin. One core is left to this process and
            # to Triton, which would send tokens only between two requests otherwise.
            cores = sorted(os.sched_getaffinity(0))[: settings["threads"]]
            cores = cores[: max(1, len(cores) - 1)]
            os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", ",".join(map(str, cores)))
        import vllm
        from vllm import SamplingParams
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.sampling_params import RequestOutputKind
        from vllm.v1.engine.async_llm import AsyncLLM

        try:
            arguments = AsyncEngineArgs(**settings["engine_args"])
        except TypeError as error:
            raise ValueError(f"server.engine_args: {error}; expected arguments of vLLM {vllm.__version__}") from error
        self.engine = AsyncLLM.from_engine_args(arguments)
        self.sampling, self.delta, self.numbers = SamplingParams, RequestOutputKind.DELTA, count()
        self.adapters = {}
        if settings["adapters"]:
            from vllm.lora.request import LoRARequest

            self.adapters = {name: LoRARequest(name, i, path) for i, (name, path) in enumerate(settings["adapters"].items(), start=1)}
        self.speculates = "speculative_config" in settings["engine_args"]
        config = self.engine.vllm_config
        blocks = config.cache_config.num_gpu_blocks
        return {
            "engine": "vllm",
            "engine_version": vllm.__version__,
            "device": settings["device"],
            "dtype": str(config.model_config.dtype).removeprefix("torch."),
            "parameters": settings["parameters"],
            "gpu_memory_utilization": arguments.gpu_memory_utilization,
            "kv_cache_tokens": blocks * config.cache_config.block_size if blocks else None,
        }

    async def generate(self, request: Request) -> AsyncIterator[Piece]:
        # A forced length: the end of text is never chosen, as `min_tokens` of OpenAI-compatible servers has it. Dummy weights have no end of text.
        forced = not request.natural
        least = {"min_tokens": request.tokens} if forced and self.settings["end_of_text"] else {}
        sampling = self.sampling(
            temperature=0.0,
            max_tokens=request.tokens,
            ignore_eos=forced,
            detokenize=self.text is not None,
            output_kind=self.delta,
            **({"prompt_logprobs": 0} if request.score else {}),
            **least,
        )
        adapter = self.adapters.get(request.adapter)
        prompt = {"prompt_token_ids": request.prompt}
        scores: Scores | None = None
        # Numbers of our own: two phases number their requests alike, and an aborted one may still be known to the engine.
        async for output in self.engine.generate(prompt, sampling, request_id=f"plumbline-{next(self.numbers)}", lora_request=adapter):
            piece = output.outputs[0]
            if request.score and output.prompt_logprobs:
                scores = _scores(request.prompt, output.prompt_logprobs)
            yield Piece(piece.token_ids, piece.text, _ending(output, scores) if output.finished else None)

    async def stop(self) -> None:
        self.engine.shutdown()

    def broken(self) -> bool:
        return bool(self.engine.errored)

    def drafted(self) -> tuple[int, int] | None:
        if not self.speculates:
            return None
        from vllm.v1.metrics.reader import get_metrics_snapshot

        counters = {metric.name: getattr(metric, "value", 0) for metric in get_metrics_snapshot()}
        totals = (counters.get(f"vllm:spec_decode_num_{name}_tokens", 0) for name in ("draft", "accepted"))
        drafts, accepted = map(int, totals)
        return drafts, accepted


def _ending(output: Any, scores: Scores | None) -> Ending:
    times = output.metrics
    if times is None:
        raise RuntimeError("vLLM reports no times of this request; expected disable_log_stats false")
    return Ending(
        times.scheduled_ts - times.queued_ts,
        times.first_token_ts - times.scheduled_ts,
        times.last_token_ts - times.first_token_ts,
        int(output.num_cached_tokens or 0),
        scores,
    )


def _scores(prompt: list[int], reported: Any) -> Scores:
    """`reported` by vLLM: of each position the tokens by id, None of the first."""
    own = [position[token] for token, position in zip(prompt[1:], reported[1:], strict=True)]
    return Scores([each.logprob for each in own], [each.rank == 1 for each in own])
