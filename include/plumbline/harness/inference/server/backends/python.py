"""Model repositories of Plumbline's own models on Triton's Python backend: a streaming causal LM, an encoder, and the
retrieval pipeline of both."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from plumbline.declarations import InferenceWorkload, digest
from plumbline.declarations.workloads.models import PATCH_BYTES, Encoder
from plumbline.declarations.workloads.retrieval import Retrieval
from plumbline.harness import engine_python
from plumbline.harness.inference import models
from plumbline.harness.inference.load import model_wires
from plumbline.harness.inference.server.backends import generation
from plumbline.harness.inference.server.backends.repository import (
    DTYPES,
    Config,
    Input,
    Repository,
    config_of,
    hash_of,
    needs_precision,
    version_folder,
)
from plumbline.harness.measurement import TrialFailed
from plumbline.loadclient.request_log import PIPELINE, STAGES
from plumbline.loadclient.wire import DOCUMENTS, INPUT_TOKENS, SERVER_TIMES
from plumbline.whole_file import sha256_file

CHAT, ENCODER = "chat", "encoder"
PIPELINE_MODEL, EMBEDDING, RERANKING, GENERATOR = "pipeline", "embedding", "reranking", "generator"
Output = tuple[str, str, tuple[int, ...]]


def write(workload: InferenceWorkload, folder: Path, threads: int, checkpoint: Path | None = None) -> Repository:
    """The repository of the workload's model; it computes on `threads` cores. A checkpoint is served with transformers."""
    if checkpoint is not None:
        return _write_checkpoint(workload, folder, threads, checkpoint)
    text, shape = workload.requests.text, workload.model
    if workload.retrieval is not None:
        return _write_pipeline(workload, workload.retrieval, folder, threads)
    if isinstance(shape, Encoder):
        config = encoder(ENCODER, workload, shape, threads, batch=workload.server.sequences)
        answered = model_wires.encoder(ENCODER, shape.task, shape.width)
        repository = Repository(folder, ENCODER, "python", answered, lambda _, prompt, __: model_wires.encoder_inputs(prompt, shape.task))
    else:
        config = causal_lm(CHAT, text, models.parameters_of(workload, threads))
        streamed = model_wires.causal_lm(CHAT, text)
        repository = Repository(folder, CHAT, "python", streamed, lambda _, prompt, tokens: model_wires.lm_inputs(prompt, tokens))
    place(folder, config, workload)
    return repository


def write_without_model(workload: InferenceWorkload, folder: Path, threads: int, checkpoint: Path | None = None) -> Repository:
    """The same repository with models that compute nothing."""
    if checkpoint is not None:
        return generation.write_path(workload, folder, generation.weights_of(workload, checkpoint), threads)
    repository = write(workload, folder, threads)
    for version in folder.glob("*/1"):
        if (transformer := version / "transformer.py").exists():
            transformer.rename(version / "computing_transformer.py")
            shutil.copyfile(models.WITHOUT_TRANSFORMER, transformer)
        if (version / "encoder.py").exists():
            shutil.copyfile(models.WITHOUT_ENCODER, version / "encoder.py")
    return repository


def model_hash(workload: InferenceWorkload) -> str:
    """Hash of the model's source, shape and weights; of a pipeline, of all its models and the documents."""
    if workload.retrieval is not None:
        return _pipeline_hash(workload, workload.retrieval)
    sources = sorted(models.sources_of(workload).items())
    return hash_of(workload, **{name: sha256_file(path) for name, path in sources})


def place(folder: Path, config: Config, workload: InferenceWorkload) -> None:
    """Write a model's configuration, and its sources beside it."""
    version = version_folder(folder, config)
    for name, source in models.sources_of(workload).items():
        shutil.copyfile(source, version / name)


def causal_lm(
    name: str, text: bool, parameters: Mapping[str, str | int], *, last: Iterable[Output] = (), times: int = len(STAGES)
) -> Config:
    """The configuration of a model that takes a prompt and streams tokens. `last`: what it answers besides; `times`: how many it tells."""
    # The instance is of kind CPU also for a model on a GPU: the model places itself, Triton only has to start it once.
    return config_of(
        name,
        "python",
        [
            Input("PROMPT_IDS", "INT32", (-1,), optional=text),
            *([Input("PROMPT", "UINT8", (-1,), optional=True)] if text else []),
            Input("MAX_TOKENS", "INT32"),
        ],
        [
            ("TOKEN", "INT32", (1,)),
            ("INDEX", "INT32", (1,)),
            *([("TEXT", "UINT8", (-1,)), (INPUT_TOKENS, "INT32", (1,))] if text else []),
            (SERVER_TIMES, "FP64", (times,)),
            *last,
        ],
        kind="CPU",
        decoupled=True,
        parameters=parameters,
    )


def encoder(name: str, workload: InferenceWorkload, shape: Encoder, threads: int, *, batch: int, part: bool = False) -> Config:
    """The configuration of an encoder. `batch`: texts that are computed at once; `part`: it is one of a pipeline's models."""
    text = workload.requests.text
    answer = ("SCORE", "FP32", (1,)) if shape.task == "reranking" else ("VECTOR", "FP32", (shape.width,))
    ids = Input("IDS", "INT32", (-1,), optional=text, ragged=True)
    return config_of(
        name,
        "python",
        [
            Input("PIXELS", "UINT8", (-1, PATCH_BYTES), ragged=True) if shape.task == "vision" else ids,
            *([Input("TEXT_IN", "UINT8", (-1,), optional=True, ragged=True)] if text else []),
        ],
        [answer, (SERVER_TIMES, "FP64", (len(STAGES),))],
        kind="CPU",
        batch=batch,
        parameters=models.parameters_of(workload, threads) | ({"part": "true"} if part else {}),
    )


def _write_pipeline(workload: InferenceWorkload, retrieval: Retrieval, folder: Path, threads: int) -> Repository:
    """The repository; its models share `threads` cores."""
    text = workload.requests.text
    # While the causal LM answers some requests, an encoder works on others: with all cores for each, they would wait for each other's threads.
    threads = max(1, threads // 2)
    # As many texts at once as a request brings, or as many requests of one text as there can be.
    for name, shape, batch in (
        (EMBEDDING, retrieval.embedding, workload.server.sequences),
        (RERANKING, retrieval.reranking, max(workload.server.sequences, retrieval.candidates)),
    ):
        part = _part(workload, shape)
        place(folder, encoder(name, part, shape, threads, batch=batch, part=True), part)
    generator = workload.model_copy(update={"retrieval": None})
    place(folder, causal_lm(GENERATOR, text, models.parameters_of(generator, threads)), generator)
    parameters = models.pipeline_parameters_of(workload, retrieval, threads)
    parameters |= {"embedding": EMBEDDING, "reranking": RERANKING, "generator": GENERATOR}
    documents = (DOCUMENTS, "INT32", (retrieval.top,))
    place(folder, causal_lm(PIPELINE_MODEL, text, parameters, last=[documents], times=len(PIPELINE)), workload)
    streamed = model_wires.pipeline(PIPELINE_MODEL, text, retrieval.top)
    return Repository(folder, PIPELINE_MODEL, "python", streamed, lambda _, prompt, tokens: model_wires.lm_inputs(prompt, tokens))


def _write_checkpoint(workload: InferenceWorkload, folder: Path, threads: int, checkpoint: Path) -> Repository:
    engine_python.describe().require("transformers", f"expected it installed, or {engine_python.VARIABLE} naming a Python that has it")
    needs_precision(workload, ("fp32", "fp16", "bf16"), "transformers computes in these; quantised weights need an engine")
    if workload.server.prefix_cache != "off":
        raise TrialFailed(
            "bad_declaration",
            f"server.prefix_cache {workload.server.prefix_cache} for a checkpoint on server.backend python, which has no prefix cache; expected off",
        )
    weights = generation.weights_of(workload, checkpoint)
    settings = {"model": str(weights.folder), "dtype": DTYPES[workload.model.precision], "sequences": workload.server.sequences}
    return generation.write(workload, folder, "transformers", weights, threads, settings)


def _pipeline_hash(workload: InferenceWorkload, retrieval: Retrieval) -> str:
    """Hash of all four models' sources, shapes and weights, and of the documents."""
    parts = {
        PIPELINE_MODEL: workload,
        GENERATOR: workload.model_copy(update={"retrieval": None}),
        EMBEDDING: _part(workload, retrieval.embedding),
    }
    sources = {
        f"{part}/{name}": sha256_file(path)
        for part, declared in parts.items()
        for name, path in sorted(models.sources_of(declared).items())
    }
    return hash_of(workload, retrieval=digest(retrieval.model_dump(mode="json")), **sources)


def _part(workload: InferenceWorkload, shape: Encoder) -> InferenceWorkload:
    """An encoder of the pipeline as if it were a workload of its own: asked by token ids, whatever the pipeline is asked by."""
    return workload.model_copy(update={"model": shape, "retrieval": None, "requests": workload.requests.model_copy(update={"text": False})})
