"""The repository of a model on vLLM: NVIDIA's `tritonserver:YY.MM-vllm-python-py3`, or a vLLM for CPUs in the engine Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.workloads.engines import ENGINE_MEMORY_SHARE, Parallel, Speculative
from plumbline.harness.inference.server.backends import generation, repository, vllm_backend
from plumbline.harness.inference.server.backends.generation import Weights
from plumbline.harness.inference.server.backends.repository import Repository, hash_of, needs_precision
from plumbline.harness.measurement import TrialFailed


def write(workload: InferenceWorkload, folder: Path, threads: int, checkpoint: Path | None = None) -> Repository:
    """The repository of a checkpoint, or of dummy weights of the declared shape."""
    if checkpoint is None:
        needs_precision(workload, repository.DTYPES, "vLLM quantises dummy weights to fp8 alone, the others need a quantised checkpoint")
    weights = generation.dummy(workload, folder) if checkpoint is None else generation.weights_of(workload, checkpoint, ("fp8",))
    variables = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    if workload.needs.accelerator == "cpu":
        variables |= {"VLLM_TARGET_DEVICE": "cpu", "VLLM_CPU_KVCACHE_SPACE": str(generation.kv_cache_gib(workload, weights))}
    arguments = engine_args(workload, weights)
    if workload.server.triton_backend == vllm_backend.BACKEND:
        return vllm_backend.write(workload, folder, weights, arguments, variables)
    return generation.write(workload, folder, "vllm", weights, threads, arguments, variables)


def write_without_model(workload: InferenceWorkload, folder: Path, threads: int, checkpoint: Path | None = None) -> Repository:
    """Without the engine: its path takes none of its weights."""
    weights = generation.dummy(workload, folder) if checkpoint is None else generation.weights_of(workload, checkpoint, ("fp8",))
    return generation.write_path(workload, folder, weights, threads)


def model_hash(workload: InferenceWorkload) -> str:
    if workload.server.triton_backend == vllm_backend.BACKEND:
        return hash_of(workload, triton_backend=vllm_backend.BACKEND)  # its source is the image's, which is a fact of its own
    return generation.model_hash(workload, "vllm")


def engine_args(workload: InferenceWorkload, weights: Weights) -> dict[str, Any]:
    """AsyncEngineArgs: those that the workload's own fields set, and `server.engine_args`."""
    model, server, cpu = workload.model, workload.server, workload.needs.accelerator == "cpu"
    parallel = server.parallel or Parallel(tensor=1 if cpu else workload.needs.count)
    several = {"pipeline_parallel_size": parallel.pipeline, "data_parallel_size": parallel.data}
    return {
        "model": str(weights.folder),
        **({"load_format": "dummy"} if weights.dummy else {}),
        # A quantised checkpoint says itself what it is computed in.
        "dtype": repository.DTYPES.get(model.precision, "auto") if weights.dummy or model.precision != "fp8" else "auto",
        "seed": model.seed,
        "max_model_len": weights.context,
        "max_num_seqs": server.sequences,
        "enable_prefix_caching": server.prefix_cache != "off",
        "tensor_parallel_size": parallel.tensor,
        **{name: n for name, n in several.items() if n > 1},
        **({"enable_expert_parallel": True} if parallel.expert > 1 else {}),
        "skip_tokenizer_init": weights.dummy and not workload.requests.text,
        **({"quantization": "fp8"} if model.precision == "fp8" and not weights.quantised else {}),
        # On a CPU the cache's size is set apart; this share of memory must only be free.
        "gpu_memory_utilization": 0.5 if cpu else ENGINE_MEMORY_SHARE,
        **({"enforce_eager": True} if cpu else {}),  # vLLM's compiler needs Triton (the language), which CPUs lack
        **(
            {"kv_cache_dtype": {"bf16": "bfloat16"}.get(server.kv_cache_precision, server.kv_cache_precision)}
            if server.kv_cache_precision
            else {}
        ),
        **_speculative(server.speculative, server.draft_path),
        **_adapters(server.adapter_paths),
        **({"trust_remote_code": True} if server.trust_remote_code else {}),
        **server.engine_args,
    }


def _speculative(declared: Speculative | None, model: str | None) -> dict[str, Any]:
    if declared is None:
        return {}
    config: dict[str, Any] = {"method": declared.method, "num_speculative_tokens": declared.tokens}
    if declared.method == "ngram":
        config["prompt_lookup_max"] = declared.lookup
    if model is not None:
        config["model"] = model
    return {"speculative_config": config}


def _adapters(declared: Mapping[str, str]) -> dict[str, Any]:
    """TrialFailed("bad_declaration") for a folder without a LoRA adapter."""
    if not declared:
        return {}
    ranks = [_rank(name, Path(folder)) for name, folder in declared.items()]
    return {"enable_lora": True, "max_loras": len(ranks), "max_lora_rank": next((r for r in _RANKS if r >= max(ranks)), max(ranks))}


_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks that vLLM has kernels for."""


def _rank(name: str, folder: Path) -> int:
    try:
        return int(from_json((folder / "adapter_config.json").read_text(encoding="utf-8"))["r"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        expected = "expected a folder with adapter_config.json and its weights"
        raise TrialFailed("bad_declaration", f"server.adapters.{name}: {folder}: {type(error).__name__}: {error}; {expected}") from error
