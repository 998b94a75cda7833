"""Wires and requests of the models that this house serves over KServe v2."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plumbline.declarations.workloads.models import PATCH_BYTES
from plumbline.loadclient.request_log import PIPELINE, STAGES
from plumbline.loadclient.wire import CACHED_TOKENS, COUNT, DOCUMENTS, INPUT_TOKENS, PERHAPS, SERVER_TIMES, TOKENS, Tensor, Wire

if TYPE_CHECKING:
    from plumbline.loadclient.prompt import Prompt

Task = Literal["embedding", "reranking", "vision"]
LOG_PROBABILITIES, GREEDY = "LOG_PROBABILITIES", "GREEDY"
_TIMES_BYTES = 8 * len(STAGES)


def causal_lm(model: str, text: bool) -> Wire:
    """A language model that streams its tokens: of token ids, or of text, whose token count it reports."""
    if text:
        return Wire("stream", model, {"TOKEN": 4, "INDEX": 4, "TEXT": PERHAPS}, {SERVER_TIMES: _TIMES_BYTES, INPUT_TOKENS: 4})
    return Wire("stream", model, {"TOKEN": 4, "INDEX": 4}, {SERVER_TIMES: _TIMES_BYTES})


def generation(model: str, text: bool) -> Wire:
    """An inference engine that streams its tokens in pieces, each with their ids and number; the last one says what the engine read."""
    pieces = {TOKENS: PERHAPS, COUNT: 4} | ({"TEXT": PERHAPS} if text else {})
    return Wire("stream", model, pieces, {SERVER_TIMES: _TIMES_BYTES, INPUT_TOKENS: 4, CACHED_TOKENS: 4}, index=None, tokens=COUNT)


def pipeline(model: str, text: bool, top: int) -> Wire:
    """A language model behind a retrieval, asked and answering like one; it says besides which `top` documents it put before the query."""
    alone = causal_lm(model, text)
    return replace(alone, last={**alone.last, SERVER_TIMES: 8 * len(PIPELINE), DOCUMENTS: 4 * top}, stages=PIPELINE)


def encoder(model: str, task: Task, width: int, *, timed: bool = True) -> Wire:
    """A model that answers once, with a vector of `width` floats or with a score. `timed`: it reports its own times, as our Python
    backend does and an ONNX runtime cannot."""
    return Wire(
        "unary",
        model,
        {"SCORE": 4} if task == "reranking" else {"VECTOR": 4 * width},
        {SERVER_TIMES: _TIMES_BYTES} if timed else {},
        index=None,
    )


def lm_inputs(prompt: Prompt, output_tokens: int) -> list[Tensor]:
    """Inputs of a request for exactly `output_tokens` tokens after the prompt."""
    prompt_input = _text("PROMPT", prompt.text) if prompt.text is not None else _int32("PROMPT_IDS", prompt.ids)
    return [prompt_input, _int32("MAX_TOKENS", [output_tokens])]


def generation_inputs(prompt: Prompt, output_tokens: int, *, natural: bool = False, adapter: str = "") -> list[Tensor]:
    """Inputs of a request for exactly `output_tokens` tokens, or at most as many if `natural`; `adapter`: of the LoRA adapters the one to use."""
    tensors = lm_inputs(prompt, output_tokens)
    if natural:
        tensors.append(_int32("NATURAL", [1]))
    if adapter:
        tensors.append(_text("ADAPTER", adapter))
    return tensors


def encoder_inputs(prompt: Prompt, task: Task) -> list[Tensor]:
    """The tensors of a request for the vector or the score of the prompt; a vision model gets the prompt as an image."""
    if task == "vision":
        return [pixels("PIXELS", prompt)]
    # One text of a batch that Triton makes of those that wait.
    return [_text("TEXT_IN", prompt.text, 1) if prompt.text is not None else _int32("IDS", prompt.ids[None])]


def pixels(name: str, prompt: Prompt) -> Tensor:
    """The prompt as one image, uint8 [1, patches, bytes of a patch]."""
    return Tensor(name, "UINT8", image_patches(prompt.ids)[None])


def _int32(name: str, values: ArrayLike) -> Tensor:
    return Tensor(name, "INT32", np.asarray(values, np.int32))


def _text(name: str, text: str, *batch: int) -> Tensor:
    # Bytes, not KServe's BYTES: under numpy 2, Triton's Python backend dies of strings that come in and sends empty ones out.
    return Tensor(name, "UINT8", np.frombuffer(text.encode(), np.uint8).reshape(*batch, -1))


# Images as a vision model gets them: cut into patches of 16 by 16 pixels, three bytes each. What a patch shows follows from its token id, so
# that prompts, their lengths and their uniqueness are those of every other model. What a model computes does not depend on what it sees.


_MIXED = np.arange(PATCH_BYTES, dtype=np.uint64) * np.uint64(0xBF58476D1CE4E5B9)


def image_patches(ids: NDArray[np.int32]) -> NDArray[np.uint8]:
    """The patches [tokens] of an image as bytes of its pixels, [tokens, PATCH_BYTES]: evenly distributed, and the same on every machine."""
    mixed = ids.astype(np.uint64)[:, None] * np.uint64(0x9E3779B97F4A7C15) + _MIXED
    mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
    pixels: NDArray[np.uint8] = (mixed >> np.uint64(56)).astype(np.uint8)
    return pixels
