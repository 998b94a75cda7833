"""A retrieval that cannot be served or asked gives one error that names the field; what can be is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.declarations.test_broken import only_problem

from plumbline.declarations import InferenceWorkload, load, spec_hash
from plumbline.declarations.workloads.retrieval import Retrieval

Break = Callable[[str, str, str], Path]
CHAT = "workloads/inference/chat.yaml"
SEED, OUTPUT = "  seed: 1\n", "{constant: 16}"
STEADY = "  - {name: steady, arrivals: {poisson: {rate: 6/s}}, duration: 15s}\n"
SHAPE = "layers: 1, width: 32, heads: 4, vocabulary: 2048"
RETRIEVAL = f"""\
retrieval:
  documents: 100
  document_tokens: 16
  candidates: 8
  top: 4
  embedding: {{architecture: encoder, task: embedding, {SHAPE}, context: 48}}
  reranking: {{architecture: encoder, task: reranking, {SHAPE}, context: 64}}
"""
GPT = "{architecture: gpt,"


def declared(broken: Break, old: str = SEED, new: str = SEED, retrieval: str = RETRIEVAL) -> Path:
    broken(CHAT, SEED, SEED + retrieval)
    return broken(CHAT, old, new)


def test_a_pipeline_of_documents_that_fit(broken: Break) -> None:
    workload = load(declared(broken)).workloads["chat"]
    assert isinstance(workload, InferenceWorkload) and workload.added_tokens == 64
    without = load(broken(CHAT, RETRIEVAL, "")).workloads["chat"]
    assert isinstance(without, InferenceWorkload) and without.added_tokens == 0
    assert spec_hash(workload) != spec_hash(without)
    assert "retrieval" not in without.model_dump(exclude_defaults=True), "no recorded hash of a workload without one changes"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("top: 4", "top: 9", "top 9 of candidates 8 of documents 100; expected top <= candidates <= documents"),
        ("candidates: 8", "candidates: 101", "top 4 of candidates 101 of documents 100"),
        ("task: embedding", "task: reranking", "embedding.task is reranking; expected embedding"),
        ("task: reranking", "task: embedding", "reranking.task is embedding; expected reranking"),
        ("vocabulary: 2048, context: 48", "vocabulary: 1024, context: 48", "embedding.vocabulary: 1024 beside model.vocabulary 2048"),
        ("context: 48", "context: 47", "48 tokens (a query has 48, a document 16), over retrieval.embedding.context 47"),
        ("context: 64}", "context: 63}", "64 tokens (48 of a query and 16 of a document), over retrieval.reranking.context 63"),
        ("top: 4", "top: 5", "144 tokens (48 of a query, 80 of 5 documents, 16 out), over model.context 128"),
        ("context: 64}", "context: 64, precision: bf16}", "precision: bf16 with retrieval"),
        ("{backend: python}", "{backend: python, prefix_cache: cold}", "prefix_cache: cold with retrieval"),
        ("{backend: python}", "{backend: external}", "with server.backend external and architecture gpt"),
        (SEED, "  seed: 1\n  turns: {count: 2}\n", "turns: with retrieval"),
        (
            STEADY,
            STEADY + "  - {name: context, input_tokens: [16, 56], requests: 4, each: 5s}\n",
            "phases[2].input_tokens: 136 tokens (56 of a query, 64 of 4 documents, 16 out), over model.context 128",
        ),
    ],
)
def test_what_is_refused(broken: Break, old: str, new: str, said: str) -> None:
    problem = only_problem(declared(broken, old, new))
    # The loader puts a colon behind the field that a message begins with.
    assert said.replace(": ", " ") in problem.replace(": ", " "), problem


def test_an_encoder_alone_retrieves_nothing(broken: Break) -> None:
    declared(broken, GPT, "{architecture: encoder, task: embedding,")
    assert "architecture encoder" in only_problem(broken(CHAT, OUTPUT, "{constant: 1}"))


def test_every_key_is_on_the_page() -> None:
    page = (Path(__file__).resolve().parents[4] / "docs" / "declare-a-workload.md").read_text(encoding="utf-8")
    section = page[page.index("### Retrieval") :]
    assert [key for key in Retrieval.model_fields if f"`{key}`" not in section and f"{key}:" not in section] == []
