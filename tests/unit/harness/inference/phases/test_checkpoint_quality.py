"""Against a small server whose next token is known: a table of logits, blurred to stand for a cheaper precision."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.fakes.trials import load

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.workloads.checkpoints import FolderCheckpoint
from plumbline.declarations.workloads.evaluation import Evaluation, Quality, Question
from plumbline.harness.inference.phases import checkpoint_quality
from plumbline.harness.inference.phases.checkpoint_quality import judge_agreement, quality_prompts
from plumbline.harness.inference.phases.outputs import OpenAiOutputs
from plumbline.harness.measurement import TrialFailed
from plumbline.loadclient.transport import Target
from plumbline.loadclient.wire import Wire

VOCABULARY = 64
TABLE = np.random.Generator(np.random.PCG64(1)).normal(size=(VOCABULARY, VOCABULARY))


class Model(BaseHTTPRequestHandler):
    """Answers of a model that knows the next token from the last one alone; its words are numbers."""

    protocol_version = "HTTP/1.1"
    blur = 0.0
    scored = True
    key = ""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.key and self.headers.get("Authorization") != f"Bearer {self.key}":
            self.answer(401, {"error": f"no such key: {self.headers.get('Authorization')}"})
            return
        noise = np.random.Generator(np.random.PCG64(2)).normal(size=TABLE.shape)
        logits = TABLE + self.blur * noise
        log_probability = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        if "messages" in asked:
            word = asked["messages"][0]["content"].split()[-1]
            self.answer(200, {"choices": [{"message": {"content": str(int(logits[int(word)].argmax()))}}]})
            return
        ids, choice = list(asked["prompt"]), {"text": ""}
        if self.scored and "prompt_logprobs" in asked:
            rank = (-logits).argsort(axis=1).argsort(axis=1) + 1
            pairs = list(pairwise(ids))
            choice["prompt_logprobs"] = [None] + [  # type: ignore[assignment]
                {str(b): {"logprob": float(log_probability[a, b]), "rank": int(rank[a, b])}} for a, b in pairs
            ]
        made: list[int] = []
        for _ in range(asked["max_tokens"]):
            made.append(int(logits[(made or ids)[-1]].argmax()))
        choice["token_ids"] = made  # type: ignore[assignment]
        self.answer(200, {"choices": [choice]})

    def answer(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        return


class Server(ThreadingHTTPServer):
    request_queue_size = 64


class Numbers:
    """Tokens of texts whose words are token ids; of a question its last word."""

    def read(self, texts: list[str], *, chat: bool) -> Any:
        return [np.array([int(word) for word in text.removeprefix("after ").split()], np.int32) for text in texts]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAiOutputs]:
    for name, value in (("blur", 0.0), ("scored", True), ("key", "")):
        monkeypatch.setattr(Model, name, value)
    with Server(("127.0.0.1", 0), Model) as opened:
        threading.Thread(target=opened.serve_forever, daemon=True).start()
        yield client(opened.server_address[1])
        opened.shutdown()


def client(port: int, **fields: Any) -> OpenAiOutputs:
    return OpenAiOutputs(Target(f"127.0.0.1:{port}", Wire("stream", "m", {}), lambda: True, protocol="openai", **fields))


def workload(**quality: Any) -> InferenceWorkload:
    """Questions whose right answer is what the exact table says."""
    questions = tuple(Question(prompt=f"after {i}", answer=str(int(TABLE[i].argmax()))) for i in range(VOCABULARY))
    passage = " ".join(str(i) for i in np.random.Generator(np.random.PCG64(3)).integers(0, VOCABULARY, 700))
    base = load().workloads["chat-tiny-cpu"]
    model = base.model.model_copy(update={"vocabulary": VOCABULARY, "context": 256, "precision": "int8"})
    update = {
        "model": model,
        "quality": Quality(agreement="90%", prompts=8, text="t.txt", passage=passage, **quality),
        "evaluation": Evaluation(file="q.jsonl", questions=questions, lost="2%"),
    }
    return base.model_copy(update=update)


def run(server: OpenAiOutputs, asked: InferenceWorkload, folder: Path, blur: float) -> tuple[Any, dict[str, float], Path]:
    reference = checkpoint_quality.ask_reference(server, asked, Numbers())  # type: ignore[arg-type]
    Model.blur = blur
    found = checkpoint_quality.check(server, asked, Numbers(), reference, folder)  # type: ignore[arg-type]
    return found, {row.metric: row.value for row in found.rows if row.value is not None}, found.evidence[0].path


def test_the_same_weights_agree_in_everything(server: OpenAiOutputs, tmp_path: Path) -> None:
    found, values, evidence = run(server, workload(perplexity_increase="1%", log_probability_difference=0.01), tmp_path, blur=0.0)
    assert values["output_agreement"] == values["answer_accuracy"] == values["reference_accuracy"] == 1.0
    assert values["log_probability_difference"] == pytest.approx(0.0, abs=1e-12)
    assert values["perplexity_ratio"] == pytest.approx(1.0)
    assert found.judgements == []
    assert pq.read_table(evidence).column_names == ["question", "right", "reference_right"]


def test_perplexity_is_that_of_the_text(server: OpenAiOutputs, tmp_path: Path) -> None:
    asked = workload()
    _, values, _ = run(server, asked, tmp_path, blur=0.0)
    assert asked.quality is not None and asked.quality.passage is not None
    ids = np.array([int(word) for word in asked.quality.passage.split()])
    exact = TABLE - np.log(np.exp(TABLE).sum(axis=1, keepdims=True))
    assert values["perplexity"] == pytest.approx(float(np.exp(-exact[ids[:-1], ids[1:]].mean())))


def test_a_precision_that_changes_the_answers_is_invalid_for_each_limit(server: OpenAiOutputs, tmp_path: Path) -> None:
    found, values, _ = run(server, workload(perplexity_increase="1%", log_probability_difference=0.01), tmp_path, blur=0.7)
    assert values["output_agreement"] < 0.9 and values["answer_accuracy"] < 0.9 and values["perplexity_ratio"] > 1.01
    assert [judgement.reason.code for judgement in found.judgements] == ["quality_lost"] * 4
    assert {judgement.level for judgement in found.judgements} == {"invalid"}


def test_a_server_that_scores_nothing_leaves_the_quality_unchecked(server: OpenAiOutputs, tmp_path: Path) -> None:
    Model.scored = False
    found, values, _ = run(server, workload(), tmp_path, blur=0.0)
    assert [judgement.reason.code for judgement in found.judgements] == ["quality_unchecked"]
    assert values.keys() == {"answer_accuracy", "reference_accuracy"}


def test_a_refusal_does_not_repeat_the_key(server: OpenAiOutputs) -> None:
    Model.key = "right"
    port = int(server._target.address.rpartition(":")[2])
    with pytest.raises(TrialFailed) as caught:
        client(port, headers={"Authorization": "Bearer hidden"}, secret="hidden").answers(["after 1"], 4, chat=True)
    assert "401" in caught.value.detail and "hidden" not in caught.value.detail


def test_a_question_that_exceeds_the_context_is_named_before_a_server_starts() -> None:
    asked = workload().evaluation
    assert asked is not None
    long = asked.model_copy(update={"questions": (*(asked.questions or ())[:2], Question(prompt=" ".join(["7"] * 60), answer="x"))})
    checkpoint_quality.check_questions(asked, 256, Numbers())  # type: ignore[arg-type]
    with pytest.raises(TrialFailed) as caught:
        checkpoint_quality.check_questions(long, 100, Numbers())  # type: ignore[arg-type]
    assert caught.value.failure_class == "bad_declaration" and "question 3 " in caught.value.detail and "100" in caught.value.detail


def test_the_reference_has_the_context_of_the_model() -> None:
    """Else it would answer prompts that the model is too short for."""
    reference = FolderCheckpoint(source="folder", path="/models/exact", context=4096)
    asked = workload()
    assert asked.quality is not None
    served = asked.model_copy(update={"quality": asked.quality.model_copy(update={"reference": reference})})
    assert checkpoint_quality.reference_workload(served).model.context == asked.model.context == 256


def test_the_prompts_are_fixed_and_fit() -> None:
    one, two = quality_prompts(2048, 128, 16), quality_prompts(2048, 128, 16)
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert [len(ids) for ids in one][::15] == [16, 64]
    assert max(ids.max() for ids in one) < 2048
    for context in (8, 9, 5000):
        assert (
            1 <= min(map(len, quality_prompts(64, context, 4))) <= max(map(len, quality_prompts(64, context, 4))) <= min(context // 2, 512)
        )


@pytest.mark.parametrize("agreement", [0.98, 1.0])
def test_enough_agreement_is_no_judgement(agreement: float) -> None:
    assert judge_agreement(agreement, Quality.model_validate({"agreement": "98%"}), "bf16", 128) is None


@pytest.mark.parametrize("agreement", [0.9799, float("nan")])
def test_less_agreement_makes_the_trial_invalid(agreement: float) -> None:
    found = judge_agreement(agreement, Quality.model_validate({"agreement": "98%"}), "int8", 128)
    assert found is not None and found.level == "invalid" and found.reason.code == "quality_lost"
    assert "int8" in found.reason.detail and "98.0%" in found.reason.detail
