"""When requests arrive and how long they are: computed from the seed before anything runs, hashed, and never adapted to the server."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.inference import Arrivals, Tokens
from plumbline.declarations.phases import LoadPhase

Seconds = NDArray[np.float64]
Counts = NDArray[np.int32]


@dataclass(frozen=True)
class PhaseLoad:
    """The load of one phase: n requests, in order of arrival.

    `arrivals_s` float64 [n], whole microseconds: seconds from the start of the phase, or, where `after` int32 [n] is not -1, from the end of
    the request with that (smaller) number: the next turn of a conversation, the next request of a closed loop's user.
    `input_tokens`, `output_tokens` int32 [n]. `closed`: a closed loop; it may end before its duration, when its requests are worked off.
    """

    name: LoadPhase
    duration_s: float
    arrivals_s: Seconds
    input_tokens: Counts
    output_tokens: Counts
    after: Counts
    closed: bool = False

    @property
    def n(self) -> int:
        """Requests of the phase."""
        return len(self.arrivals_s)


@dataclass(frozen=True)
class Schedule:
    """The load of all phases, in their order."""

    phases: tuple[PhaseLoad, ...]

    @property
    def n(self) -> int:
        """Requests of all phases."""
        return sum(phase.n for phase in self.phases)

    @cached_property
    def sha256(self) -> str:
        """Hash (hex) over names, durations, arrivals in microseconds, and lengths, little-endian."""
        hashed = hashlib.sha256()
        for phase in self.phases:
            hashed.update(f"{phase.name} {phase.duration_s:.6f} {phase.n}\n".encode())
            hashed.update(np.rint(phase.arrivals_s * 1e6).astype("<i8").tobytes())
            hashed.update(phase.input_tokens.astype("<i4").tobytes())
            hashed.update(phase.output_tokens.astype("<i4").tobytes())
        return hashed.hexdigest()


def schedule_of(workload: InferenceWorkload) -> Schedule:
    """The schedule that a workload declares; the same workload gives the same bytes on every machine.

    Raises ValueError if the seed happens to draw a phase without any arrival.
    """
    phases = []
    for i, spec in enumerate(workload.phases):
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([workload.requests.seed, i])))
        arrivals = _arrivals(spec.arrivals, spec.duration, rng)
        if not len(arrivals):
            raise ValueError(
                f"phases[{i}] {spec.name}: the seed {workload.requests.seed} draws no arrival in {spec.duration:g}s; "
                "expected a longer phase, a higher rate or another requests.seed"
            )
        lengths = [_lengths(tokens, len(arrivals), rng) for tokens in (workload.requests.input_tokens, workload.requests.output_tokens)]
        phases.append(PhaseLoad(spec.name, spec.duration, arrivals, *lengths))
    return Schedule(tuple(phases))


def _arrivals(arrivals: Arrivals, duration_s: float, rng: np.random.Generator) -> Seconds:
    rate = arrivals.rate
    if arrivals.constant is not None:
        times = np.arange(int(np.ceil(rate * duration_s))) / rate
    else:
        times = np.empty(0)
        # Drawn in blocks until past the end: the number of arrivals is itself random.
        while not len(times) or times[-1] < duration_s:
            gaps = rng.standard_exponential(max(16, int(rate * duration_s))) / rate
            times = np.concatenate([times, (times[-1] if len(times) else 0.0) + np.cumsum(gaps)])
    # Whole microseconds: the last bits of a logarithm differ between machines, and the hash must not.
    rounded: Seconds = np.rint(times * 1e6) / 1e6
    return rounded[rounded < duration_s]


def _lengths(tokens: Tokens, n: int, rng: np.random.Generator) -> Counts:
    if tokens.constant is not None:
        return np.full(n, tokens.constant, np.int32)
    if tokens.uniform is not None:
        return rng.integers(tokens.uniform.min, tokens.uniform.max, n, dtype=np.int32, endpoint=True)
    normal = tokens.normal
    assert normal is not None
    drawn = normal.mean + normal.stddev * rng.standard_normal(n)
    return np.clip(np.rint(drawn), normal.min, normal.max).astype(np.int32)
