"""How a model is asked over KServe v2: a request's tensors, and the tensors that each response must carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from numpy.typing import NDArray
from tritonclient.grpc import service_pb2 as messages

from plumbline.loadclient.request_log import STAGES

SERVER_TIMES, INPUT_TOKENS, DOCUMENTS = "SERVER_TIMES", "INPUT_TOKENS", "DOCUMENTS"
TOKENS, COUNT, CACHED_TOKENS = "TOKENS", "COUNT", "CACHED_TOKENS"

ANY = -1
"""A tensor's size: at least one byte."""
PERHAPS = -2
"""A tensor's size: any, also zero. A token that ends inside a character has no text yet."""


@dataclass(frozen=True)
class Tensor:
    """One input: `datatype` in KServe's words (INT32, FP32, BYTES, …); `values` of that type, of BYTES as objects."""

    name: str
    datatype: str
    values: NDArray[Any]

    @property
    def data(self) -> bytes:
        """The bytes to send: row-major and little-endian, each string after its length."""
        if self.datatype == "BYTES":
            return b"".join(len(item).to_bytes(4, "little") + item for item in self.values.ravel())
        return self.values.astype(self.values.dtype.newbyteorder("<"), copy=False).tobytes()


@dataclass(frozen=True)
class Wire:
    """How one model is asked and what it must answer.

    method     "stream": any number of responses over ModelStreamInfer, the last one marked as final; "unary": one over ModelInfer
    responses  bytes of each output tensor that every response must carry; ANY: at least one byte, PERHAPS: it may be empty
    last       what the last response must carry besides. Two have a meaning: SERVER_TIMES (seconds by `stages`) goes into the log, the one
               named by `read` must equal the declared number, or the server's tokenizer is not the one that the load was made for
    index      the tensor that counts a request's responses from 0; None if there is none
    tokens     the tensor (uint32 [1]) that says how many tokens a response brings, for servers that put several into one; None: one each
    stages     what SERVER_TIMES tells of
    natural    answers may end before the tokens that were asked for
    """

    method: Literal["stream", "unary"]
    model: str
    responses: Mapping[str, int]
    last: Mapping[str, int] = field(default_factory=dict)
    index: str | None = "INDEX"
    tokens: str | None = None
    read: str = INPUT_TOKENS
    stages: tuple[str, ...] = STAGES
    natural: bool = False

    def body(self, number: int, tensors: Sequence[Tensor]) -> bytes:
        request = messages.ModelInferRequest(model_name=self.model, id=str(number))
        for tensor in tensors:
            request.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.values.shape)
            request.raw_input_contents.append(tensor.data)
        return bytes(request.SerializeToString())
