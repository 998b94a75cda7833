"""Recognise a message that is built like one that was found right, byte for byte, so that it is not parsed again.

Parsing a message costs several times what all else costs that is done for an answer. Within one load, answers differ in little but the
request's number and the tensors' values, so that two comparisons of bytes show that one has the same tensors, each of the same size.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tritonclient.grpc import service_pb2 as messages

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
