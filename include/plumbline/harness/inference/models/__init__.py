"""Models that the inference server serves: sources that are copied into its repository, not imported by the harness (they need torch)."""

from __future__ import annotations

from pathlib import Path

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.workloads.models import Encoder, ServedGpt
from plumbline.declarations.workloads.retrieval import Retrieval

_HERE = Path(__file__).parent
_TOKENIZER = _HERE.parent / "load" / "tokenizer.json"
_SHARED = ("precision.py", "serving.py", "journal.py")
_GENERATION = ("generation.py", "serving.py", "journal.py")
_SOURCES = {
    "gpt": ("gpt_model.py", "transformer.py", "prefixes.py", *_SHARED),
    "encoder": ("encoder_model.py", "encoder.py", *_SHARED),
    "retrieval": ("retrieval_model.py", "retrieval.py", "model_client.py", "encoder.py", "serving.py", "journal.py"),
    "vllm": ("vllm_model.py", *_GENERATION),
    "tensorrtllm": ("tensorrtllm_model.py", *_GENERATION),
    "transformers": ("transformers_model.py", "rows.py", *_GENERATION),
    "path": ("path_model.py", *_GENERATION),
}
"""Architecture or engine → source files; the first file is the model itself, which Triton looks for as `model.py`."""


WITHOUT_TRANSFORMER, WITHOUT_ENCODER = _HERE / "path_transformer.py", _HERE / "path_encoder.py"
"""What takes the place of transformer.py and encoder.py where the path around a model is measured without it."""


def sources_of(workload: InferenceWorkload) -> dict[str, Path]:
    """The files of the workload's model (of its pipeline, if it retrieves) on Triton's Python backend, by the name that each must have in the
    version folder."""
    sources = engine_sources("retrieval" if workload.retrieval else workload.model.architecture)
    return sources | ({"tokenizer.json": _TOKENIZER} if workload.requests.text else {})


def engine_sources(name: str) -> dict[str, Path]:
    """The files of a model on Triton's Python backend, by the name that each must have in the version folder: of an architecture of our own, or
    of an engine (vllm, tensorrtllm, transformers, and path, which computes nothing)."""
    model, *others = _SOURCES[name]
    return {"model.py": _HERE / model} | {each: _HERE / each for each in others}


def parameters_of(workload: InferenceWorkload, threads: int) -> dict[str, str | int]:
    """The model's parameters for config.pbtxt. `threads`: the number of cores that it computes on."""
    shape = workload.model
    if not isinstance(shape, ServedGpt | Encoder):
        raise TypeError(f"architecture {shape.architecture} is not served by the Python backend; expected gpt or encoder")
    built = _built(workload, shape, threads)
    if isinstance(shape, Encoder):
        return built | {"task": shape.task}
    return built | {"sequences": workload.server.sequences, "prefix_cache": workload.server.prefix_cache}


def pipeline_parameters_of(workload: InferenceWorkload, retrieval: Retrieval, threads: int) -> dict[str, str | int]:
    """The pipeline's parameters for config.pbtxt; the embedding model's shape is that of its own, with which it makes the documents' vectors."""
    return _built(workload, retrieval.embedding, threads) | {
        "documents": retrieval.documents,
        "document_tokens": retrieval.document_tokens,
        "documents_seed": retrieval.seed,
        "candidates": retrieval.candidates,
        "top": retrieval.top,
        "sequences": workload.server.sequences,
    }


def _built(workload: InferenceWorkload, shape: ServedGpt | Encoder, threads: int) -> dict[str, str | int]:
    return {
        **{key: getattr(shape, key) for key in ("layers", "width", "heads", "vocabulary", "context", "seed", "precision")},
        "device": "cpu" if workload.needs.accelerator == "cpu" else "cuda",
        "threads": threads,
        "text": "true" if workload.requests.text else "false",
    }
