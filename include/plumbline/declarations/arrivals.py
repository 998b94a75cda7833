"""When requests arrive: processes, recorded traces, closed loops."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from plumbline.declarations.base import Declared
from plumbline.declarations.units import Duration, Pause, Rate

TRACE_ROWS = 100_000
TraceLayout = Literal["azure", "burstgpt", "mooncake"]


class ByRate(Declared):
    """Arrivals a second, in the mean."""

    rate: Rate


class Gamma(ByRate):
    """Gamma-distributed gaps: `cv` 1 is Poisson, above it arrivals come in clusters."""

    cv: float = Field(gt=0, le=20, description="coefficient of variation of the gaps")


class Stretch(Declared):
    """A rate for a while."""

    rate: Rate
    duration: Duration


class OnOff(Declared):
    """Poisson arrivals whose rate alternates: first `on`, then `off`, and again."""

    on: Stretch
    off: Stretch


class Ramp(Declared):
    """Poisson arrivals whose rate rises (or falls) evenly over the phase."""

    start: Rate
    end: Rate


class Trace(Declared):
    """Arrivals and lengths as recorded, from the trace's beginning until the phase is over or the trace is.

    `file` lies in `traces/` beside the declarations; what a phase needs of it becomes `rows` (seconds since the first request, input tokens,
    output tokens) when declarations are read, so that a trial carries its trace and its hash. `layout`: the names of the file's columns, by
    who published them first. `speed` 2 replays twice as fast.
    """

    file: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)*\.(csv|jsonl)$")
    layout: TraceLayout
    speed: float = Field(1.0, gt=0)
    rows: tuple[tuple[float, int, int], ...] | None = Field(None, min_length=1, max_length=TRACE_ROWS)

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
        """Where row `number` (from 0) stands: the file and the line."""
        return f"{self.file}:{number + (1 if self.layout == 'mooncake' else 2)}"


class Closed(Declared):
    """A closed loop: each of `users` sends its next request `think` after the answer to its last one, until `requests` are done in all."""

    users: int = Field(ge=1, le=10_000)
    requests: int = Field(ge=1, le=10_000_000)
    think: Pause = 0.0


class Arrivals(Declared):
    """When requests arrive. Open loop, whatever the server does: exactly one of `constant`, `poisson`, `gamma`, `on_off`, `ramp`, `trace`;
    or `closed`, for batches and for criteria that speak of concurrent sessions."""

    constant: ByRate | None = None
    poisson: ByRate | None = None
    gamma: Gamma | None = None
    on_off: OnOff | None = None
    ramp: Ramp | None = None
    trace: Trace | None = None
    closed: Closed | None = None

    @model_validator(mode="after")
    def _one(self) -> Arrivals:
        if sum(getattr(self, name) is not None for name in type(self).model_fields) != 1:
            raise ValueError(f"expected exactly one of {', '.join(type(self).model_fields)}, such as {{poisson: {{rate: 8/s}}}}")
        return self

    @property
    def process(self) -> str:
        """The name of the process that is declared, such as `poisson`."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)

    def expected(self, duration_s: float) -> float:
        """Arrivals to be expected in a phase so long; at most so many for a closed loop."""
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
