"""Servers of known capacity in virtual time, and the product's search against them.

Everything but the clock and the server is the harness's own: arrivals, request log, what ends a probe, what it shows, each decision of the search.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
from tests.fakes.trials import a_trial

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.workloads.load import SearchPhaseSpec
from plumbline.harness.inference.load.schedule import probe_load
from plumbline.harness.inference.phases.running_probe import RunningProbe
from plumbline.harness.inference.phases.saturation import Planned, RateProbe, RateVerdict, Saturation
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import RequestLog

Values = np.ndarray[Any, np.dtype[np.float64]]
Service = Literal["constant", "log-normal", "bimodal"]


class VirtualServer(Protocol):
    """`tokens` an answer; `capacity`: requests a second at saturation."""

    @property
    def tokens(self) -> int: ...

    @property
    def capacity(self) -> float: ...

    def answers(self, arrivals: Values, rng: np.random.Generator, served: int = 0) -> Values:
        """Moments of the tokens [n, tokens] of requests that arrive at these seconds, rising, at a server that is idle and has `served` so many before."""
        ...


@dataclass(frozen=True)
class Slots:
    """`slots` requests at a time, first come first served, each `mean_s` on average.

    `slow` of the requests take `slow_s` more, beside the queue. `pause` (every_s, for_s): nothing is worked on. `warms` (factor, requests): the
    first request takes factor + 1 times as long, and the excess falls by e with each so many requests."""

    slots: int
    mean_s: float
    service: Service = "constant"
    slow: float = 0.0
    slow_s: float = 0.0
    pause: tuple[float, float] | None = None
    warms: tuple[float, float] | None = None
    tokens: int = 1

    @property
    def capacity(self) -> float:
        return self.slots / self.mean_s * (1 - self.pause[1] / self.pause[0] if self.pause else 1.0)

    def answers(self, arrivals: Values, rng: np.random.Generator, served: int = 0) -> Values:
        n = len(arrivals)
        took = self.mean_s * self._drawn(n, rng)
        if self.warms is not None:
            took *= 1 + self.warms[0] * np.exp(-(served + np.arange(n)) / self.warms[1])
        real, working = self._clock(arrivals[-1] + took.sum() if n else 0.0, rng)
        free, ends = [0.0] * self.slots, np.empty(n)
        for i, (at, each) in enumerate(zip(np.interp(arrivals, real, working).tolist(), took.tolist(), strict=True)):
            ends[i] = max(at, free[0]) + each
            heapq.heapreplace(free, ends[i])
        ends = np.interp(ends, working, real) + np.where(rng.random(n) < self.slow, self.slow_s, 0.0)
        return ends[:, None]

    def _drawn(self, n: int, rng: np.random.Generator) -> Values:
        """Service times of mean 1: log-normal of coefficient of variation 1, bimodal one in ten of 5.5 and the others of a half."""
        if self.service == "log-normal":
            return np.asarray(rng.lognormal(-np.log(2) / 2, np.sqrt(np.log(2)), n))
        return np.where(rng.random(n) < 0.1, 5.5, 0.5) if self.service == "bimodal" else np.ones(n)

    def _clock(self, until_s: float, rng: np.random.Generator) -> tuple[Values, Values]:
        """Corners of the time and of the working time; pauses end a working time's stretch with a jump of the time."""
        if self.pause is None:
            return np.array([0.0, 1e9]), np.array([0.0, 1e9])
        every, lasting = self.pause
        begin = rng.uniform(0, every) + every * np.arange(int(2 * until_s / every) + 3)
        real = np.concatenate([[0.0], np.stack([begin, begin + lasting], 1).ravel()])
        gained = np.diff(real)
        gained[1::2] = 1e-9
        return real, np.concatenate([[0.0], np.cumsum(gained)])


@dataclass(frozen=True)
class Steps:
    """All present sequences, at most `slots`, step together: a step of k takes `base_s` + `each_s` × k and gives each one token of `tokens`."""

    base_s: float
    each_s: float
    tokens: int
    slots: int

    @property
    def capacity(self) -> float:
        return self.slots / (self.tokens * (self.base_s + self.each_s * self.slots))

    def answers(self, arrivals: Values, rng: np.random.Generator, served: int = 0) -> Values:
        n, at = len(arrivals), arrivals.tolist()
        ends: list[float] = []
        admitted = np.empty(n, np.int64)
        leaving: list[int] = []  # how many leave after each step
        now, first, present = 0.0, 0, 0
        while first < n or present:
            if not present:
                now = max(now, at[first])
            came = first
            while came < n and came - first + present < self.slots and at[came] <= now:
                came += 1
            admitted[first:came] = len(ends)
            present += came - first
            leaving.append(came - first)
            first = came
            now += self.base_s + self.each_s * present
            ends.append(now)
            if len(ends) >= self.tokens:
                present -= leaving[len(ends) - self.tokens]
        return np.asarray(np.asarray(ends)[admitted[:, None] + np.arange(self.tokens)])


def virtual_workload(search: Mapping[str, object], slo: Mapping[str, str], tokens: int = 1, seed: int = 1) -> InferenceWorkload:
    """A workload whose third phase is that search, with answers of `tokens`."""
    data = json.loads(a_trial("inference").workload.model_dump_json()) | {"acceptance": []}
    data["requests"] |= {"seed": seed, "output_tokens": {"constant": tokens}}
    data["model"] |= {"context": 4096}
    data["slo"] = dict(slo)
    data["phases"] = [*data["phases"][:2], {"name": "sweep", "search": dict(search)}]
    return InferenceWorkload.model_validate_json(json.dumps(data))


def as_of(log: RequestLog, now_s: float) -> RequestLog:
    """The log as it was known at second `now_s` of its load."""
    came = log.token_at <= now_s
    received = np.bincount(np.repeat(np.arange(log.load.n), log.load.output_tokens)[came], minlength=log.load.n).astype(np.int32)
    ended = np.where(log.ended <= now_s, log.ended, np.nan)
    return replace(log, token_at=np.where(came, log.token_at, np.nan), received=received, ended=ended)


def answered(server: VirtualServer, load: PhaseLoad, rng: np.random.Generator, late_s: float = 0.0, served: int = 0) -> RequestLog:
    """The complete log of a load."""
    log = RequestLog.of(load)
    log.dispatched[:] = log.scheduled
    tokens = server.answers(log.scheduled, rng, served) + late_s
    log.token_at[:] = tokens.ravel()
    log.ended[:] = tokens[:, -1]
    log.received[:] = server.tokens
    return log


def virtual_search(
    server: VirtualServer,
    workload: InferenceWorkload,
    offset: float = 0.0,
    late_s: Callable[[int, Planned], float] = lambda number, planned: 0.0,
) -> Saturation:
    """A search in virtual time. `late_s`: by how much every answer of a probe is late."""
    (phase,) = (i for i, spec in enumerate(workload.phases) if isinstance(spec, SearchPhaseSpec))
    spec = workload.phases[phase]
    assert isinstance(spec, SearchPhaseSpec)
    state, served = Saturation(spec.search, offset), 0
    rng = np.random.default_rng([workload.requests.seed, round(offset * 1e9)])
    while (planned := state.next_probe()) is not None:
        probe = _probe(server, workload, phase, state, planned, rng, late_s(len(state.probes), planned), served)
        served += round(probe.rate * probe.seconds)
        state.learn(probe)
    assert state.spent_s <= spec.search.budget_s * (1 + 1e-9)
    return state


def _probe(
    server: VirtualServer,
    workload: InferenceWorkload,
    phase: int,
    state: Saturation,
    planned: Planned,
    rng: np.random.Generator,
    late_s: float = 0.0,
    served: int = 10**9,
) -> RateProbe:
    log = answered(server, probe_load(workload, phase, len(state.probes), planned.rate, planned.seconds), rng, late_s, served)
    running, step = RunningProbe(state, planned, workload.slo), state.search.probe / 4
    if any(running.ends(as_of(log, now_s), float(now_s)) for now_s in np.arange(step, planned.seconds - step / 2, step)):
        assert running.ended_s is not None
        log.due[log.scheduled > running.ended_s] = False
    return running.result(log, None)


def virtual_run(server: VirtualServer, workload: InferenceWorkload, rate: float) -> RateVerdict:
    """The verdict of a first confirming run at `rate`, of a search that knows nothing else."""
    (phase,) = (i for i, spec in enumerate(workload.phases) if isinstance(spec, SearchPhaseSpec))
    spec = workload.phases[phase]
    assert isinstance(spec, SearchPhaseSpec)
    state = Saturation(spec.search)
    return state.learn(_probe(server, workload, phase, state, state.confirming_run(rate), np.random.default_rng(workload.requests.seed)))
