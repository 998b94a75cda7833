from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pytest

from plumbline.harness.inference.load.model_wires import causal_lm
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import ErrorClass, Remark
from plumbline.loadclient.responses import ResponseChecker, ResponseProgress
from plumbline.loadclient.transport import Connection
from plumbline.loadclient.wire import PERHAPS

TIMES = struct.pack("<5d", 0.1, 0.2, 0.3, 0.4, 0.5)


class Heard:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.tokens = 0
        self.times: tuple[float, ...] = ()

    def token(self, number: int, at: float) -> None:
        self.tokens += 1

    def turned_away(self, numbers: Sequence[int], why: str, at: float) -> None:
        raise AssertionError("no connection is lost here")

    def usage(self, number: int, counts: tuple[int, ...]) -> None:
        raise AssertionError("gRPC has no usage")

    def remark(self, number: int, remark: Remark) -> None:
        raise AssertionError("gRPC has no thoughts")

    def told_to_wait(self, number: int, wait_s: float, error: ErrorClass, why: str, at: float) -> None:
        raise AssertionError("gRPC has no time to wait")

    def server_times(self, number: int, seconds: tuple[float, ...]) -> None:
        self.times = seconds

    def fail(self, number: int, error: ErrorClass, detail: str) -> None:
        self.failures.append(f"{error}: {detail}")

    def ended(self, number: int, at: float) -> None: ...

    def room(self, connection: Connection) -> None: ...

    def lost(self, connection: Connection, reason: str) -> None: ...


def heard(text: bytes | None, input_tokens: int = 24) -> Heard:
    """What is said of a two-token answer whose second token has the text (None: no such tensor)."""
    counts = (np.full(1, 24, np.int32), np.full(1, 2, np.int32))
    sink, answer = Heard(), ResponseProgress(0)
    answers = ResponseChecker(causal_lm("chat", text=True), PhaseLoad("steady", 1.0, np.zeros(1), *counts, np.full(1, -1, np.int32)), sink)
    for i in range(2):
        arrays = {"TOKEN": bytes(4), "INDEX": struct.pack("<i", i), "TEXT": b"a"}
        if i == 1:
            arrays |= {"SERVER_TIMES": TIMES, "INPUT_TOKENS": struct.pack("<i", input_tokens)}
            arrays = {k: v for k, v in arrays.items() if k != "TEXT"} | ({} if text is None else {"TEXT": text})
        answers.take(answer, arrays, i == 1, 0.0)
    answers.close(answer)
    return sink


@pytest.mark.parametrize("text", [b" word", b""])
def test_a_token_may_have_no_text_yet(text: bytes) -> None:
    sink = heard(text)
    assert sink.failures == [] and sink.tokens == 2 and sink.times == (0.1, 0.2, 0.3, 0.4, 0.5)
    assert causal_lm("chat", text=True).responses["TEXT"] == PERHAPS


def test_its_text_must_be_there_at_all() -> None:
    (failure,) = heard(None).failures
    assert failure.startswith("wrong_output: token 1: ") and "TEXT" in failure


def test_another_tokenizer_is_noticed() -> None:
    (failure,) = heard(b"a", input_tokens=23).failures
    assert "tokenizer mismatch" in failure and "23" in failure and "24" in failure
