"""Retrieval-augmented generation on a real tritonserver: what is found, what the model reads, and where the time goes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import torch
from tests.integration.test_inference import measure, short_trial
from tests.unit.harness.inference.load.test_arrivals import workload
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc

from plumbline.declarations import InferenceWorkload, load
from plumbline.declarations.installation import REPOSITORY
from plumbline.harness.inference.load import model_wires
from plumbline.harness.inference.load.prompts import shipped_tokenizer
from plumbline.harness.inference.models import encoder
from plumbline.harness.inference.models.retrieval import draw_documents
from plumbline.harness.inference.server import backends, control, tritonserver
from plumbline.harness.inference.server.backends import Repository
from plumbline.harness.inference.server.backends.python import GENERATOR
from plumbline.harness.inference.server.triton import Triton
from plumbline.loadclient.prompt import Prompt
from plumbline.loadclient.request_log import PIPELINE
from plumbline.results import MetricRow

SHAPE: dict[str, Any] = {"layers": 1, "width": 32, "heads": 4, "vocabulary": 2048, "context": 64}
ENCODER = {"architecture": "encoder", **SHAPE}
RETRIEVAL: dict[str, Any] = {
    "documents": 300,
    "document_tokens": 12,
    "candidates": 10,
    "top": 3,
    "embedding": {**ENCODER, "task": "embedding", "seed": 5},
    "reranking": {**ENCODER, "task": "reranking", "seed": 6},
    "seed": 4,
}
QUERIES = [np.random.default_rng(k).integers(0, 2048, 8 + k, dtype=np.int32) for k in range(6)]
Outputs = dict[str, list[bytes]]


def declared(**requests: Any) -> InferenceWorkload:
    data = json.loads(workload().model_dump_json()) | {"retrieval": RETRIEVAL}
    data["requests"] |= {"input_tokens": {"uniform": {"min": 4, "max": 24}}, **requests}
    data["server"]["sequences"] = 8
    return InferenceWorkload.model_validate_json(json.dumps(data))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Triton, Repository]]:
    folder = tmp_path_factory.mktemp("retrieval")
    repository = backends.write(declared(text=True), folder / "models", threads=1)
    with Triton(tritonserver.find_installation(), repository.folder, repository.model, folder, ready_within_s=120) as triton:
        yield triton, repository


def asked(address: str, body: bytes, give_up_after: int | None = None) -> Outputs:
    """Every output of every response, by name; the request is cancelled after so many responses."""
    outputs: Outputs = {}
    with grpc.insecure_channel(address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        call = stub.ModelStreamInfer(iter([messages.ModelInferRequest.FromString(body)]), timeout=60)
        for n, message in enumerate(call, start=1):
            assert not message.error_message, message.error_message
            response = message.infer_response
            for output, data in zip(response.outputs, response.raw_output_contents, strict=True):
                outputs.setdefault(output.name, []).append(data)
            if n == give_up_after:
                call.cancel()
                break
    return outputs


def seconds(outputs: Outputs) -> dict[str, float]:
    (told,) = outputs["SERVER_TIMES"]
    return dict(zip(PIPELINE, np.frombuffer(told, "<f8").tolist(), strict=True))


class BruteForce:
    """Documents by all inner products and all candidates' scores, one by one."""

    @torch.inference_mode()
    def __init__(self) -> None:
        self.documents = draw_documents(4, 300, 12, 2048).long()
        self._embedding = encoder.seeded(5, task="embedding", **SHAPE)
        self._reranking = encoder.seeded(6, task="reranking", **SHAPE)
        self._vectors = [self._embedding(document[None])[0] for document in self.documents]

    @torch.inference_mode()
    def best(self, query: np.ndarray[Any, Any]) -> list[int]:
        """Numbers of the three best documents."""
        ids = torch.tensor(query, dtype=torch.long)
        vector = self._embedding(ids[None])[0]
        products = [float(document @ vector) for document in self._vectors]
        candidates = sorted(range(300), key=lambda i: -products[i])[:10]
        scores = {i: float(self._reranking(torch.cat([ids, self.documents[i]])[None])) for i in candidates}
        return sorted(candidates, key=lambda i: -scores[i])[:3]


def test_the_model_reads_the_best_of_the_nearest_documents_and_answers_as_if_asked_alone(served: tuple[Triton, Repository]) -> None:
    triton, repository = served
    truth = BruteForce()
    for query in QUERIES:
        outputs = asked(triton.address, repository.body(0, Prompt(query), 6))
        best = truth.best(query)
        assert np.frombuffer(outputs["DOCUMENTS"][0], "<i4").tolist() == best
        prompt = np.concatenate([truth.documents[best].numpy().astype(np.int32).flatten(), query])
        alone = asked(triton.address, model_wires.causal_lm(GENERATOR, text=True).body(0, model_wires.lm_inputs(Prompt(prompt), 6)))
        assert outputs["TOKEN"] == alone["TOKEN"] and len(outputs["TOKEN"]) == 6
        assert outputs["TEXT"] == alone["TEXT"]


def test_text_is_the_query_alone(served: tuple[Triton, Repository]) -> None:
    triton, repository = served
    text = shipped_tokenizer().decode(list(range(300, 316)))
    ids = np.array(shipped_tokenizer().encode(text).ids, np.int32)
    of_text, of_ids = (asked(triton.address, repository.body(0, Prompt(ids, said), 4)) for said in (text, None))
    assert (of_text["TOKEN"], of_text["DOCUMENTS"]) == (of_ids["TOKEN"], of_ids["DOCUMENTS"])
    assert np.frombuffer(of_text["INPUT_TOKENS"][0], "<i4").tolist() == [len(ids)]
    assert seconds(of_text)["tokenization"] > 0


def test_the_stages_are_all_there_and_within_the_request(served: tuple[Triton, Repository]) -> None:
    triton, repository = served
    began = time.monotonic()
    stages = seconds(asked(triton.address, repository.body(0, Prompt(QUERIES[0]), 6)))
    took = time.monotonic() - began
    assert min(stages.values()) >= 0 and 0 < sum(stages.values()) < took
    assert all(stages[stage] > 0 for stage in ("embedding", "search", "reranking", "prefill", "decode", "orchestration"))


def test_answers_stream_beside_each_other(served: tuple[Triton, Repository]) -> None:
    """More at once than there are threads in a small machine's pools: none waits for another's end, and each gets its own answer."""
    triton, repository = served
    alone = [asked(triton.address, repository.body(i, Prompt(query), 40)) for i, query in enumerate(QUERIES)]
    with ThreadPoolExecutor(len(QUERIES)) as threads:
        together = list(threads.map(lambda i: asked(triton.address, repository.body(i, Prompt(QUERIES[i]), 40)), range(len(QUERIES))))
    assert [a["DOCUMENTS"] for a in together] == [a["DOCUMENTS"] for a in alone]
    assert [len(a["TOKEN"]) for a in together] == [40] * len(QUERIES)
    lasting = max(seconds(a)["decode"] for a in together)
    assert max(seconds(a)["queue"] for a in together) < lasting, "nobody waited for somebody else's whole answer"


@pytest.mark.full
def test_what_is_given_up_or_refused_holds_nobody_up(served: tuple[Triton, Repository]) -> None:
    triton, repository = served
    for _ in range(3):
        asked(triton.address, repository.body(0, Prompt(QUERIES[0]), 60), give_up_after=2)
    with pytest.raises(AssertionError, match=r"65 .*1…64"):
        asked(triton.address, repository.body(0, Prompt(np.zeros(65, np.int32)), 4))
    with pytest.raises(AssertionError, match="128"):
        asked(triton.address, repository.body(0, Prompt(QUERIES[0]), 100_000))
    time.sleep(1.0)  # until what was given up is closed
    assert len(asked(triton.address, repository.body(0, Prompt(QUERIES[0]), 5))["TOKEN"]) == 5
    assert triton.running()


@pytest.mark.full
def test_what_was_answered_is_kept_by_no_model(tmp_path: Path) -> None:
    """A model that still holds a request is not unloaded, and its server does not end by itself."""
    repository = backends.write(declared(text=True), tmp_path / "models", threads=1)
    with Triton(tritonserver.find_installation(), repository.folder, repository.model, tmp_path, ready_within_s=120) as triton:
        with ThreadPoolExecutor(8) as threads:
            answers = threads.map(lambda i: asked(triton.address, repository.body(i, Prompt(QUERIES[i % 6]), 2)), range(80))
            assert {len(answer["TOKEN"]) for answer in answers} == {2}
        control.unload_model(triton.address, GENERATOR, within_s=30)
        control.unload_model(triton.address, repository.model, within_s=30)


@pytest.mark.full
def test_a_trial_tells_retrieval_from_the_model(tmp_path: Path) -> None:
    shipped_one = load(REPOSITORY / "include" / "config").workloads["rag-cpu"]
    data = json.loads(shipped_one.model_dump_json())
    data["retrieval"]["documents"] = 512
    changes = {name: data[name] for name in ("model", "retrieval", "server", "requests", "slo")}
    measured = measure(short_trial(**changes), tmp_path)
    rows = {(r.metric, r.statistic): r for r in measured.metrics if r.phase == "steady"}

    def mean(metric: str) -> float:
        found: MetricRow = rows[(metric, "mean")]
        assert found.value is not None and found.n == 30
        return found.value

    parts = [mean(f"{stage}_time") for stage in ("embedding", "search", "reranking")]
    assert mean("retrieval_time") == pytest.approx(sum(parts)) and min(parts) > 0
    assert mean("prefill_time") > 0 and mean("decode_time") > 0 and mean("orchestration_time") > 0
    stages = {s.stage: s.total_s for s in measured.stages if s.phase == "steady"}
    assert list(stages) == ["dispatch", *PIPELINE, "delivery"]
    assert sum(stages.values()) / 30 == pytest.approx(mean("request_scheduled_latency"), rel=0.02)
    # What the model holds is the prompt with its documents, not the query alone.
    held = mean("memory_per_sequence") / (2 * 4 * 128 * 4)
    assert 4 * 32 + 8 + 16 <= held <= 4 * 32 + 32 + 16
    assert not [j for j in measured.judgements if j.level == "invalid"]
    assert measured.facts["model.parameters"] and measured.facts["model.device"] == "cpu"
