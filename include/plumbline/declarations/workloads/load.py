"""The load of an inference workload: request lengths, arrivals, phases."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from plumbline.declarations.base import Declared, ExactlyOne
from plumbline.declarations.workloads.prompts import DEFAULT_PROMPT_TOKENS, PromptSet
from plumbline.declarations.workloads.workload import Seed
from plumbline.metrics.units import Duration, Pause, Percent, Rate


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


class _LengthDistribution(Declared):
    constant: int | None = Field(None, ge=1)
    normal: NormalTokens | None = None
    uniform: UniformTokens | None = None

    @property
    def _range(self) -> tuple[int, int]:
        """The smallest and the largest length that can be drawn."""
        bounded = self.normal or self.uniform
        return (bounded.min, bounded.max) if bounded is not None else (self.constant or 0, self.constant or 0)

    @property
    def shortest(self) -> int:
        return self._range[0]

    @property
    def longest(self) -> int:
        return self._range[1]


class LengthShare(_LengthDistribution):
    """A share of the requests and its lengths: exactly one of `constant`, `normal`, `uniform`."""

    share: Percent = Field(gt=0, le=1)

    @model_validator(mode="after")
    def _require_exactly_one(self) -> LengthShare:
        if sum(part is not None for part in (self.constant, self.normal, self.uniform)) != 1:
            raise ValueError("expected a share and exactly one of constant, normal, uniform, such as {share: 20%, constant: 512}")
        return self


class Tokens(_LengthDistribution):
    """A distribution of lengths in tokens: exactly one of `constant`, `normal`, `uniform`, `mixed`."""

    mixed: tuple[LengthShare, ...] | None = Field(None, min_length=2, max_length=16)

    @model_validator(mode="after")
    def _require_exactly_one(self) -> Tokens:
        if sum(part is not None for part in (self.constant, self.normal, self.uniform, self.mixed)) != 1:
            raise ValueError("expected exactly one of constant, normal, uniform, mixed, such as {constant: 64}")
        if self.mixed and abs(sum(portion.share for portion in self.mixed) - 1) > 1e-9:
            raise ValueError(f"the shares of mixed add up to {sum(p.share for p in self.mixed):.4g}; expected 100%")
        return self

    @property
    def _range(self) -> tuple[int, int]:
        if self.mixed is None:
            return super()._range
        return min(portion.shortest for portion in self.mixed), max(portion.longest for portion in self.mixed)


class SharedPrefix(Declared):
    """Every prompt begins with one of `groups` prefixes of `tokens` tokens, uniformly at random; the rest is unique."""

    tokens: int = Field(ge=1)
    groups: int = Field(1, ge=1)


class Turns(Declared):
    """Conversations: each arrival is the first of `count` turns. A turn's prompt includes the conversation so far, and is due `think` after
    the last answer. With `prompts`, `count` is the maximum: a conversation with fewer turns ends earlier."""

    count: int = Field(ge=2, le=100)
    think: Pause = 0.0


class Requests(Declared):
    """The requests. Prompts are unique, drawn from `seed`, or those of `prompts`. The output length is forced, so that latencies are comparable.

    `text`: prompts are sent as text and tokenised by the server, which is then measured too; else they are sent as token ids.
    """

    input_tokens: Tokens | None = Field(None, description="of drawn prompts, such as {constant: 512}; `prompts` have their own lengths")
    output_tokens: Tokens
    output: Literal["forced", "natural"] = Field(
        "forced",
        description="natural: the model ends its answer itself, after output_tokens at the latest; latencies a token stay comparable",
    )
    text: bool = False
    prompts: PromptSet | None = None
    shared_prefix: SharedPrefix | None = None
    turns: Turns | None = None
    unique: Literal[True] = True
    seed: Seed

    @model_validator(mode="after")
    def _one_source(self) -> Requests:
        if self.prompts is None:
            if self.input_tokens is None:
                raise ValueError("input_tokens is missing; expected lengths such as {constant: 512}, or prompts")
            return self
        if self.input_tokens is not None:
            raise ValueError("input_tokens with prompts, which have their own lengths; expected one of the two")
        if not self.text:
            raise ValueError("text false with prompts, which are text and not token ids; expected text: true")
        if self.shared_prefix is not None:
            raise ValueError("shared_prefix with prompts, which begin with their own text; expected no shared_prefix")
        if self.turns is not None and self.prompts.format == "text":
            raise ValueError("turns with prompts.format text, which has no conversations; expected format messages or sharegpt")
        return self

    @property
    def prompt_lengths(self) -> Tokens:
        """The declared lengths; of `prompts` an estimate, for forecasts."""
        if self.input_tokens is not None:
            return self.input_tokens
        expected = self.prompts.expected_tokens if self.prompts else None
        return Tokens(constant=expected or DEFAULT_PROMPT_TOKENS)


MAX_TRACE_ROWS = 100_000
TraceLayout = Literal["azure", "burstgpt", "mooncake", "plumbline"]


class MeanRate(Declared):
    """Mean arrivals a second."""

    rate: Rate


class Gamma(MeanRate):
    """Gamma-distributed gaps: `cv` 1 is Poisson, above it arrivals come in clusters."""

    cv: float = Field(gt=0, le=20, description="coefficient of variation of the gaps")


class RatePeriod(Declared):
    """A rate for a duration."""

    rate: Rate
    duration: Duration


class OnOff(Declared):
    """Poisson arrivals whose rate alternates, `on` first."""

    on: RatePeriod
    off: RatePeriod


class Ramp(Declared):
    """Poisson arrivals whose rate rises (or falls) evenly over the phase."""

    start: Rate
    end: Rate


class Trace(Declared):
    """Recorded arrivals and lengths, from the trace's beginning to the end of the phase or of the trace.

    `file` lies in `traces/` beside the declarations; what a phase needs of it becomes `rows` (seconds since the first request, input tokens,
    output tokens) when declarations are read, so that a trial carries its trace and its hash. `layout`: the names of the file's columns, by
    who published them first. `speed` 2 replays twice as fast.

    `after`: the next turns of conversations, as (row, row of the turn before, seconds from its answer to this request); the others come at
    their own times. The file of layout plumbline has a column for the conversation; the other layouts have none.
    """

    file: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)*\.(csv|jsonl)$")
    layout: TraceLayout
    speed: float = Field(1.0, gt=0)
    rows: tuple[tuple[float, int, int], ...] | None = Field(None, min_length=1, max_length=MAX_TRACE_ROWS)
    after: tuple[tuple[int, int, float], ...] | None = Field(None, min_length=1, max_length=MAX_TRACE_ROWS)

    @model_validator(mode="after")
    def _following(self) -> Trace:
        last = -1
        for row, before, think in self.after or ():
            if not (last < row < len(self.rows or ()) and 0 <= before < row and think >= 0):
                raise ValueError(f"after ({row}, {before}, {think:g}) is no turn of an earlier row; expected rising rows of the trace")
            last = row
        return self

    @model_validator(mode="after")
    def _rising(self) -> Trace:
        before = 0.0
        for i, (at, *lengths) in enumerate(self.rows or ()):
            if at < before or min(lengths) < 1:
                raise ValueError(
                    f"{self.row(i)}: {at:g}s, {lengths} tokens; expected a time not before {before:g}s and lengths of at least 1"
                )
            before = at
        return self

    def row(self, number: int) -> str:
        """File and line of row `number` (from 0)."""
        return f"{self.file}:{number + (1 if self.layout == 'mooncake' else 2)}"


class Closed(Declared):
    """A closed loop: each of `users` sends its next request `think` after the answer to its last one, until `requests` are done in all."""

    users: int = Field(ge=1, le=10_000)
    requests: int = Field(ge=1, le=10_000_000)
    think: Pause = 0.0


class Arrivals(ExactlyOne):
    """The arrival process. Open loop: exactly one of `constant`, `poisson`, `gamma`, `on_off`, `ramp`, `trace`;
    or `closed`, for batches and for criteria on concurrent sessions."""

    example: ClassVar[str] = "{poisson: {rate: 8/s}}"
    constant: MeanRate | None = None
    poisson: MeanRate | None = None
    gamma: Gamma | None = None
    on_off: OnOff | None = None
    ramp: Ramp | None = None
    trace: Trace | None = None
    closed: Closed | None = None

    @property
    def process(self) -> str:
        """Name of the declared process, such as `poisson`."""
        return self.declared[0]

    def expected(self, duration_s: float) -> float:
        """Expected arrivals in a phase of that duration; of a closed loop the maximum."""
        if self.closed:
            return self.closed.requests
        if self.trace:
            return float(sum(1 for at, _, _ in self.trace.rows or ((0.0, 1, 1),) if at / self.trace.speed < duration_s))
        if self.on_off:
            on, off = self.on_off.on, self.on_off.off
            whole, rest = divmod(duration_s, on.duration + off.duration)
            first = min(rest, on.duration)
            return float(whole * (on.rate * on.duration + off.rate * off.duration) + on.rate * first + off.rate * (rest - first))
        if self.ramp:
            return float((self.ramp.start + self.ramp.end) / 2 * duration_s)
        process = self.constant or self.poisson or self.gamma
        assert process is not None
        return float(process.rate * duration_s)


DAY_S = 86400.0
MAX_PHASE_REQUESTS = 10_000_000
MIN_PROBE_REQUESTS = 10


class _TimedPhase(Declared):
    arrivals: Arrivals
    duration: Duration

    @model_validator(mode="after")
    def _check_rates(self) -> _TimedPhase:
        if self.duration > DAY_S:
            raise ValueError(f"duration {self.duration:g}s is over a day; expected a duration such as 10min")
        if (expected := self.arrivals.expected(self.duration)) < 1:
            raise ValueError(f"the arrivals are {expected:.2g} requests in {self.duration:g}s; expected a longer phase or a higher rate")
        if expected > MAX_PHASE_REQUESTS:
            raise ValueError(
                f"the arrivals are {expected:.2g} requests in {self.duration:g}s; expected at most {MAX_PHASE_REQUESTS:,} in a phase"
            )
        return self


class LoadPhaseSpec(_TimedPhase):
    """A phase of load."""

    name: Literal["warmup", "steady", "stress", "burst"]


class Search(Declared):
    """The highest rate of Poisson arrivals that the server sustains, somewhere in `between`: at least `goodput` of the requests meet the SLO, and
    the latency does not grow.

    Quick probes last `probe`. A rate counts after a run of `confirm`, or of five times a request's latency where that is longer, and longer while
    the server still fills. The search ends
    when the rate is known within `tolerance`, or after as many seconds of load as `at_most` probes. A probe that the server is hopelessly behind
    in is ended early.
    """

    goodput: Percent = Field(gt=0, le=1)
    between: tuple[Rate, Rate]
    probe: Duration = Field(gt=0)
    confirm: Duration | None = Field(None, gt=0, description="at least a minute on a GPU; absent: as long as `probe`")
    tolerance: Percent = Field(0.05, gt=0, le=0.5)
    at_most: int = Field(12, ge=3, le=100)

    @property
    def budget_s(self) -> float:
        """Seconds of load that all probes and confirming runs may take together."""
        return float(self.at_most * self.probe)

    @model_validator(mode="after")
    def _ordered(self) -> Search:
        low, high = self.between
        if not 0 < low < high:
            raise ValueError(f"between {low:g}/s and {high:g}/s is not a range; expected two rates, the lower first, such as [1/s, 64/s]")
        if low * self.probe < MIN_PROBE_REQUESTS:
            raise ValueError(
                f"probe {self.probe:g}s holds {low * self.probe:.2g} requests at the lowest rate, {low:g}/s, too few for a share; "
                f"expected at least {MIN_PROBE_REQUESTS}"
            )
        if self.confirm is not None and not self.probe <= self.confirm <= self.budget_s / 3:
            raise ValueError(
                f"confirm {self.confirm:g}s does not lie between probe, {self.probe:g}s, and a third of at_most probes, {self.budget_s / 3:g}s; "
                "expected a duration between them, or another at_most"
            )
        return self


class SearchPhaseSpec(Declared):
    """A search for the server's capacity under its SLO."""

    name: Literal["sweep"]
    search: Search


class ContextPhaseSpec(Declared):
    """The cost of a long context: prompts of one length after the other, the server idle in between.

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


class FaultPhaseSpec(_TimedPhase):
    """Load with a fault in it. `at` from the start of the phase; what comes after the service is back is the phase `recovery`.

    server_kill   SIGKILL of the server, which is started again
    overload      `factor` times the arrivals' rate for `lasts`
    """

    name: Literal["fault"]
    inject: Literal["server_kill", "overload"]
    at: Duration
    lasts: Duration | None = None
    factor: float | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _within(self) -> FaultPhaseSpec:
        lasting = self.inject == "overload"
        if lasting != (self.lasts is not None) or lasting != (self.factor is not None):
            raise ValueError(
                f"{self.inject} {'needs' if lasting else 'takes no'} lasts and factor, such as "
                + ("{inject: overload, at: 5s, lasts: 5s, factor: 4}" if lasting else "{inject: server_kill, at: 5s}")
            )
        if self.factor is not None and self.factor <= 1:
            raise ValueError(f"factor {self.factor:g} is no overload; expected above 1, such as 4: four times the arrivals")
        if self.at + (self.lasts or 0.0) >= self.duration:
            raise ValueError(
                f"the fault ends {self.at + (self.lasts or 0.0):g}s into a phase of {self.duration:g}s; expected time left for the recovery"
            )
        if self.arrivals.closed:
            raise ValueError("a closed loop hides a fault: its clients wait; expected an open loop such as {poisson: {rate: 8/s}}")
        return self


class ScaleOutPhaseSpec(Declared):
    """Load that rises in steps and falls again: Poisson arrivals at each of `rates` for `hold`, then at the first one for `down`.

    The start capacity must hold the first rate. The service holds a rate while at least `goodput` of each `window` requests meet the SLO.
    """

    name: Literal["scale_out"]
    rates: Annotated[tuple[Rate, ...], Field(min_length=2, max_length=16)]
    hold: Duration = Field(gt=0)
    down: Duration = Field(gt=0)
    goodput: Percent = Field(0.95, ge=0.5, le=0.999)

    @property
    def window(self) -> int:
        """Consecutive requests of which one may miss the SLO."""
        return math.ceil(1 / (1 - float(self.goodput)) - 1e-9)

    @property
    def levels(self) -> tuple[tuple[float, float], ...]:
        """(rate, seconds) of each part of the phase, in order."""
        return (*((rate, self.hold) for rate in self.rates), (self.rates[0], self.down))

    @model_validator(mode="after")
    def _rising(self) -> ScaleOutPhaseSpec:
        if any(after <= before for before, after in pairwise((0.0, *self.rates))):
            raise ValueError(f"rates {[f'{rate:g}/s' for rate in self.rates]} do not rise; expected rising rates such as [2/s, 8/s]")
        if (due := self.rates[0] * self.hold) < 2 * self.window:
            raise ValueError(
                f"hold {self.hold:g}s has {due:.3g} requests at {self.rates[0]:g}/s, too few for windows of {self.window} requests, of which "
                f"one may miss the SLO; expected at least {2 * self.window / self.rates[0]:.4g}s"
            )
        seconds, expected = sum(s for _, s in self.levels), sum(rate * s for rate, s in self.levels)
        if seconds > DAY_S or expected > MAX_PHASE_REQUESTS:
            raise ValueError(
                f"the phase has {expected:.2g} requests in {seconds:g}s; expected at most {MAX_PHASE_REQUESTS:,} requests and a day"
            )
        return self


PhaseSpec = Annotated[LoadPhaseSpec | ContextPhaseSpec | SearchPhaseSpec | ScaleOutPhaseSpec | FaultPhaseSpec, Field(discriminator="name")]


def max_phase_seconds(phase: PhaseSpec) -> float:
    """Seconds that a phase can take at most, without draining."""
    if isinstance(phase, SearchPhaseSpec):
        return phase.search.budget_s
    if isinstance(phase, ContextPhaseSpec):
        return float(len(phase.input_tokens) * phase.each)
    if isinstance(phase, ScaleOutPhaseSpec):
        return float(sum(seconds for _, seconds in phase.levels))
    return float(phase.duration)


def mean_tokens(lengths: Tokens | LengthShare) -> float:
    """The mean of a declared distribution of lengths."""
    mixed = getattr(lengths, "mixed", None)
    if mixed:
        return float(sum(part.share * mean_tokens(part) for part in mixed))
    if lengths.constant is not None:
        return float(lengths.constant)
    return float(lengths.normal.mean) if lengths.normal is not None else (lengths.shortest + lengths.longest) / 2
