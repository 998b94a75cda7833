"""An inference workload: model, server, requests, load phases, service-level objective."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, model_validator

from plumbline.declarations.base import Declared
from plumbline.declarations.phases import PHASES, LoadPhase
from plumbline.declarations.training import TransformerShape
from plumbline.declarations.units import Duration, Rate
from plumbline.declarations.workload import Seed, Workload

DAY_S = 86400.0


class Server(Declared):
    """The inference server that the harness owns. `python`: Triton's Python backend with a causal LM that streams its tokens."""

    backend: Literal["python"]
    prefix_cache: Literal["off"] = "off"
    client_placement: Literal["same_node"] = "same_node"


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


class Tokens(Declared):
    """A distribution of lengths in tokens: exactly one of `constant`, `normal`, `uniform`."""

    constant: int | None = Field(None, ge=1)
    normal: NormalTokens | None = None
    uniform: UniformTokens | None = None

    @model_validator(mode="after")
    def _one(self) -> Tokens:
        if sum(part is not None for part in (self.constant, self.normal, self.uniform)) != 1:
            raise ValueError("expected exactly one of constant, normal, uniform, such as {constant: 64}")
        return self

    @property
    def longest(self) -> int:
        """The largest length that can be drawn."""
        if self.constant is not None:
            return self.constant
        bounded = self.normal or self.uniform
        assert bounded is not None
        return bounded.max


class Requests(Declared):
    """What is asked. Prompts are unique, drawn from `seed`; the output length is forced, so that latencies compare."""

    input_tokens: Tokens
    output_tokens: Tokens
    unique: Literal[True] = True
    seed: Seed


class ByRate(Declared):
    rate: Rate


class Arrivals(Declared):
    """When requests arrive, whatever the server does (open loop): exactly one of `constant`, `poisson`."""

    constant: ByRate | None = None
    poisson: ByRate | None = None

    @model_validator(mode="after")
    def _one(self) -> Arrivals:
        if (self.constant is None) == (self.poisson is None):
            raise ValueError("expected exactly one of constant, poisson, such as {poisson: {rate: 8/s}}")
        return self

    @property
    def rate(self) -> float:
        """Mean arrivals a second."""
        process = self.constant or self.poisson
        assert process is not None
        return float(process.rate)


class LoadPhaseSpec(Declared):
    """A stretch of load, named by the phase its measurements belong to."""

    name: LoadPhase
    arrivals: Arrivals
    duration: Duration

    @model_validator(mode="after")
    def _sane(self) -> LoadPhaseSpec:
        if self.duration > DAY_S:
            raise ValueError(f"duration {self.duration:g}s is over a day; expected a duration such as 10min")
        expected = self.arrivals.rate * self.duration
        if expected < 1:
            raise ValueError(
                f"{self.arrivals.rate:g}/s for {self.duration:g}s asks for no request at all; expected a longer phase or a higher rate"
            )
        return self


class Slo(Declared):
    """Limits that every good request meets; goodput counts the requests that met all of them."""

    time_to_first_token: Duration | None = None
    inter_token_latency: Duration | None = Field(None, description="limit on the request's mean inter-token latency")
    request_scheduled_latency: Duration | None = None

    @model_validator(mode="after")
    def _some(self) -> Slo:
        if self.time_to_first_token is None and self.inter_token_latency is None and self.request_scheduled_latency is None:
            raise ValueError("an empty slo limits nothing; expected at least one limit such as time_to_first_token: 2s")
        return self


class InferenceWorkload(Workload):
    """One YAML file under `include/config/workloads/inference/`."""

    kind: Literal["inference"]
    model: TransformerShape
    server: Server
    requests: Requests
    phases: Annotated[tuple[LoadPhaseSpec, ...], Field(min_length=1)]
    request_timeout: Duration = 30.0
    slo: Slo

    @model_validator(mode="after")
    def _consistent(self) -> InferenceWorkload:
        order = [PHASES.index(phase.name) for phase in self.phases]
        for i, (before, after) in enumerate(pairwise(order), start=1):
            if after <= before:
                raise ValueError(
                    f'phases[{i}] "{self.phases[i].name}" comes after "{self.phases[i - 1].name}"; expected each phase at most once, '
                    f"in the order {' → '.join(p for p in PHASES if p in ('warmup', 'steady', 'stress', 'burst'))}"
                )
        if "steady" not in (phase.name for phase in self.phases):
            raise ValueError("no steady phase; expected one, such as {name: steady, arrivals: {poisson: {rate: 8/s}}, duration: 60s}")
        longest = self.requests.input_tokens.longest + self.requests.output_tokens.longest
        if longest > self.model.context:
            raise ValueError(
                f"requests can be {longest} tokens long (input + output), over model.context {self.model.context}; expected at most the context"
            )
        measured = {phase.name for phase in self.phases} | {"cold_start"}
        for criterion in self.acceptance:
            if criterion.phase not in measured:
                raise ValueError(f'"{criterion.text}" names a phase that is not declared; expected one of {", ".join(sorted(measured))}')
        return self
