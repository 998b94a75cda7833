"""Retrieval before a model answers: what is searched, and which pipelines can be served."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field, model_validator

from plumbline.declarations.base import Declared
from plumbline.declarations.workloads.checkpoints import ServedModel
from plumbline.declarations.workloads.load import ContextPhaseSpec, FaultPhaseSpec, LoadPhaseSpec, PhaseSpec, Requests
from plumbline.declarations.workloads.models import Encoder, ServedGpt
from plumbline.declarations.workloads.workload import Seed


class Retrieval(Declared):
    """Before the workload's model answers, `candidates` of `documents` are searched for each query, `top` of them are chosen and put before it.

    Documents are token ids drawn from `seed`, each `document_tokens` long. `embedding` makes the vectors by which the nearest ones are found
    (exactly, by all inner products); `reranking` scores each candidate together with the query.
    """

    documents: int = Field(ge=1, le=100_000_000)
    document_tokens: int = Field(ge=1, le=65536)
    candidates: int = Field(ge=1, le=4096)
    top: int = Field(ge=1, le=1024)
    embedding: Encoder
    reranking: Encoder
    seed: Seed = 7

    @model_validator(mode="after")
    def _narrowing(self) -> Retrieval:
        if not self.top <= self.candidates <= self.documents:
            raise ValueError(
                f"top {self.top} of candidates {self.candidates} of documents {self.documents}; expected top <= candidates <= documents"
            )
        for name, task in (("embedding", self.embedding.task), ("reranking", self.reranking.task)):
            if task != name:
                raise ValueError(f"{name}.task is {task}; expected {name}")
        return self

    @property
    def added_tokens(self) -> int:
        """Tokens of the documents that each prompt gets."""
        return self.top * self.document_tokens


def unsupported_retrieval(
    retrieval: Retrieval, model: ServedModel, backend: str, requests: Requests, phases: Sequence[PhaseSpec]
) -> str | None:
    """Why the pipeline cannot be served or driven so, with the field, or None."""
    if backend != "python" or not isinstance(model, ServedGpt):
        return (
            f"retrieval with server.backend {backend} and architecture {model.architecture}: only the project's own models support the pipeline; "
            "expected backend python and architecture gpt"
        )
    for name, encoder in (("embedding", retrieval.embedding), ("reranking", retrieval.reranking)):
        if encoder.vocabulary != model.vocabulary:
            return (
                f"retrieval.{name}.vocabulary {encoder.vocabulary} beside model.vocabulary {model.vocabulary}: all three read the same tokens; "
                "expected the model's"
            )
    for name, precision in (
        ("model", model.precision),
        ("retrieval.embedding", retrieval.embedding.precision),
        ("retrieval.reranking", retrieval.reranking.precision),
    ):
        if precision != "fp32":
            return f"{name}.precision {precision} with retrieval, whose models compute in fp32 alone; expected fp32"
    for what in ("turns", "shared_prefix", "prompts"):
        if getattr(requests, what) is not None:
            return f"requests.{what} with retrieval, where each prompt begins with its own documents; expected no {what}"
    return _exceeds_context(retrieval, model, requests, phases)


def _exceeds_context(retrieval: Retrieval, model: ServedGpt, requests: Requests, phases: Sequence[PhaseSpec]) -> str | None:
    added, document = retrieval.added_tokens, retrieval.document_tokens
    for where, read, written in _longest_queries(requests, phases):
        for name, context, limit, of in (
            ("model", model.context, read + added + written, f"{read} of a query, {added} of {retrieval.top} documents, {written} out"),
            ("retrieval.embedding", retrieval.embedding.context, max(read, document), f"a query has {read}, a document {document}"),
            ("retrieval.reranking", retrieval.reranking.context, read + document, f"{read} of a query and {document} of a document"),
        ):
            if limit > context:
                return f"{where}: {limit} tokens ({of}), over {name}.context {context}; expected at most the context"
    return None


def _longest_queries(requests: Requests, phases: Sequence[PhaseSpec]) -> list[tuple[str, int, int]]:
    """The longest query: its field, its tokens, and those of its answer."""
    queries = [("requests", requests.prompt_lengths.longest, requests.output_tokens.longest)]
    for i, phase in enumerate(phases):
        if isinstance(phase, ContextPhaseSpec):
            queries.append((f"phases[{i}].input_tokens", phase.input_tokens[-1], requests.output_tokens.longest))
        elif isinstance(phase, LoadPhaseSpec | FaultPhaseSpec) and (trace := phase.arrivals.trace) is not None:
            queries += [
                (f"phases[{i}].arrivals.trace {trace.row(k)}", read, written) for k, (_, read, written) in enumerate(trace.rows or ())
            ]
    return queries
