"""Repositories of retrieval-augmented generation: an embedding model, a reranking model, a causal LM, and the pipeline that asks them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from plumbline.declarations import InferenceWorkload, digest
from plumbline.declarations.workloads.inference import Retrieval
from plumbline.declarations.workloads.models import Encoder
from plumbline.harness.inference import models
from plumbline.harness.inference.load import wire
from plumbline.harness.inference.load.request_log import PIPELINE
from plumbline.harness.inference.server.backends import python
from plumbline.harness.inference.server.backends.repository import Repository, hash_of

MODEL, EMBEDDING, RERANKING, GENERATOR = "pipeline", "embedding", "reranking", "generator"


def write(workload: InferenceWorkload, folder: Path, threads: int) -> Repository:
    """The repository; its models share `threads` cores."""
    retrieval, text = _declared(workload), workload.requests.text
    # While the causal LM answers some requests, an encoder works on others: with all cores for each, they would wait for each other's threads.
    threads = max(1, threads // 2)
    # As many texts at once as a request brings, or as many requests of one text as there can be.
    for name, shape, batch in (
        (EMBEDDING, retrieval.embedding, workload.server.sequences),
        (RERANKING, retrieval.reranking, max(workload.server.sequences, retrieval.candidates)),
    ):
        part = _part(workload, shape)
        python.place(folder, python.encoder(name, part, shape, threads, batch=batch, part=True), part)
    generator = workload.model_copy(update={"retrieval": None})
    python.place(folder, python.causal_lm(GENERATOR, text, models.parameters_of(generator, threads)), generator)
    parameters = models.pipeline_parameters_of(workload, retrieval, threads)
    parameters |= {"embedding": EMBEDDING, "reranking": RERANKING, "generator": GENERATOR}
    documents = (wire.DOCUMENTS, "INT32", (retrieval.top,))
    python.place(folder, python.causal_lm(MODEL, text, parameters, last=[documents], times=len(PIPELINE)), workload)
    asked = wire.pipeline(MODEL, text, retrieval.top)
    return Repository(folder, MODEL, "python", asked, lambda number, prompt, tokens: wire.lm_body(asked, number, prompt, tokens))


def model_hash(workload: InferenceWorkload) -> str:
    """Hash of all four models' sources, shapes and weights, and of the documents."""
    retrieval = _declared(workload)
    parts = {
        MODEL: workload,
        GENERATOR: workload.model_copy(update={"retrieval": None}),
        EMBEDDING: _part(workload, retrieval.embedding),
    }
    sources = {
        f"{part}/{name}": hashlib.sha256(path.read_bytes()).hexdigest()
        for part, declared in parts.items()
        for name, path in sorted(models.sources_of(declared).items())
    }
    return hash_of(workload, retrieval=digest(retrieval.model_dump(mode="json")), **sources)


def _declared(workload: InferenceWorkload) -> Retrieval:
    if workload.retrieval is None:
        raise ValueError(f"workload {workload.name} declares no retrieval; expected one to serve")
    return workload.retrieval


def _part(workload: InferenceWorkload, shape: Encoder) -> InferenceWorkload:
    """An encoder of the pipeline as if it were a workload of its own: asked by token ids, whatever the pipeline is asked by."""
    return workload.model_copy(update={"model": shape, "retrieval": None, "requests": workload.requests.model_copy(update={"text": False})})
