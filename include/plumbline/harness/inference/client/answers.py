"""Whether what a model answered is what it must answer, byte for byte of size and token for token of order."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2 as messages

from plumbline.harness.inference.arrivals import PhaseLoad
from plumbline.harness.inference.client.layouts import Layouts
from plumbline.harness.inference.client.notes import view
from plumbline.harness.inference.client.transport import Sink
from plumbline.harness.inference.wire import ANY, INPUT_TOKENS, PERHAPS, SERVER_TIMES, Wire

_FINAL = "triton_final_response"
_INT32 = struct.Struct("<i").unpack


class Answer:
    """One request's responses so far: how many, with how many tokens, and whether the last one has come."""

    __slots__ = ("final", "number", "responses", "tokens")

    def __init__(self, number: int) -> None:
        self.number, self.responses, self.tokens, self.final = number, 0, 0, False


class Answers:
    """Checks responses against the wire's and the load's words, and reports them."""

    def __init__(self, wire: Wire, load: PhaseLoad, sink: Sink) -> None:
        self._sink, self._index, self._brings = sink, wire.index, wire.tokens
        self._always = tuple(wire.responses.items())
        self._at_last = (*self._always, *wire.last.items())
        self._times, self._counted = SERVER_TIMES in wire.last, INPUT_TOKENS in wire.last
        self._seconds = struct.Struct(f"<{len(wire.stages)}d").unpack
        self._input_tokens, self._output_tokens = view(load.input_tokens), view(load.output_tokens)

    @property
    def read(self) -> frozenset[str]:
        """The tensors whose values are looked at, and not only their sizes."""
        return frozenset((self._index or "", self._brings or "", SERVER_TIMES, INPUT_TOKENS))

    def take(self, answer: Answer, arrays: Mapping[str, bytes], last: bool, at: float, *, sized: bool = False) -> bool:
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
            found = len(arrays.get(name, b""))
            # A server can send tensors of the right shape and no bytes.
            missing = name not in arrays if size == PERHAPS else found != size and (size != ANY or not found)
            if missing:
                expected = {ANY: "at least 1", PERHAPS: "the tensor"}.get(size, size)
                self._sink.fail(number, "wrong_output", f"token {position}: {found} bytes of {name}; expected {expected}")
                return False
        if self._index is not None and (index := _INT32(arrays[self._index])[0]) != position:
            self._sink.fail(number, "wrong_output", f"token {position} has index {index}; a token was lost, doubled or overtaken")
            return False
        return self._account(number, arrays) if last else True

    def close(self, answer: Answer) -> None:
        """The server says that this was all, and that all is well."""
        expected = self._output_tokens[answer.number]
        if not answer.final:
            self._sink.fail(answer.number, "server_error", "the stream ended without a final response")
        elif answer.tokens != expected:
            self._sink.fail(answer.number, "wrong_output", f"{answer.tokens} tokens; expected {expected}")

    def _several(self, answer: Answer, told: bytes, at: float) -> None:
        """A response that says how many tokens it brings: all of them have come at once."""
        brought = int.from_bytes(told, "little")
        answer.tokens += brought
        # A broken count must not become a loop without end.
        for _ in range(min(brought, self._output_tokens[answer.number] + 1)):
            self._sink.token(answer.number, at)

    def _account(self, number: int, arrays: Mapping[str, bytes]) -> bool:
        if self._times:
            self._sink.server_times(number, self._seconds(arrays[SERVER_TIMES]))
        if self._counted:
            made, declared = _INT32(arrays[INPUT_TOKENS])[0], self._input_tokens[number]
            if made != declared:
                self._sink.fail(
                    number, "wrong_output", f"tokenizer mismatch: the server made {made} tokens of the prompt; {declared} were declared"
                )
                return False
        return True


class Messages:
    """Reads KServe's messages out of gRPC's."""

    def __init__(self, wire: Wire, answers: Answers, sink: Sink) -> None:
        self._answers, self._sink = answers, sink
        self._layouts = Layouts(answers.read)
        self.read = self._streamed if wire.method == "stream" else self._unary

    def _unary(self, answer: Answer, message: bytes, at: float) -> None:
        if self._known(answer, message, at):
            return
        try:
            response = messages.ModelInferResponse.FromString(message)
        except DecodeError as error:
            self._sink.fail(answer.number, "wrong_output", f"not a ModelInferResponse: {error}")
            return
        self._take(answer, message, response, True, at)

    def _streamed(self, answer: Answer, message: bytes, at: float) -> None:
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
            self._take(answer, message, response, last, at)
            return
        # Some backends mark the end by a response of its own, with no outputs: that is no token.
        answer.final = answer.final or last

    def _known(self, answer: Answer, message: bytes, at: float) -> bool:
        layout = self._layouts.of(message)
        if layout is None:
            return False
        self._answers.take(answer, layout.values(message), layout.last, at, sized=True)
        return True

    def _take(self, answer: Answer, message: bytes, response: messages.ModelInferResponse, last: bool, at: float) -> None:
        if self._answers.take(answer, _arrays(response), last, at):
            self._layouts.learn(message, response, last)


def _arrays(response: messages.ModelInferResponse) -> dict[str, bytes]:
    return dict(zip([output.name for output in response.outputs], response.raw_output_contents, strict=False))
