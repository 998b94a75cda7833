"""Whether what is asked fits what is served: the lengths of requests, and the vocabulary of their text."""

from __future__ import annotations

from collections.abc import Sequence

from plumbline.declarations.load import ContextPhaseSpec, PhaseSpec, Requests, SearchPhaseSpec, Trace
from plumbline.declarations.models import Encoder, ServedModel

TOKENIZER_VOCABULARY = 2048
"""Tokens of the shipped tokenizer (harness/inference/tokenizer.json), which makes the text of `requests.text`."""


def check_sizes(requests: Requests, phases: Sequence[PhaseSpec], model: ServedModel, *, own_tokenizer: bool) -> None:
    """Raises ValueError for requests that the model cannot be asked; the message names the field, and the line of a trace.

    `own_tokenizer`: the server's tokenizer is the shipped one; an external server has its own.
    """
    _own_part(requests)
    if (longest := _longest(requests)) > model.context:
        raise ValueError(
            f"requests can be {longest} tokens long ({_parts(requests)}), over model.context {model.context}; expected at most the context"
        )
    if requests.text and own_tokenizer and model.vocabulary != TOKENIZER_VOCABULARY:
        raise ValueError(
            f"requests.text with model.vocabulary {model.vocabulary}: the shipped tokenizer makes ids of {TOKENIZER_VOCABULARY}; "
            f"expected vocabulary {TOKENIZER_VOCABULARY}, or text: false"
        )
    for i, phase in enumerate(phases):
        if isinstance(phase, ContextPhaseSpec):
            _growing(f"phases[{i}].input_tokens", phase, requests, model)
        elif not isinstance(phase, SearchPhaseSpec) and phase.arrivals.trace is not None:
            _trace(f"phases[{i}].arrivals.trace", phase.arrivals.trace, requests, model)


def _own_part(requests: Requests) -> None:
    prefix = requests.shared_prefix
    if prefix is not None and requests.input_tokens.shortest <= prefix.tokens:
        raise ValueError(
            f"requests.input_tokens can be {requests.input_tokens.shortest}, which holds no more than the shared_prefix of {prefix.tokens} tokens; "
            f"expected at least {prefix.tokens + 1}: input_tokens count the prefix, and a prompt has a part of its own"
        )


def _longest(requests: Requests) -> int:
    """Tokens, input and output, that a request's sequence can reach."""
    prefix = requests.shared_prefix.tokens if requests.shared_prefix else 0
    a_turn = requests.input_tokens.longest - prefix + requests.output_tokens.longest
    return prefix + a_turn * (requests.turns.count if requests.turns else 1)


def _parts(requests: Requests) -> str:
    return f"{requests.turns.count} turns of input + output" if requests.turns else "input + output"


def _growing(where: str, phase: ContextPhaseSpec, requests: Requests, model: ServedModel) -> None:
    longest, written = phase.input_tokens[-1], requests.output_tokens.longest
    if longest + written > model.context:
        raise ValueError(
            f"{where}: {longest} tokens in, up to {written} out, over model.context {model.context}; expected at most "
            f"{max(model.context - written, 0)}, or a larger context"
        )


def _trace(where: str, trace: Trace, requests: Requests, model: ServedModel) -> None:
    if requests.turns is not None:
        raise ValueError(f"{where} with requests.turns: a recorded request has its own length and no next turn; expected no turns")
    prefix = requests.shared_prefix.tokens if requests.shared_prefix else 0
    for i, (_, read, written) in enumerate(trace.rows or ()):
        if read + written > model.context:
            raise ValueError(
                f"{where} {trace.row(i)}: {read} tokens in, {written} out, over model.context {model.context}; expected at most the context: "
                "choose a larger context or leave the request out of the file"
            )
        if read <= prefix:
            raise ValueError(f"{where} {trace.row(i)}: {read} tokens in; expected above requests.shared_prefix.tokens {prefix}")
        if isinstance(model, Encoder) and written != 1:
            raise ValueError(f"{where} {trace.row(i)}: {written} tokens out; expected 1: an encoder answers once")
