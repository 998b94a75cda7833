from __future__ import annotations

import struct

import numpy as np
import pytest
from tritonclient.grpc import service_pb2 as messages

from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import Recorder, RequestLog
from plumbline.loadclient.responses import LayoutCache, MessageReader, ResponseChecker, ResponseProgress
from plumbline.loadclient.wire import PERHAPS, Wire

UNARY = Wire("unary", "m", {"OUT": 64}, index=None)
STREAM = Wire("stream", "m", {"TOKEN": 4, "INDEX": 4, "TEXT": PERHAPS}, {"SERVER_TIMES": 40, "INPUT_TOKENS": 4})


def response(number: int, *outputs: tuple[str, bytes], final: bool | None = None) -> messages.ModelInferResponse:
    made = messages.ModelInferResponse(model_name="m", model_version="1", id=str(number) if number >= 0 else "")
    if final is not None:
        made.parameters["triton_final_response"].bool_param = final
    for name, values in outputs:
        made.outputs.add(name=name, datatype="UINT8", shape=[len(values)])
        made.raw_output_contents.append(values)
    return made


def streamed(number: int, *outputs: tuple[str, bytes], final: bool) -> bytes:
    return bytes(messages.ModelStreamInferResponse(infer_response=response(number, *outputs, final=final)).SerializeToString())


def token(number: int, index: int, text: bytes = b"a", *, last: bool = False, told: int = 7) -> bytes:
    """One response of a language model."""
    outputs = [("TOKEN", b"\x00\x01\x02\x03"), ("INDEX", struct.pack("<i", index)), ("TEXT", text)]
    if last:
        outputs += [("SERVER_TIMES", struct.pack("<5d", *range(5))), ("INPUT_TOKENS", struct.pack("<i", told))]
    return streamed(number, *outputs, final=last)


def read(wire: Wire, asked: int, tokens: int, *answers: list[bytes]) -> RequestLog:
    """The log after these answers, each a list of messages, read one after the other by one reader."""
    counts = (np.full(asked, 7, np.int32), np.full(asked, tokens, np.int32))
    log = RequestLog.of(PhaseLoad("steady", 1.0, np.zeros(asked), *counts, np.full(asked, -1, np.int32)))
    log.began = 0.0
    sink = Recorder(log)
    checks = ResponseChecker(wire, log.load, sink)  # type: ignore[arg-type]  # the columns are written by the engine's base alone
    reader = MessageReader(wire, checks, sink)  # type: ignore[arg-type]
    for number, texts in enumerate(answers):
        answer = ResponseProgress(number)
        for message in texts:
            reader.read(answer, message, 0.5)
        checks.close(answer)
    return log


def test_the_like_of_a_right_message_is_known_whatever_its_values_and_number() -> None:
    known = LayoutCache({"B"})
    first = response(17, ("A", b"1234"), ("B", b"xyz"))
    known.learn(first.SerializeToString(), first, True)
    again = response(93, ("A", b"\x32\x04zz"), ("B", b"\x00\xff\x32"))
    layout = known.of(again.SerializeToString())
    assert layout is not None and layout.last
    assert layout.values(again.SerializeToString()) == {"B": b"\x00\xff\x32"}


@pytest.mark.parametrize(
    "other",
    [
        response(17, ("A", b"1234"), ("B", b"xy")),
        response(17, ("A", b"123"), ("B", b"wxyz")),
        response(17, ("A", b"1234"), ("C", b"xyz")),
        response(17, ("A", b"1234"), ("B", b"xyz"), final=False),
        response(1, ("AA", b"1234"), ("B", b"xyz")),
    ],
)
def test_what_has_other_tensors_or_other_sizes_is_not_known(other: messages.ModelInferResponse) -> None:
    known = LayoutCache(())
    first = response(17, ("A", b"1234"), ("B", b"xyz"))
    known.learn(first.SerializeToString(), first, True)
    assert known.of(other.SerializeToString()) is None


def test_an_answer_without_an_id_is_known_again_as_well() -> None:
    known = LayoutCache(())
    first, again = response(-1, ("A", b"1234"), ("B", b"")), response(-1, ("A", b"4321"), ("B", b""))
    known.learn(first.SerializeToString(), first, True)
    assert known.of(again.SerializeToString()) is not None


def test_a_message_in_another_order_is_not_learned() -> None:
    whole = response(17, ("A", b"1234"))
    outputs = messages.ModelInferResponse(model_name="m", model_version="1", id="17", outputs=whole.outputs).SerializeToString()
    raw = messages.ModelInferResponse(raw_output_contents=[b"1234"]).SerializeToString()
    known = LayoutCache(())
    known.learn(raw + outputs, messages.ModelInferResponse.FromString(raw + outputs), True)
    assert known.of(raw + outputs) is None


def test_an_empty_output_is_noticed_after_right_ones() -> None:
    right = [response(i, ("OUT", bytes(64))).SerializeToString() for i in range(3)]
    log = read(UNARY, 5, 1, *([each] for each in right), [response(3, ("OUT", b"")).SerializeToString()], [right[0]])
    assert log.errors() == {"wrong_output": 1} and log.finished == 4
    assert list(log.details) == [3] and log.details[3].startswith("token 0: ") and "OUT" in log.details[3]


def test_a_wrong_answer_teaches_nothing() -> None:
    wrong = [response(i, ("OUT", bytes(60))).SerializeToString() for i in range(3)]
    assert read(UNARY, 3, 1, *([each] for each in wrong)).errors() == {"wrong_output": 3}


def test_streams_are_checked_token_by_token_also_when_their_messages_are_known() -> None:
    def whole(number: int) -> list[bytes]:
        return [token(number, 0), token(number, 1, b""), token(number, 2, "é".encode(), last=True)]

    log = read(
        STREAM,
        4,
        3,
        whole(0),
        whole(1),
        [token(2, 0), token(2, 2), token(2, 2, last=True)],
        [*whole(3)[:2], token(3, 2, b"bb", last=True, told=8)],
    )
    assert log.finished == 2 and log.received.tolist() == [3, 3, 3, 3]
    assert log.server_s[1].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert log.details[2].startswith("token 1 ") and "index 2" in log.details[2]
    assert "8 tokens" in log.details[3] and "7" in log.details[3]


def test_a_stream_that_ends_without_its_last_response_is_noticed_also_when_its_messages_are_known() -> None:
    whole = [token(0, 0), token(0, 1, last=True)]
    log = read(STREAM, 3, 2, whole, whole, [whole[0], token(2, 1)])
    assert log.errors() == {"server_error": 1}
    assert list(log.details) == [2]
