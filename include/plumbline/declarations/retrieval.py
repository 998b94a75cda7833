"""Retrieval-augmented generation: what is searched, by which models, and how much of it goes into each prompt."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field, model_validator

from plumbline.declarations.base import Declared
from plumbline.declarations.load import ContextPhaseSpec, FaultPhaseSpec, PhaseSpec, Requests, SearchPhaseSpec
from plumbline.declarations.models import Encoder, Llama, ServedGpt
from plumbline.declarations.workload import Seed


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


def refusal(
    retrieval: Retrieval, model: ServedGpt | Llama | Encoder, backend: str, requests: Requests, phases: Sequence[PhaseSpec]
) -> str | None:
    """Why the pipeline cannot be served or asked so, in words that name the field; None if it can."""
    if backend != "python" or not isinstance(model, ServedGpt):
        return (
            f"retrieval with server.backend {backend} and architecture {model.architecture}: the pipeline is of the project's own models; "
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
            return f"{name}.precision {precision} with retrieval, whose outputs are held against no reference; expected fp32"
    for what in ("turns", "shared_prefix"):
        if getattr(requests, what) is not None:
            return f"requests.{what} with retrieval: each prompt begins with its own documents; expected no {what}"
    for i, phase in enumerate(phases):
        if isinstance(phase, FaultPhaseSpec) and phase.inject == "model_reload":
            return f"phases[{i}] injects model_reload into retrieval, whose models are four; expected another fault"
    return _too_long(retrieval, model, requests, phases)


def _too_long(retrieval: Retrieval, model: ServedGpt, requests: Requests, phases: Sequence[PhaseSpec]) -> str | None:
    added, document = retrieval.added_tokens, retrieval.document_tokens
    for where, read, written in _lengths(requests, phases):
        for name, context, held, of in (
            ("model", model.context, read + added + written, f"{read} of a query, {added} of {retrieval.top} documents, {written} out"),
            ("retrieval.embedding", retrieval.embedding.context, max(read, document), f"a query has {read}, a document {document}"),
            ("retrieval.reranking", retrieval.reranking.context, read + document, f"{read} of a query and {document} of a document"),
        ):
            if held > context:
                return f"{where}: {held} tokens ({of}), over {name}.context {context}; expected at most the context"
    return None


def _lengths(requests: Requests, phases: Sequence[PhaseSpec]) -> list[tuple[str, int, int]]:
    """The longest that a query can be: where that stands, its tokens, and those of its answer."""
    found = [("requests", requests.input_tokens.longest, requests.output_tokens.longest)]
    for i, phase in enumerate(phases):
        if isinstance(phase, ContextPhaseSpec):
            found.append((f"phases[{i}].input_tokens", phase.input_tokens[-1], requests.output_tokens.longest))
        elif not isinstance(phase, SearchPhaseSpec) and (trace := phase.arrivals.trace) is not None:
            found += [
                (f"phases[{i}].arrivals.trace {trace.row(k)}", read, written) for k, (_, read, written) in enumerate(trace.rows or ())
            ]
    return found
