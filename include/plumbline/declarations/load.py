"""The load of an inference workload: its phases, and in each of them arrivals, a search, a growing context or a fault."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, model_validator

from plumbline.declarations.arrivals import TRACE_ROWS, Arrivals, Closed, Trace, TraceLayout
from plumbline.declarations.base import Declared
from plumbline.declarations.phases import LoadPhase
from plumbline.declarations.requests import Portion, Requests, SharedPrefix, Tokens, Turns
from plumbline.declarations.units import Duration, Percent, Rate

DAY_S = 86400.0
PHASE_REQUESTS = 10_000_000
PROBE_REQUESTS = 10


class _Stretch(Declared):
    arrivals: Arrivals
    duration: Duration

    @model_validator(mode="after")
    def _sane(self) -> _Stretch:
        if self.duration > DAY_S:
            raise ValueError(f"duration {self.duration:g}s is over a day; expected a duration such as 10min")
        if (expected := self.arrivals.expected(self.duration)) < 1:
            raise ValueError(
                f"the arrivals ask for {expected:.2g} requests in {self.duration:g}s; expected a longer phase or a higher rate"
            )
        if expected > PHASE_REQUESTS:
            raise ValueError(
                f"the arrivals ask for {expected:.2g} requests in {self.duration:g}s; expected at most {PHASE_REQUESTS:,} in a phase"
            )
        return self


class LoadPhaseSpec(_Stretch):
    """A stretch of load, named by the phase its measurements belong to."""

    name: Literal["warmup", "steady", "stress", "burst"]


class Search(Declared):
    """The highest rate of Poisson arrivals at which at least `goodput` of the requests meet the SLO, somewhere in `between`.

    Each probe lasts `probe`; the search ends when the rate is known within `tolerance`, or after `at_most` probes. A probe that the server
    is hopelessly behind in is ended early.
    """

    goodput: Percent = Field(gt=0, le=1)
    between: tuple[Rate, Rate]
    probe: Duration = Field(gt=0)
    tolerance: Percent = Field(0.05, gt=0, le=0.5)
    at_most: int = Field(12, ge=3, le=50)

    @model_validator(mode="after")
    def _ordered(self) -> Search:
        low, high = self.between
        if not 0 < low < high:
            raise ValueError(f"between {low:g}/s and {high:g}/s is no range; expected two rates, the lower first, such as [1/s, 64/s]")
        if low * self.probe < PROBE_REQUESTS:
            raise ValueError(
                f"probe {self.probe:g}s holds {low * self.probe:.2g} requests at the lowest rate, {low:g}/s: no share can be read from so few; "
                f"expected at least {PROBE_REQUESTS}"
            )
        return self


class SearchPhaseSpec(Declared):
    """A search for the server's capacity under its SLO."""

    name: Literal["sweep"]
    search: Search


class ContextPhaseSpec(Declared):
    """What a long context costs: prompts of one length after the other, the server idle in between.

    For each of `input_tokens`, from the shortest to the longest, `users` ask again and again until `requests` are answered, for `each` at most.
    """

    name: Literal["context"]
    input_tokens: Annotated[tuple[int, ...], Field(min_length=2, max_length=16)]
    requests: int = Field(ge=2, le=10_000)
    users: int = Field(1, ge=1)
    each: Duration = Field(gt=0, le=DAY_S)

    @model_validator(mode="after")
    def _growing(self) -> ContextPhaseSpec:
        if self.input_tokens[0] < 1 or any(after <= before for before, after in pairwise(self.input_tokens)):
            raise ValueError(f"input_tokens {list(self.input_tokens)} do not grow; expected rising lengths, such as [128, 512, 2048]")
        if self.users > self.requests:
            raise ValueError(f"{self.users} users for {self.requests} requests of a length; expected at least one request a user")
        return self


class FaultPhaseSpec(_Stretch):
    """Load with a fault in it. `at` from the start of the phase; what comes after the service is back is the phase `recovery`.

    server_kill   SIGKILL of the server, which is started again
    model_reload  the model is unloaded and loaded again
    overload      `factor` times the arrivals' rate for `lasts`
    slow_client   `factor` (a share) of the streams are read slowly for `lasts`
    """

    name: Literal["fault"]
    inject: Literal["server_kill", "model_reload", "overload", "slow_client"]
    at: Duration
    lasts: Duration | None = None
    factor: float | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _within(self) -> FaultPhaseSpec:
        lasting = self.inject in ("overload", "slow_client")
        if lasting != (self.lasts is not None) or lasting != (self.factor is not None):
            raise ValueError(
                f"{self.inject} {'needs' if lasting else 'takes no'} lasts and factor, such as "
                + ("{inject: overload, at: 5s, lasts: 5s, factor: 4}" if lasting else "{inject: server_kill, at: 5s}")
            )
        if self.inject == "overload" and self.factor is not None and self.factor <= 1:
            raise ValueError(f"factor {self.factor:g} is no overload; expected above 1, such as 4: four times the arrivals")
        if self.inject == "slow_client" and self.factor is not None and self.factor > 1:
            raise ValueError(f"factor {self.factor:g} is no share of the streams; expected at most 1, such as 0.25")
        if self.at + (self.lasts or 0.0) >= self.duration:
            raise ValueError(
                f"the fault ends {self.at + (self.lasts or 0.0):g}s into a phase of {self.duration:g}s; expected time left for the recovery"
            )
        if self.arrivals.closed:
            raise ValueError("a closed loop hides a fault: its clients wait; expected an open loop such as {poisson: {rate: 8/s}}")
        return self


PhaseSpec = Annotated[LoadPhaseSpec | ContextPhaseSpec | SearchPhaseSpec | FaultPhaseSpec, Field(discriminator="name")]


def longest(phase: PhaseSpec) -> float:
    """Seconds that a phase can take at most, without draining."""
    if isinstance(phase, SearchPhaseSpec):
        return float(phase.search.at_most * phase.search.probe)
    if isinstance(phase, ContextPhaseSpec):
        return float(len(phase.input_tokens) * phase.each)
    return float(phase.duration)


__all__ = [
    "TRACE_ROWS",
    "Arrivals",
    "Closed",
    "ContextPhaseSpec",
    "FaultPhaseSpec",
    "LoadPhase",
    "LoadPhaseSpec",
    "PhaseSpec",
    "Portion",
    "Requests",
    "Search",
    "SearchPhaseSpec",
    "SharedPrefix",
    "Tokens",
    "Trace",
    "TraceLayout",
    "Turns",
    "longest",
]
