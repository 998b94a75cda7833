"""When requests arrive and how long they are: computed from the seed before anything runs, hashed, and never adapted to the server."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.load import Arrivals, Closed, ContextPhaseSpec, FaultPhaseSpec, PhaseSpec, Requests, SearchPhaseSpec, Trace
from plumbline.declarations.phases import LoadPhase
from plumbline.harness.inference.processes import Counts, Overload, Random, Seconds, arrival_times, in_time, lengths, microseconds

FIRST_REQUESTS_PER_S = 10_000.0
"""How fast a closed loop's users begin: all in one moment would measure how long a client takes to write so many requests."""


@dataclass(frozen=True)
class PhaseLoad:
    """The load of one phase: n requests, those that are timed in order of arrival.

    `arrivals_s` float64 [n], whole microseconds: seconds from the start of the phase, or, where `after` int32 [n] is not -1, from the end of
    the request with that (smaller) number: the next turn of a conversation, the next request of a closed loop's user.
    `input_tokens`, `output_tokens` int32 [n]. `closed`: a closed loop; it may end before its duration, when its requests are worked off.
    `probe`: which one of a search's loads, or of a growing context's, from 0; None: the phase's only one.
    """

    name: LoadPhase
    duration_s: float
    arrivals_s: Seconds
    input_tokens: Counts
    output_tokens: Counts
    after: Counts
    closed: bool = False
    probe: int | None = None

    @property
    def n(self) -> int:
        """Requests of the phase."""
        return len(self.arrivals_s)

    @property
    def chains(self) -> int:
        """Users of a closed loop, or conversations: request i follows request i - chains, and the first `chains` requests are timed."""
        return int(np.count_nonzero(self.after < 0))


@dataclass(frozen=True)
class Schedule:
    """The load of all phases, in their order. A search's probes are drawn when their rates are known, by `probe_load`; what is declared of
    a search stands in `searches`, as canonical JSON with the phase's number."""

    phases: tuple[PhaseLoad, ...]
    searches: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """Requests of all phases."""
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
        else:
            phases.append(
                _load(f"phases[{i}] {spec.name}", spec.name, spec.arrivals, spec.duration, workload.requests, [i], _overload(spec))
            )
    return Schedule(tuple(phases), tuple(searches))


def probe_load(workload: InferenceWorkload, phase: int, probe: int, rate: float) -> PhaseLoad:
    """The load of a search's probe: Poisson arrivals at `rate` a second for the declared time.

    Drawn from the seed, the phase's number in `workload.phases` and the probe's own: a search at the same rates meets the same requests.
    Raises ValueError if there is no arrival in it.
    """
    spec = workload.phases[phase]
    if not isinstance(spec, SearchPhaseSpec):
        raise TypeError(f"phases[{phase}] {spec.name} is no search; expected a phase that declares one")
    arrivals = Arrivals.model_validate({"poisson": {"rate": f"{float(rate)!r}/s"}})
    where = f"phases[{phase}] {spec.name}, probe {probe} at {rate:g}/s"
    return replace(_load(where, spec.name, arrivals, spec.search.probe, workload.requests, [phase, 2, probe]), probe=probe)


def random(workload: InferenceWorkload | Requests, *stream: int) -> Random:
    """A generator of a stream of its own, of the requests' seed. Streams: [phase] its arrivals and lengths, [phase, 1] its prompts,
    [phase, 2, probe] and [phase, 3, probe] a probe's or a length's, [0, 4] shared prefixes, [0, 5] the cold start's prompt."""
    requests = workload.requests if isinstance(workload, InferenceWorkload) else workload
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
) -> PhaseLoad:
    rng = random(requests, *stream)
    if arrivals.trace is not None:
        return _replayed(where, name, arrivals.trace, duration_s, overload)
    if arrivals.closed is not None:
        times, after = _closed_loop(arrivals.closed, requests)
    else:
        times, after = _conversations(arrival_times(arrivals, duration_s, rng, overload), requests)
    if not len(times):
        raise ValueError(
            f"{where}: the seed {requests.seed} draws no arrival in {duration_s:g}s; "
            "expected a longer phase, a higher rate or another requests.seed"
        )
    fresh, output = (lengths(tokens, len(times), rng) for tokens in (requests.input_tokens, requests.output_tokens))
    return PhaseLoad(name, duration_s, times, _with_history(fresh, output, after, requests), output, after, arrivals.closed is not None)


def _growing(spec: ContextPhaseSpec, requests: Requests, phase: int) -> list[PhaseLoad]:
    """A load for each length. All of them ask for the same outputs: only the prompts differ."""
    times, after = _closed_loop(Closed(users=spec.users, requests=spec.requests), requests)
    output = lengths(requests.output_tokens, spec.requests, random(requests, phase))
    return [
        PhaseLoad(spec.name, spec.each, times, np.full(len(times), length, np.int32), output, after, closed=True, probe=k)
        for k, length in enumerate(spec.input_tokens)
    ]


def _replayed(where: str, name: LoadPhase, trace: Trace, duration_s: float, overload: Overload | None) -> PhaseLoad:
    if trace.rows is None:
        raise ValueError(f"{where}: {trace.file} was not read; expected a workload that came through plumbline.declarations.load")
    recorded = np.array(trace.rows, np.float64)
    times = microseconds(in_time(recorded[:, 0] / trace.speed, overload, duration_s))
    rows = recorded[times < duration_s]
    times = times[times < duration_s]
    return PhaseLoad(name, duration_s, times, rows[:, 1].astype(np.int32), rows[:, 2].astype(np.int32), np.full(len(times), -1, np.int32))


def _conversations(first: Seconds, requests: Requests) -> tuple[Seconds, Counts]:
    """Times and predecessors of open arrivals: all first turns in their order, then all second turns, and so on."""
    n, turns = len(first), requests.turns
    if turns is None:
        return first, np.full(n, -1, np.int32)
    after = np.arange(turns.count * n, dtype=np.int32) - np.int32(n)
    return microseconds(np.concatenate([first, np.full((turns.count - 1) * n, turns.think)])), np.maximum(after, -1).astype(np.int32)


def _closed_loop(closed: Closed, requests: Requests) -> tuple[Seconds, Counts]:
    """Times and predecessors of a closed loop: request i is the next of user i modulo users. With turns, each `count` requests of a user are
    one conversation."""
    users = min(closed.users, closed.requests)
    own = np.arange(closed.requests) // users
    times = np.full(closed.requests, closed.think)
    if requests.turns is not None:
        times[own % requests.turns.count > 0] = requests.turns.think
    times[:users] = np.arange(users) / FIRST_REQUESTS_PER_S
    return microseconds(times), np.maximum(np.arange(closed.requests) - users, -1).astype(np.int32)


def turn_of(load: PhaseLoad, requests: Requests) -> Counts:
    """Which turn of its conversation each request is, from 0, int32 [n]; 0 without conversations."""
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
