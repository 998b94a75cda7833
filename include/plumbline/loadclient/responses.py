"""Check each KServe response: tensor sizes, token order, server times. Known byte layouts skip protobuf parsing."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence

from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2 as messages

from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import scalar_view
from plumbline.loadclient.transport import Outputs, Sink
from plumbline.loadclient.wire import ANY, PERHAPS, SERVER_TIMES, Wire

_ID, _RAW = b"\x1a", b"\x32"
"""Before an answer's id and before the bytes of each of its tensors: field number and type."""
_NONE: Mapping[str, bytes] = {}
_MAX_LAYOUTS, _MAX_LAYOUTS_PER_SIZE = 1024, 4
"""The most layouts in all, and for messages of one size."""


class MessageLayout:
    """One layout of a message.

    head           its bytes up to the request's number (its id); `digits_end`: where that ends
    rest           the bytes from there to the first tensor's values
    further        place and bytes before each further tensor's values
    places         name, begin and end of the tensors whose values matter
    last           whether it is a request's last message"""

    __slots__ = ("digits_end", "further", "head", "last", "places", "rest")

    def __init__(self, message: bytes, digits: tuple[int, int], raw: Sequence[tuple[int, int, int]]) -> None:
        self.head, self.digits_end = message[: digits[0]], digits[1]
        self.rest = message[digits[1] : raw[0][1]]
        self.further = tuple((tag, message[tag:begin]) for tag, begin, _ in raw[1:])
        self.places: tuple[tuple[str, int, int], ...] = ()
        self.last = False

    def values(self, message: bytes) -> Mapping[str, bytes]:
        return {name: message[begin:end] for name, begin, end in self.places} if self.places else _NONE


class LayoutCache:
    """Known layouts by message size. `read`: the tensors whose values matter."""

    def __init__(self, read: Collection[str]) -> None:
        self._read = read
        self._known: dict[int, list[MessageLayout]] = {}
        self._count = 0

    def of(self, message: bytes) -> MessageLayout | None:
        """The layout of this message; None if unknown."""
        known = self._known.get(len(message))
        if known is not None:
            for layout in known:
                if (
                    message.startswith(layout.head)
                    and message.startswith(layout.rest, layout.digits_end)
                    and (not layout.further or all(message.startswith(before, at) for at, before in layout.further))
                ):
                    return layout
        return None

    def learn(self, message: bytes, response: messages.ModelInferResponse, last: bool) -> None:
        """Learn a valid message's layout; an unusual one is not kept and always parsed whole."""
        alike = self._known.get(len(message), [])
        if self._count == _MAX_LAYOUTS or len(alike) == _MAX_LAYOUTS_PER_SIZE:
            return
        raw = _raw(message, response.raw_output_contents)
        if not raw or len(raw) != len(response.outputs):
            return
        digits = _digits(message, response, raw[0][0])
        if digits is None or digits[1] > raw[0][0]:
            return
        layout = MessageLayout(message, digits, raw)
        layout.last = last
        layout.places = tuple(
            (output.name, begin, end) for output, (_, begin, end) in zip(response.outputs, raw, strict=True) if output.name in self._read
        )
        self._known.setdefault(len(message), alike).append(layout)
        self._count += 1


def _digits(message: bytes, response: messages.ModelInferResponse, values: int) -> tuple[int, int] | None:
    """Place of the id if it follows the model's name and version; else where `values` begin."""
    if not response.id:
        return values, values
    named = messages.ModelInferResponse(model_name=response.model_name, model_version=response.model_version).SerializeToString()
    before = named + _ID + _varint(len(response.id.encode()))
    # In a stream's message there is something before the response itself.
    body = len(message) - response.ByteSize()
    if body < 0 or not message.startswith(before + response.id.encode(), body):
        return None
    return body + len(before), body + len(before) + len(response.id.encode())


def _raw(message: bytes, contents: Sequence[bytes]) -> list[tuple[int, int, int]] | None:
    """Of each tensor's values: where their tag, they themselves and what follows begin, if they end the message in their order."""
    fields, end = [], len(message)
    for values in reversed(contents):
        before = _RAW + _varint(len(values))
        begin = end - len(values)
        tag = begin - len(before)
        if tag < 0 or message[tag:end] != before + values:
            return None
        fields.append((tag, begin, end))
        end = tag
    return fields[::-1]


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_FINAL = "triton_final_response"
_INT32 = struct.Struct("<i").unpack


class ResponseProgress:
    """One request's responses so far: how many, with how many tokens, and whether the last one has come."""

    __slots__ = ("final", "number", "responses", "tokens")

    def __init__(self, number: int) -> None:
        self.number, self.responses, self.tokens, self.final = number, 0, 0, False


class ResponseChecker:
    """Checks responses against the wire and the load, and reports them."""

    def __init__(self, wire: Wire, load: PhaseLoad, sink: Sink) -> None:
        self._sink, self._index, self._brings, self._natural = sink, wire.index, wire.tokens, wire.natural
        self._always = tuple(wire.responses.items())
        self._at_last = (*self._always, *wire.last.items())
        self._times, self._counted = SERVER_TIMES in wire.last, wire.read if wire.read in wire.last else ""
        self._seconds = struct.Struct(f"<{len(wire.stages)}d").unpack
        self._input_tokens, self._output_tokens = scalar_view(load.input_tokens), scalar_view(load.output_tokens)

    @property
    def read(self) -> frozenset[str]:
        """Tensors whose values are read, not only their sizes."""
        return frozenset((self._index or "", self._brings or "", SERVER_TIMES, self._counted))

    def take(self, answer: ResponseProgress, arrays: Mapping[str, bytes], last: bool, at: float, *, sized: bool = False) -> bool:
        """One response: its output tensors' bytes by name, and whether it is the last one. Returns whether nothing is wrong with it.

        `sized`: all are known to be there in their right sizes, and `arrays` has only those that are in `read`.
        """
        number, position = answer.number, answer.responses
        answer.responses = position + 1
        if last:
            answer.final = True
        if self._brings is None:
            answer.tokens += 1
            self._sink.token(number, at)
        else:
            self._several(answer, arrays.get(self._brings, b""), at)
        for name, size in () if sized else self._at_last if last else self._always:
            length = len(arrays.get(name, b""))
            # A server can send tensors of the right shape and no bytes.
            missing = name not in arrays if size == PERHAPS else length != size and (size != ANY or not length)
            if missing:
                expected = {ANY: "at least 1", PERHAPS: "the tensor"}.get(size, size)
                self._sink.fail(number, "wrong_output", f"token {position}: {length} bytes of {name}; expected {expected}")
                return False
        if self._index is not None and (index := _INT32(arrays[self._index])[0]) != position:
            self._sink.fail(number, "wrong_output", f"token {position} has index {index}; a token was lost, doubled or overtaken")
            return False
        return self._account(number, arrays) if last else True

    def close(self, answer: ResponseProgress) -> None:
        expected = self._output_tokens[answer.number]
        if not answer.final:
            self._sink.fail(answer.number, "server_error", "the stream ended without a final response")
        elif answer.tokens != expected and not (self._natural and 0 < answer.tokens < expected):
            self._sink.fail(answer.number, "wrong_output", f"{answer.tokens} tokens; expected {expected}")

    def _several(self, answer: ResponseProgress, count: bytes, at: float) -> None:
        brought = int.from_bytes(count, "little")
        answer.tokens += brought
        # A broken count must not become a loop without end.
        for _ in range(min(brought, self._output_tokens[answer.number] + 1)):
            self._sink.token(answer.number, at)

    def _account(self, number: int, arrays: Mapping[str, bytes]) -> bool:
        if self._times:
            self._sink.server_times(number, self._seconds(arrays[SERVER_TIMES]))
        if self._counted:
            input_tokens, declared = _INT32(arrays[self._counted])[0], self._input_tokens[number]
            if input_tokens != declared:
                self._sink.fail(
                    number,
                    "wrong_output",
                    f"tokenizer mismatch: the server made {input_tokens} tokens of the prompt; {declared} were declared",
                )
                return False
        return True


class RecordingChecker(ResponseChecker):
    """Keeps the outputs besides."""

    def __init__(self, wire: Wire, load: PhaseLoad, sink: Sink, outputs: Outputs) -> None:
        super().__init__(wire, load, sink)
        self._outputs, self._names = outputs, frozenset((*wire.responses, *wire.last))

    @property
    def read(self) -> frozenset[str]:
        return super().read | self._names

    def take(self, answer: ResponseProgress, arrays: Mapping[str, bytes], last: bool, at: float, *, sized: bool = False) -> bool:
        kept = self._outputs.setdefault(answer.number, {})
        for name, data in arrays.items():
            kept.setdefault(name, []).append(data)
        return super().take(answer, arrays, last, at, sized=sized)


class MessageReader:
    def __init__(self, wire: Wire, answers: ResponseChecker, sink: Sink) -> None:
        self._answers, self._sink = answers, sink
        self._layouts = LayoutCache(answers.read)
        self.read = self._streamed if wire.method == "stream" else self._unary

    def _unary(self, answer: ResponseProgress, message: bytes, at: float) -> None:
        if self._known(answer, message, at):
            return
        try:
            response = messages.ModelInferResponse.FromString(message)
        except DecodeError as error:
            self._sink.fail(answer.number, "wrong_output", f"not a ModelInferResponse: {error}")
            return
        self._read_response(answer, message, response, True, at)

    def _streamed(self, answer: ResponseProgress, message: bytes, at: float) -> None:
        if self._known(answer, message, at):
            return
        try:
            streamed = messages.ModelStreamInferResponse.FromString(message)
        except DecodeError as error:
            self._sink.fail(answer.number, "wrong_output", f"not a ModelStreamInferResponse: {error}")
            return
        response = streamed.infer_response
        # Looked for first: a map of messages grows by what it is asked for.
        last = _FINAL in response.parameters and response.parameters[_FINAL].bool_param
        if streamed.error_message:
            self._sink.fail(answer.number, "server_error", streamed.error_message)
        elif response.outputs:
            self._read_response(answer, message, response, last, at)
            return
        # Some backends mark the end by a response of its own, with no outputs: that is no token.
        answer.final = answer.final or last

    def _known(self, answer: ResponseProgress, message: bytes, at: float) -> bool:
        layout = self._layouts.of(message)
        if layout is None:
            return False
        self._answers.take(answer, layout.values(message), layout.last, at, sized=True)
        return True

    def _read_response(
        self, answer: ResponseProgress, message: bytes, response: messages.ModelInferResponse, last: bool, at: float
    ) -> None:
        arrays = dict(zip([output.name for output in response.outputs], response.raw_output_contents, strict=False))
        if self._answers.take(answer, arrays, last, at):
            self._layouts.learn(message, response, last)
