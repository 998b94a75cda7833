"""One request on a gRPC connection: its answer so far, also the part of a message that has not come whole."""

from __future__ import annotations

from collections.abc import Iterator

from plumbline.harness.inference.client.answers import Answer


class Call(Answer):
    """`partial`: the beginning of a message that has not come whole; `given_up`: nobody waits for it."""

    __slots__ = ("given_up", "partial", "stream")

    def __init__(self, number: int, stream: int) -> None:
        # Not by way of super(): one is made for each request.
        self.number, self.stream = number, stream
        self.responses = self.tokens = 0
        self.final = self.given_up = False
        self.partial: bytearray | None = None

    def messages(self, payload: bytes) -> Iterator[bytes | None]:
        """The messages that are whole with this payload, without gRPC's five bytes before each; None for a compressed one."""
        held = self.partial if self.partial is not None else bytearray()
        held += payload
        begin = 0
        while len(held) - begin >= 5 and len(held) - begin - 5 >= (size := int.from_bytes(held[begin + 1 : begin + 5], "big")):
            yield None if held[begin] else bytes(held[begin + 5 : begin + 5 + size])
            begin += 5 + size
        del held[:begin]
        self.partial = held or None
