from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import Recorder, RequestLog
from plumbline.loadclient.responses import ResponseChecker, ResponseProgress
from plumbline.loadclient.wire import ANY, Wire

LOAD = PhaseLoad("steady", 1.0, np.zeros(1), np.array([3], np.int32), np.array([2], np.int32), np.array([-1], np.int32))


def judged(wire: Wire, *responses: dict[str, bytes]) -> RequestLog:
    """What stands in the log after these responses, the last of them marked as such."""
    log = RequestLog.of(LOAD)
    log.began = 10.0
    # Connections write through the engine; the columns are written by its base alone.
    sink: Any = Recorder(log)
    answers, answer = ResponseChecker(wire, LOAD, sink), ResponseProgress(0)
    for i, arrays in enumerate(responses):
        answers.take(answer, arrays, i == len(responses) - 1, 10.5 + i)
    answers.close(answer)
    return log


def int32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def test_a_right_answer() -> None:
    wire = Wire("stream", "m", {"TEXT": ANY, "INDEX": 4}, {"SERVER_TIMES": 40, "INPUT_TOKENS": 4})
    times = np.arange(5.0)
    last = {"TEXT": b"b", "INDEX": int32(1), "SERVER_TIMES": times.tobytes(), "INPUT_TOKENS": int32(3), "MORE": b""}
    log = judged(wire, {"TEXT": b"a", "INDEX": int32(0)}, last)
    assert log.finished == 1, log.first_error()
    assert list(log.tokens(0)) == [0.5, 1.5]
    assert np.array_equal(log.server_s[0], times)


@pytest.mark.parametrize(
    ("last", "detail"),
    [
        ({"TEXT": b"", "INDEX": int32(1)}, "token 1: 0 bytes of TEXT; expected at least 1"),
        ({"TEXT": b"b"}, "token 1: 0 bytes of INDEX; expected 4"),
        ({"TEXT": b"b", "INDEX": int32(2), "INPUT_TOKENS": int32(3)}, "token 1 has index 2; a token was lost, doubled or overtaken"),
        ({"TEXT": b"b", "INDEX": int32(1)}, "token 1: 0 bytes of INPUT_TOKENS; expected 4"),
        ({"TEXT": b"b", "INDEX": int32(1), "INPUT_TOKENS": int32(4)}, "the server made 4 tokens of the prompt; 3 were declared"),
    ],
)
def test_wrong_answers(last: dict[str, bytes], detail: str) -> None:
    log = judged(Wire("stream", "m", {"TEXT": ANY, "INDEX": 4}, {"INPUT_TOKENS": 4}), {"TEXT": b"a", "INDEX": int32(0)}, last)
    assert log.errors() == {"wrong_output": 1}
    assert detail in log.details[0]


@pytest.mark.parametrize(
    ("brought", "ok"), [((2,), True), ((1, 1), True), ((2, 0), True), ((1,), False), ((1, 2), False), ((2**31,), False)]
)
def test_responses_that_bring_several_tokens(brought: tuple[int, ...], ok: bool) -> None:
    wire = Wire("stream", "m", {"N": 4}, index=None, tokens="N")
    log = judged(wire, *({"N": int32(count)} for count in brought))
    assert bool(log.ok[0]) is ok
    assert len(log.tokens(0)) == min(sum(brought), 2)
    if not ok:
        assert f"{sum(brought)} tokens; expected 2" in log.details[0]
