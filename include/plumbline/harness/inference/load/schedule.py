"""The load of a phase: arrival times and token lengths, drawn from the seed before anything runs and hashed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.workloads.load import (
    Arrivals,
    Closed,
    ContextPhaseSpec,
    FaultPhaseSpec,
    LengthShare,
    PhaseSpec,
    Requests,
    ScaleOutPhaseSpec,
    SearchPhaseSpec,
    Tokens,
    Trace,
)
from plumbline.loadclient.phase_load import Counts, PhaseLoad, Seconds
from plumbline.metrics import LoadPhase

FIRST_REQUESTS_PER_S = 10_000.0
"""How fast a closed loop's users begin: all in one moment would measure how long a client takes to write so many requests."""


@dataclass(frozen=True)
class Schedule:
    """The load of all phases, in order. A search's probes are drawn by `probe_load` once their rates are known; `searches` holds its declaration as
    canonical JSON with the phase's number."""

    phases: tuple[PhaseLoad, ...]
    searches: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        return sum(phase.n for phase in self.phases)

    @cached_property
    def sha256(self) -> str:
        """Hash (hex) over names, durations, arrivals in microseconds, lengths, chains where there are any, and searches; little-endian."""
        hashed = hashlib.sha256()
        for phase in self.phases:
            chained = bool(np.any(phase.after >= 0))
            marks = " closed" * phase.closed + " chained" * chained
            hashed.update(f"{phase.name} {phase.duration_s:.6f} {phase.n}{marks}\n".encode())
            hashed.update(np.rint(phase.arrivals_s * 1e6).astype("<i8").tobytes())
            hashed.update(phase.input_tokens.astype("<i4").tobytes())
            hashed.update(phase.output_tokens.astype("<i4").tobytes())
            if chained:
                hashed.update(phase.after.astype("<i4").tobytes())
            if phase.turn is not None:
                hashed.update(phase.turn.astype("<i4").tobytes())
        for search in self.searches:
            hashed.update(f"{search}\n".encode())
        return hashed.hexdigest()


def schedule_of(workload: InferenceWorkload) -> Schedule:
    """The schedule that a workload declares; the same workload gives the same bytes on every machine.

    Raises ValueError if the seed happens to draw a phase without any arrival, or a trace was not read by the declarations' loader.
    """
    phases, searches = [], []
    for i, spec in enumerate(workload.phases):
        if isinstance(spec, SearchPhaseSpec):
            declared = spec.model_dump(mode="json")
            searches.append(json.dumps({"phase": i, **declared}, sort_keys=True, separators=(",", ":")))
        elif isinstance(spec, ContextPhaseSpec):
            phases += _growing(spec, workload.requests, i)
        elif isinstance(spec, ScaleOutPhaseSpec):
            phases.append(_stepped(spec, workload.requests, i))
        else:
            phases.append(
                _load(f"phases[{i}] {spec.name}", spec.name, spec.arrivals, spec.duration, workload.requests, [i], _overload(spec))
            )
    return Schedule(tuple(phases), tuple(searches))


def probe_load(workload: InferenceWorkload, phase: int, probe: int, rate: float, duration_s: float) -> PhaseLoad:
    """The load of a search's probe: Poisson arrivals at `rate` a second for `duration_s`, given their number, so that the rate is offered exactly; where
    that is longer than the search's `confirm`, in each part of about that length, because it may end after any of them.

    Drawn from the seed, the phase's number in `workload.phases` and the probe's own: a search at the same rates meets the same requests.
    Raises ValueError if there is no arrival in it.
    """
    spec = workload.phases[phase]
    if not isinstance(spec, SearchPhaseSpec):
        raise TypeError(f"phases[{phase}] {spec.name} is not a search; expected a phase that declares one")
    arrivals = Arrivals.model_validate({"poisson": {"rate": f"{float(rate)!r}/s"}})
    where = f"phases[{phase}] {spec.name}, probe {probe} at {rate:g}/s"
    load = _load(
        where, spec.name, arrivals, duration_s, workload.requests, [phase, 2, probe], counted_s=spec.search.confirm or spec.search.probe
    )
    return replace(load, probe=probe)


def request_rng(workload: InferenceWorkload | Requests, *stream: int) -> Random:
    """A generator of a stream of its own, of the requests' seed. Streams: [phase] its arrivals and lengths, [phase, 1] its prompts,
    [phase, 2, probe] and [phase, 3, probe] a probe's or a length's, [0, 4] shared prefixes, [0, 5] the cold start's prompt."""
    requests = workload if isinstance(workload, Requests) else workload.requests
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([requests.seed, *stream])))


def _overload(spec: PhaseSpec) -> Overload | None:
    if isinstance(spec, FaultPhaseSpec) and spec.inject == "overload":
        assert spec.lasts is not None and spec.factor is not None
        return Overload(spec.at, spec.at + spec.lasts, spec.factor)
    return None


def _load(
    where: str,
    name: LoadPhase,
    arrivals: Arrivals,
    duration_s: float,
    requests: Requests,
    stream: list[int],
    overload: Overload | None = None,
    counted_s: float | None = None,
) -> PhaseLoad:
    """`counted_s`: the arrivals in each about so many seconds are as many as the rate expects."""
    rng = request_rng(requests, *stream)
    if arrivals.trace is not None:
        load = _replayed(where, name, arrivals.trace, duration_s, overload)
        return load if requests.prompts is None else replace(load, input_tokens=np.zeros(load.n, np.int32))
    if arrivals.closed is not None:
        times, after = _closed_loop(arrivals.closed, requests)
    else:
        first = (
            _counted_parts(arrivals, duration_s, counted_s, rng)
            if counted_s is not None
            else arrival_times(arrivals, duration_s, rng, overload)
        )
        times, after = _conversations(first, requests)
    if not len(times):
        raise ValueError(
            f"{where}: the seed {requests.seed} draws no arrival in {duration_s:g}s; "
            "expected a longer phase, a higher rate or another requests.seed"
        )
    return _with_lengths(PhaseLoad(name, duration_s, times, after, after, after, arrivals.closed is not None), requests, rng)


def _with_lengths(load: PhaseLoad, requests: Requests, rng: Random) -> PhaseLoad:
    """The load with lengths drawn instead of those that it has."""
    if requests.input_tokens is None:  # known once the workload's own prompts are tokenised
        output = lengths(requests.output_tokens, load.n, rng)
        return replace(load, input_tokens=np.zeros(load.n, np.int32), output_tokens=output)
    fresh, output = (lengths(tokens, load.n, rng) for tokens in (requests.input_tokens, requests.output_tokens))
    return replace(load, input_tokens=_with_history(fresh, output, load.after, requests), output_tokens=output)


def _stepped(spec: ScaleOutPhaseSpec, requests: Requests, phase: int) -> PhaseLoad:
    rng, begin, times = request_rng(requests, phase), 0.0, []
    for rate, seconds in spec.levels:
        times.append(begin + _counted_poisson(rate * seconds, seconds, rng))
        begin += seconds
    arrivals = round_to_microseconds(np.concatenate(times))
    none = np.full(len(arrivals), -1, np.int32)
    return _with_lengths(PhaseLoad(spec.name, begin, arrivals, none, none, none), requests, rng)


def _growing(spec: ContextPhaseSpec, requests: Requests, phase: int) -> list[PhaseLoad]:
    times, after = _closed_loop(Closed(users=spec.users, requests=spec.requests), requests)
    output = lengths(requests.output_tokens, spec.requests, request_rng(requests, phase))
    return [
        PhaseLoad(spec.name, spec.each, times, np.full(len(times), length, np.int32), output, after, closed=True, probe=k)
        for k, length in enumerate(spec.input_tokens)
    ]


def _replayed(where: str, name: LoadPhase, trace: Trace, duration_s: float, overload: Overload | None) -> PhaseLoad:
    if trace.rows is None:
        raise ValueError(f"{where}: {trace.file} was not read; expected a workload read by plumbline.declarations.workloads.load")
    recorded = np.array(trace.rows, np.float64)
    times = round_to_microseconds(replay_times(recorded[:, 0] / trace.speed, overload, duration_s))
    rows = recorded[times < duration_s]
    times = times[times < duration_s]
    read, written, after = rows[:, 1].astype(np.int32), rows[:, 2].astype(np.int32), np.full(len(times), -1, np.int32)
    if trace.after is None:
        return PhaseLoad(name, duration_s, times, read, written, after)
    turn = np.zeros(len(times), np.int32)
    for row, before, think_s in trace.after:
        if row >= len(times):
            break
        after[row] = before
        times[row] = round(think_s / trace.speed, 6)
        # A prompt that is no longer than what was said before does not contain it: the client has shortened the conversation.
        turn[row] = turn[before] + 1 if read[row] > read[before] + written[before] else 0
    return PhaseLoad(name, duration_s, times, read, written, after, turn=turn)


def _conversations(first: Seconds, requests: Requests) -> tuple[Seconds, Counts]:
    """Times and predecessors of open arrivals: all first turns in their order, then all second turns, and so on."""
    n, turns = len(first), requests.turns
    if turns is None:
        return first, np.full(n, -1, np.int32)
    after = np.arange(turns.count * n, dtype=np.int32) - np.int32(n)
    return round_to_microseconds(np.concatenate([first, np.full((turns.count - 1) * n, turns.think)])), np.maximum(after, -1).astype(
        np.int32
    )


def _closed_loop(closed: Closed, requests: Requests) -> tuple[Seconds, Counts]:
    """Times and predecessors of a closed loop: request i is the next of user i modulo users. With turns, each `count` requests of a user are
    one conversation."""
    users = min(closed.users, closed.requests)
    own = np.arange(closed.requests) // users
    times = np.full(closed.requests, closed.think)
    if requests.turns is not None:
        times[own % requests.turns.count > 0] = requests.turns.think
    times[:users] = np.arange(users) / FIRST_REQUESTS_PER_S
    return round_to_microseconds(times), np.maximum(np.arange(closed.requests) - users, -1).astype(np.int32)


def turn_of(load: PhaseLoad, requests: Requests) -> Counts:
    """Which turn of its conversation each request is, from 0, int32 [n]; 0 without conversations."""
    if load.turn is not None:
        return load.turn
    count = requests.turns.count if requests.turns else 1
    return (np.arange(load.n) // load.chains % count).astype(np.int32)


def _with_history(fresh: Counts, output: Counts, after: Counts, requests: Requests) -> Counts:
    """Input lengths, int32 [n], where a turn's prompt repeats the prompts and answers before it; a shared prefix stands in it once."""
    if requests.turns is None:
        return fresh
    chains, count = int(np.count_nonzero(after < 0)), requests.turns.count
    prefix = requests.shared_prefix.tokens if requests.shared_prefix else 0
    total = fresh.copy()
    for start in range(chains, len(fresh), chains):
        now = slice(start, min(start + chains, len(fresh)))
        if start // chains % count:
            before = slice(start - chains, start - chains + (now.stop - now.start))
            total[now] = total[before] + output[before] + fresh[now] - prefix
    return total


Random = np.random.Generator


@dataclass(frozen=True)
class Overload:
    """`factor` times the arrivals between `start_s` and `end_s`, seconds from the start of the phase."""

    start_s: float
    end_s: float
    factor: float


def round_to_microseconds(times: Seconds) -> Seconds:
    """Times in whole microseconds: the last bits of a logarithm differ between machines, and a schedule's hash must not."""
    rounded: Seconds = np.rint(times * 1e6) / 1e6
    return rounded


def arrival_times(arrivals: Arrivals, duration_s: float, rng: Random, overload: Overload | None = None) -> Seconds:
    """Arrivals of an open loop, float64 [n]: seconds from the start of the phase, rising, whole microseconds, below `duration_s`.

    Raises ValueError for a closed loop, whose arrivals are no numbers, and for a trace, which carries its own.
    """
    if arrivals.on_off is not None or arrivals.ramp is not None:
        times = _inhomogeneous_poisson(_intensity(arrivals, duration_s, overload), rng)
    else:
        # One clock that runs `factor` times as fast while overloaded: of any process of one rate it makes that process, sped up.
        real, clock = _clock(duration_s, overload)
        times = _stationary(arrivals, float(clock[-1]), rng)
        if overload is not None:
            times = np.interp(times[times < clock[-1]], clock, real)
    rounded = round_to_microseconds(times)
    return rounded[rounded < duration_s]


def _counted_poisson(expected: float, duration_s: float, rng: Random) -> Seconds:
    """Poisson arrivals given their number: as many as the rate expects, sorted uniform times. A drawn number is off by its square root: of
    200 requests by 7 %, and the rate that is named was not the one that was offered."""
    times = round_to_microseconds(np.sort(rng.random(round(expected))) * duration_s)
    return np.minimum(times, duration_s - 1e-6)


def _counted_parts(arrivals: Arrivals, duration_s: float, each_s: float, rng: Random) -> Seconds:
    edges = np.linspace(0.0, duration_s, max(1, round(duration_s / each_s)) + 1)
    numbers = np.diff(np.rint([arrivals.expected(edge) for edge in edges]))
    parts = zip(edges, np.diff(edges), numbers, strict=False)
    return np.concatenate([round_to_microseconds(begin + _counted_poisson(n, lasting, rng)) for begin, lasting, n in parts])


def replay_times(times: Seconds, overload: Overload | None, duration_s: float) -> Seconds:
    """Recorded times as they are replayed under an overload: `factor` times as fast while it lasts."""
    if overload is None:
        return times
    real, clock = _clock(duration_s, overload)
    replayed: Seconds = np.interp(times, clock, real, right=np.inf)
    return replayed


def _clock(duration_s: float, overload: Overload | None) -> tuple[Seconds, Seconds]:
    if overload is None:
        return np.array([0.0, duration_s]), np.array([0.0, duration_s])
    real = np.array([0.0, overload.start_s, overload.end_s, duration_s])
    return real, np.concatenate([[0.0], np.cumsum(np.diff(real) * [1.0, overload.factor, 1.0])])


def _stationary(arrivals: Arrivals, duration_s: float, rng: Random) -> Seconds:
    if arrivals.constant is not None:
        rate = arrivals.constant.rate
        return np.asarray(np.arange(int(np.ceil(rate * duration_s))) / rate)
    if arrivals.poisson is not None:
        rate = arrivals.poisson.rate
        return _renewals(lambda n: rng.standard_exponential(n) / rate, rate, duration_s)
    if arrivals.gamma is not None:
        rate, shape = arrivals.gamma.rate, arrivals.gamma.cv**-2
        return _renewals(lambda n: rng.standard_gamma(shape, n) / (shape * rate), rate, duration_s)
    raise ValueError(f"{arrivals.process} is not drawn at one rate; expected constant, poisson or gamma")


def _renewals(gaps: Callable[[int], Seconds], rate: float, duration_s: float) -> Seconds:
    """Sums of gaps until past the end, drawn in blocks: the number of arrivals is itself random."""
    times = np.empty(0)
    while not len(times) or times[-1] < duration_s:
        times = np.concatenate([times, (times[-1] if len(times) else 0.0) + np.cumsum(gaps(max(16, int(rate * duration_s))))])
    return times


@dataclass(frozen=True)
class _Intensity:
    """A rate that changes evenly within each stretch and may jump between them. `at` float64 [k + 1], the others float64 [k]."""

    at: Seconds
    first: Seconds
    last: Seconds

    @property
    def cumulative(self) -> Seconds:
        """Arrivals to be expected until each corner, float64 [k + 1]."""
        return np.concatenate([[0.0], np.cumsum(np.diff(self.at) * (self.first + self.last) / 2)])


def _intensity(arrivals: Arrivals, duration_s: float, overload: Overload | None) -> _Intensity:
    corners = [0.0, duration_s, *((overload.start_s, overload.end_s) if overload else ())]
    if arrivals.on_off is not None:
        on, off = arrivals.on_off.on, arrivals.on_off.off
        starts = np.arange(int(np.ceil(duration_s / (on.duration + off.duration)))) * (on.duration + off.duration)
        corners += [*starts, *(starts + on.duration)]
    at = np.unique(np.clip(corners, 0.0, duration_s))
    middle = (at[:-1] + at[1:]) / 2
    if arrivals.on_off is not None:
        first = last = np.where(middle % (on.duration + off.duration) < on.duration, on.rate, off.rate)
    else:
        ramp = arrivals.ramp
        assert ramp is not None
        rates = ramp.start + (ramp.end - ramp.start) * at / duration_s
        first, last = rates[:-1], rates[1:]
    times = np.where((overload.start_s < middle) & (middle < overload.end_s), overload.factor, 1.0) if overload else np.ones(len(middle))
    return _Intensity(at, first * times, last * times)


def _inhomogeneous_poisson(intensity: _Intensity, rng: Random) -> Seconds:
    """An inhomogeneous Poisson process by change of time: one of rate 1, carried through the inverse of the expected number of arrivals."""
    expected = intensity.cumulative
    unit = _renewals(rng.standard_exponential, 1.0, float(expected[-1]))
    unit = unit[unit < expected[-1]]
    stretch = np.searchsorted(expected, unit, side="right") - 1
    into, first = unit - expected[stretch], intensity.first[stretch]
    slope = ((intensity.last - intensity.first) / np.diff(intensity.at))[stretch]
    # Of rate·t + slope·t²/2 = into, in the form of the solution that holds for a slope of 0 as well.
    times: Seconds = intensity.at[stretch] + 2 * into / (first + np.sqrt(np.maximum(first**2 + 2 * slope * into, 0.0)))
    return times


def lengths(tokens: Tokens | LengthShare, n: int, rng: Random) -> Counts:
    """`n` lengths in tokens, int32 [n]."""
    if isinstance(tokens, Tokens) and tokens.mixed is not None:
        shares = np.cumsum([portion.share for portion in tokens.mixed])
        chosen = np.searchsorted(shares[:-1], rng.random(n), side="right")
        return np.choose(chosen, [lengths(portion, n, rng) for portion in tokens.mixed]).astype(np.int32)
    if tokens.constant is not None:
        return np.full(n, tokens.constant, np.int32)
    if tokens.uniform is not None:
        return rng.integers(tokens.uniform.min, tokens.uniform.max, n, dtype=np.int32, endpoint=True)
    normal = tokens.normal
    assert normal is not None
    drawn = normal.mean + normal.stddev * rng.standard_normal(n)
    return np.clip(np.rint(drawn), normal.min, normal.max).astype(np.int32)
