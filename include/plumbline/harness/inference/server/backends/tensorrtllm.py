"""The repository of a model on TensorRT-LLM's LLM API with its PyTorch backend: NVIDIA's `tritonserver:YY.MM-trtllm-python-py3`, TensorRT-LLM 1.0
or later. Checkpoints are read as they are; no engine is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.workloads.engines import Parallel
from plumbline.harness.inference.server.backends import generation, repository
from plumbline.harness.inference.server.backends.generation import Weights
from plumbline.harness.inference.server.backends.repository import Repository, needs_precision

_METHODS = {"ngram": "NGram", "draft_model": "Draft_Target", "eagle": "Eagle", "eagle3": "Eagle"}


def write(workload: InferenceWorkload, folder: Path, threads: int, checkpoint: Path | None = None) -> Repository:
    """The repository of a checkpoint, or of dummy weights of the declared shape."""
    if checkpoint is None:
        needs_precision(workload, ("fp32", "fp16", "bf16"), "dummy weights are not quantised")
    weights = generation.dummy(workload, folder) if checkpoint is None else generation.weights_of(workload, checkpoint)
    return generation.write(workload, folder, "tensorrtllm", weights, threads, engine_args(workload, weights))


def write_without_model(workload: InferenceWorkload, folder: Path, threads: int, checkpoint: Path | None = None) -> Repository:
    """Without the engine: its path takes none of its weights."""
    weights = generation.dummy(workload, folder) if checkpoint is None else generation.weights_of(workload, checkpoint)
    return generation.write_path(workload, folder, weights, threads)


def model_hash(workload: InferenceWorkload) -> str:
    return generation.model_hash(workload, "tensorrtllm")


def engine_args(workload: InferenceWorkload, weights: Weights) -> dict[str, Any]:
    """Arguments of LLM. `kv_cache_config` and `speculative_config` are the fields of those classes; the model file makes them."""
    server = workload.server
    parallel = server.parallel or Parallel(tensor=workload.needs.count)
    cache: dict[str, Any] = {"enable_block_reuse": server.prefix_cache != "off"}
    if server.kv_cache_precision == "fp8":
        cache["dtype"] = "fp8"
    own = dict(server.engine_args)
    further = own.pop("kv_cache_config", {})
    return {
        "model": str(weights.folder),
        **({"load_format": "dummy"} if weights.dummy else {}),
        "dtype": repository.DTYPES.get(workload.model.precision, "auto"),
        "max_seq_len": weights.context,
        "max_batch_size": server.sequences,
        "tensor_parallel_size": parallel.tensor,
        "pipeline_parallel_size": parallel.pipeline,
        **({"moe_expert_parallel_size": parallel.expert} if parallel.expert > 1 else {}),
        "skip_tokenizer_init": weights.dummy and not workload.requests.text,
        "return_perf_metrics": True,
        "kv_cache_config": {**(further if isinstance(further, dict) else {}), **cache},
        **_speculative(workload),
        **({"trust_remote_code": True} if server.trust_remote_code else {}),
        **own,
    }


def _speculative(workload: InferenceWorkload) -> dict[str, Any]:
    declared = workload.server.speculative
    if declared is None:
        return {}
    config: dict[str, Any] = {"decoding_type": _METHODS[declared.method], "max_draft_len": declared.tokens}
    if declared.method == "ngram":
        config["max_matching_ngram_size"] = declared.lookup
    if (model := workload.server.draft_path) is not None:
        config["speculative_model"] = model
    return {"speculative_config": config}
