"""Rates of a hosted model for tokens and requests."""

from __future__ import annotations

from itertools import pairwise

from pydantic import Field, model_validator

from plumbline.declarations.base import Declared
from plumbline.declarations.providers.dated import Dated
from plumbline.metrics.units import RequestPrice, TokenPrice

_STEPS = (1000, 1024)
_EXAMPLE = "{input: 2.00 USD/1M tokens, output: 8.00 USD/1M tokens}"


class TokenTier(Declared):
    """Prices of all tokens of a request whose prompt is longer than `above` tokens."""

    above: int = Field(ge=1000, description="tokens of the prompt, a multiple of 1,000 or 1,024, such as 200000")
    input: TokenPrice
    cached_input: TokenPrice | None = Field(None, description="tokens of the prompt that the vendor's cache had; as input if omitted")
    output: TokenPrice

    @model_validator(mode="after")
    def _check_step(self) -> TokenTier:
        if all(self.above % step for step in _STEPS):
            raise ValueError(f"above is {self.above}; expected a multiple of 1,000 or 1,024, at which results tell lengths apart")
        return self


class TokenRate(Dated):
    """A hosted model's rate for tokens, requests, or both."""

    input: TokenPrice | None = None
    cached_input: TokenPrice | None = Field(None, description="tokens of the prompt that the vendor's cache had; as input if omitted")
    output: TokenPrice | None = None
    request: RequestPrice | None = Field(None, description="each answered request, beside its tokens")
    tiers: tuple[TokenTier, ...] = Field((), max_length=20, description="other prices for longer prompts, the shortest first")
    source: str = Field(min_length=3, description="of the figures, such as 'price page, 2026-11-02'")

    @model_validator(mode="after")
    def _consistent(self) -> TokenRate:
        if (self.input is None) != (self.output is None):
            raise ValueError(f"{'output' if self.input is None else 'input'} without the other one; expected both, such as {_EXAMPLE}")
        if self.input is None and self.request is None:
            raise ValueError(f"bills neither tokens nor requests; expected such as {_EXAMPLE}, or request: 0.50 USD/1k requests")
        if self.input is None and (self.cached_input is not None or self.tiers):
            raise ValueError(f"cached_input or tiers without prices of tokens; expected such as {_EXAMPLE}")
        if any(later.above <= earlier.above for earlier, later in pairwise(self.tiers)):
            raise ValueError(f"tiers above {', '.join(str(tier.above) for tier in self.tiers)}; expected rising lengths")
        return self

    def tier(self, above: int) -> TokenTier | None:
        """The tier of prompts that are longer than `above` tokens and in one step of lengths; None: the first prices."""
        return next((tier for tier in reversed(self.tiers) if above >= tier.above), None)
