"""Tokens that a hosted model counted and bills, by phase and length of the prompt."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from plumbline.metrics import Phase

STEPS = (1000, 1024)
"""Lengths of prompts are distinguished at multiples of these numbers, which vendors' price lists call 1k."""
_Tokens = Annotated[int, Field(ge=0, le=2**63 - 1)]


class TokenUsage(BaseModel):
    """One phase's requests whose prompts are longer than `above` tokens and reach at most the next multiple of 1,000 or 1,024."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    phase: Phase = Field(description="cold_start: the first inference, preparations and the evaluation")
    above: int = Field(ge=0)
    requests: int = Field(ge=0, description="requests with a count by the server; answers that failed later included")
    input_tokens: _Tokens = Field(description="of their prompts, cached ones included")
    cached_tokens: _Tokens | None = Field(None, description="of the prompts' tokens those read from the server's cache; null: not reported")
    output_tokens: _Tokens
    uncounted: int = Field(0, ge=0, description="further answered requests of which the server counted no tokens")


def bucket(prompt_tokens: int) -> int:
    """`above` of a prompt of so many tokens."""
    return max((prompt_tokens - 1) // step * step for step in STEPS) if prompt_tokens > 0 else 0
