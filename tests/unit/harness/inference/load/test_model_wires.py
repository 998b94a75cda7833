"""A request's bytes say exactly what was meant, whoever reads them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from tritonclient.grpc import service_pb2 as messages

from plumbline.harness.inference.load.model_wires import causal_lm, encoder, encoder_inputs, lm_inputs, pipeline
from plumbline.loadclient.wire import PERHAPS, Tensor, Wire


def prompt(ids: list[int], text: str | None = None) -> Any:
    return SimpleNamespace(ids=np.array(ids, np.int32), text=text)


def read(body: bytes) -> tuple[Any, dict[str, tuple[str, list[int], bytes]]]:
    request = messages.ModelInferRequest.FromString(body)
    pairs = zip(request.inputs, request.raw_input_contents, strict=True)
    return request, {tensor.name: (tensor.datatype, list(tensor.shape), raw) for tensor, raw in pairs}


def test_a_prompt_of_ids() -> None:
    request, inputs = read(causal_lm("chat", text=False).body(17, lm_inputs(prompt([1, 2, 3]), 64)))
    assert (request.model_name, request.id) == ("chat", "17")
    assert inputs == {
        "PROMPT_IDS": ("INT32", [3], np.array([1, 2, 3], "<i4").tobytes()),
        "MAX_TOKENS": ("INT32", [1], b"\x40\0\0\0"),
    }


def test_a_prompt_of_text_is_its_bytes() -> None:
    _, inputs = read(causal_lm("chat", text=True).body(0, lm_inputs(prompt([1], "né"), 1)))
    assert inputs["PROMPT"] == ("UINT8", [3], b"n\xc3\xa9")
    assert "PROMPT_IDS" not in inputs


def test_an_encoders_request() -> None:
    wire = encoder("embed", "embedding", width=8)
    assert (wire.method, wire.responses, wire.last, wire.index) == ("unary", {"VECTOR": 32}, {"SERVER_TIMES": 40}, None)
    assert read(wire.body(0, encoder_inputs(prompt([5, 6]), "embedding")))[1] == {"IDS": ("INT32", [1, 2], b"\5\0\0\0\6\0\0\0")}
    assert read(wire.body(0, encoder_inputs(prompt([5, 6], "abc"), "reranking")))[1] == {"TEXT_IN": ("UINT8", [1, 3], b"abc")}
    assert encoder("rank", "reranking", width=8, timed=False).last == {}
    assert encoder("rank", "reranking", width=8).responses == {"SCORE": 4}


def test_what_a_language_model_must_answer() -> None:
    assert causal_lm("chat", text=False).last == {"SERVER_TIMES": 40}
    of_text = causal_lm("chat", text=True)
    assert of_text.responses == {"TOKEN": 4, "INDEX": 4, "TEXT": PERHAPS}
    assert of_text.last == {"SERVER_TIMES": 40, "INPUT_TOKENS": 4}


def test_a_pipeline_answers_like_its_model_and_says_more() -> None:
    wire = pipeline("rag", text=True, top=3)
    assert (wire.method, wire.responses, wire.index) == ("stream", causal_lm("rag", text=True).responses, "INDEX")
    assert wire.last == {"SERVER_TIMES": 8 * 9, "INPUT_TOKENS": 4, "DOCUMENTS": 12}
    assert wire.stages == (
        "tokenization",
        "embedding",
        "search",
        "reranking",
        "queue",
        "prefill",
        "decode",
        "post_processing",
        "orchestration",
    )


def test_any_other_model() -> None:
    _, inputs = read(Wire("unary", "noop", {"OUT": 64}, index=None).body(3, [Tensor("IN", "FP32", np.zeros(16, np.float32))]))
    assert inputs == {"IN": ("FP32", [16], bytes(64))}
