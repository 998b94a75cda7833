"""What is asked of a model: how long requests are, and what they have in common."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from plumbline.declarations.base import Declared
from plumbline.declarations.units import Pause, Percent
from plumbline.declarations.workload import Seed


class NormalTokens(Declared):
    """Lengths drawn from a normal distribution, rounded and clipped to min…max."""

    mean: float = Field(gt=0)
    stddev: float = Field(ge=0)
    min: int = Field(ge=1)
    max: int = Field(ge=1)

    @model_validator(mode="after")
    def _ordered(self) -> NormalTokens:
        if not self.min <= self.mean <= self.max:
            raise ValueError(f"mean {self.mean} is outside min {self.min} … max {self.max}; expected min <= mean <= max")
        return self


class UniformTokens(Declared):
    """Lengths drawn evenly from min…max, both included."""

    min: int = Field(ge=1)
    max: int = Field(ge=1)

    @model_validator(mode="after")
    def _ordered(self) -> UniformTokens:
        if self.max < self.min:
            raise ValueError(f"max {self.max} is below min {self.min}; expected min <= max")
        return self


class _Lengths(Declared):
    constant: int | None = Field(None, ge=1)
    normal: NormalTokens | None = None
    uniform: UniformTokens | None = None

    @property
    def longest(self) -> int:
        """The largest length that can be drawn."""
        if self.constant is not None:
            return self.constant
        bounded = self.normal or self.uniform
        assert bounded is not None
        return bounded.max

    @property
    def shortest(self) -> int:
        """The smallest length that can be drawn."""
        if self.constant is not None:
            return self.constant
        bounded = self.normal or self.uniform
        assert bounded is not None
        return bounded.min


class Portion(_Lengths):
    """A share of the requests and its lengths: exactly one of `constant`, `normal`, `uniform`."""

    share: Percent = Field(gt=0, le=1)

    @model_validator(mode="after")
    def _one(self) -> Portion:
        if sum(part is not None for part in (self.constant, self.normal, self.uniform)) != 1:
            raise ValueError("expected a share and exactly one of constant, normal, uniform, such as {share: 20%, constant: 512}")
        return self


class Tokens(_Lengths):
    """A distribution of lengths in tokens: exactly one of `constant`, `normal`, `uniform`, `mixed`."""

    mixed: tuple[Portion, ...] | None = Field(None, min_length=2, max_length=16)

    @model_validator(mode="after")
    def _one(self) -> Tokens:
        if sum(part is not None for part in (self.constant, self.normal, self.uniform, self.mixed)) != 1:
            raise ValueError("expected exactly one of constant, normal, uniform, mixed, such as {constant: 64}")
        if self.mixed and abs(sum(portion.share for portion in self.mixed) - 1) > 1e-9:
            raise ValueError(f"the shares of mixed add up to {sum(p.share for p in self.mixed):.4g}; expected 100%")
        return self

    @property
    def longest(self) -> int:
        """The largest length that can be drawn."""
        return max(portion.longest for portion in self.mixed) if self.mixed else super().longest

    @property
    def shortest(self) -> int:
        """The smallest length that can be drawn."""
        return min(portion.shortest for portion in self.mixed) if self.mixed else super().shortest


class SharedPrefix(Declared):
    """Every prompt begins with one of `groups` prefixes of `tokens` tokens, evenly and in random order; what follows is unique."""

    tokens: int = Field(ge=1)
    groups: int = Field(1, ge=1)


class Turns(Declared):
    """Conversations: each arrival is the first of `count` turns. A turn's prompt repeats what was said before, and is due `think` after
    the answer before it."""

    count: int = Field(ge=2, le=100)
    think: Pause = 0.0


class Requests(Declared):
    """What is asked. Prompts are unique, drawn from `seed`; the output length is forced, so that latencies compare.

    `text`: prompts are sent as text and tokenised by the server, which is then measured too; else they are sent as token ids.
    """

    input_tokens: Tokens
    output_tokens: Tokens
    text: bool = False
    shared_prefix: SharedPrefix | None = None
    turns: Turns | None = None
    unique: Literal[True] = True
    seed: Seed
