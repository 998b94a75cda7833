"""A search phase: probe Poisson rates until the highest rate within the SLO is known to the declared tolerance."""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

import numpy as np

from plumbline.declarations.workloads.inference import Slo
from plumbline.declarations.workloads.load import Search, SearchPhaseSpec
from plumbline.harness.inference.analysis import validity
from plumbline.harness.inference.analysis.metrics import metrics_of, stages_of, within_slo
from plumbline.harness.inference.load.prompts import Prompts, probe_prompts
from plumbline.harness.inference.load.request_log import RequestLog
from plumbline.harness.inference.load.schedule import probe_load
from plumbline.harness.inference.phases.load_phase import (
    Driver,
    length_telemetry,
    noted_lengths,
    prepare_cache,
    require_running,
    wait_until_settled,
)
from plumbline.harness.inference.phases.trial_record import TrialRecord
from plumbline.harness.inference.server.under_test import format_outcome
from plumbline.harness.measurement import EvidenceFile, TrialFailed, degraded
from plumbline.metrics.proportions import min_successes_to_prove, wilson_interval
from plumbline.results import metric_row


def count_missed(log: RequestLog, slo: Slo, now_s: float) -> int:
    """Requests that miss the SLO by `now_s` seconds of the phase: failed, ended outside it, or unanswered past a limit."""
    ended = np.isfinite(log.ended)
    lost = ended & ~within_slo(log, slo)
    waited = now_s - log.scheduled
    if slo.time_to_first_token is not None:
        first = np.where(np.isnan(log.first_token), waited, log.first_token - log.scheduled)
        lost |= ~ended & (first > slo.time_to_first_token)
    if slo.request_scheduled_latency is not None:
        lost |= ~ended & (waited > slo.request_scheduled_latency)
    return int((lost & log.due).sum())


def measure_search(driver: Driver, phase: int, spec: SearchPhaseSpec, prompts: Prompts) -> None:
    """Search phase number `phase` of the workload.

    The row of the highest rate is absent where the search cannot determine it (a judgement has the reason); the other rows are those of the
    last probe at that rate. Raises TrialFailed as other phases do, and "bad_declaration" if a probe cannot be computed."""
    record, state = driver.record, Saturation(spec.search)
    best: RequestLog | None = None
    began_s = record.done_s
    record.event("sweep_started")
    while (rate := state.next_rate()) is not None:
        number = len(state.probes)
        require_running(driver.served, f"before probe {number} of {spec.name}")
        prepare_cache(driver, spec.name, prompts)
        log, probe = _probe(driver, phase, spec, number, rate, prompts)
        verdict = state.learn(probe)
        record.done_s = began_s + (number + 1) * spec.search.probe
        if verdict.holds:
            best = log
        else:
            wait_until_settled(driver, spec.name, prompts.cold_start)
    record.event("sweep_ended")
    record.done_s = began_s + spec.search.at_most * spec.search.probe
    bracket = (state.held, state.failed) if state.held is not None and state.failed is not None else None
    record.result.metrics.append(metric_row("highest_sustained_rate", state.highest, len(state.probes), phase=spec.name, ci=bracket))
    if best is not None:
        record.result.metrics += noted_lengths(metrics_of(best, record.workload.slo, None), record.workload.requests)
        record.result.telemetry += length_telemetry(best, record.workload.requests)
        record.result.stages += stages_of(best, None)
    if state.highest is None:
        code = "client_limited" if state.ending == "client_limited" else "search_open"
        record.result.judgements.append(degraded(code, f"no highest rate in {spec.name}: {state.summary()}"))
    record.result.evidence.append(_evidence(record, state))


def _probe(driver: Driver, phase: int, spec: SearchPhaseSpec, number: int, rate: float, prompts: Prompts) -> tuple[RequestLog, Probe]:
    record, workload, target = driver.record, driver.record.workload, spec.search.goodput
    try:
        load = probe_load(workload, phase, number, rate)
        if prompts.own is not None:
            load, texts = prompts.own.probe(load, phase, number)
        else:
            texts = probe_prompts(workload, load, phase, number)
    except ValueError as error:
        raise TrialFailed("bad_declaration", str(error)) from error
    hopeless = False

    def stop(log: RequestLog) -> bool:
        nonlocal hopeless
        now_s = time.monotonic() - log.began
        hopeless = hopeless or (np.isfinite(now_s) and cannot_hold(count_missed(log, workload.slo, now_s), load.n, target))
        return hopeless

    with record.watch.phase(spec.name):
        log = driver.drive(load, texts, stop=stop, note=f"probe {number + 1} at {rate:.4g}/s: ")
    record.logs.append(log)
    require_running(driver.served, format_outcome(log))
    met = within_slo(log, workload.slo)
    limited = validity.client_limited(log, record.trial.validity)
    late = limited.reason.detail if limited is not None and limited.level == "invalid" else None
    # Ended early: those that were not sent any more, and those that were cut off for it, might still have been good.
    possible = int(met.sum()) + (load.n - log.n) + log.errors().get("cancelled", 0) if hopeless else int(met.sum())
    return log, Probe(rate, load.n if hopeless else log.n, possible, hopeless, late)


def _evidence(record: TrialRecord, state: Saturation) -> EvidenceFile:
    """`search.json`: how the search ended, and its probes in their order; the requests of a probe are in requests.parquet, by its number."""
    path = record.workdir / "search.json"
    content = {
        "ended": state.ending or "used_up",
        "told": state.summary(),
        "held": state.held,
        "failed": state.failed,
        "probes": [{"probe": i, **asdict(probe), **asdict(verdict)} for i, (probe, verdict) in enumerate(state.probes)],
    }
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return EvidenceFile("search", path)


# How the highest rate under the SLO is searched for: which rate to try next, and what a probe proves. Pure: probes in, decisions out.
#
# From the lower end the rate is doubled until a probe fails (or the upper end holds); then the geometric middle of the highest rate that held
# and the lowest that did not is tried, until the two are within the tolerance or the probes are used up.
#
# A probe of n requests, of which g were good, holds at a share p surely if Wilson's interval of g / n lies above p, and surely not if it lies
# below. In between, the rate is probed once more with another seed and both probes are judged as one; if that leaves it open, the share
# itself decides, and the result says so. Where even two probes without a single bad request could prove nothing, none is repeated: only a longer
# probe would help. The interval takes requests for independent; they share a queue, so "surely" is a little less than the 95 % it says.


Ending = Literal["between", "upper_end", "lower_end", "client_limited"]
"""between      the rate lies between one that held and one that did not
upper_end       the upper end of the declared range held: the rate is at least that
lower_end       the lower end did not hold: the rate is less than that
client_limited  twice in a row a probe failed in which the client itself was the limit: nothing above what held is known"""


@dataclass(frozen=True)
class Probe:
    """`n` requests of which at most `good` can be good; `hopeless`: ended early, since that cannot suffice. `client_limited`: why the client was
    the limit."""

    rate: float
    n: int
    good: int
    hopeless: bool = False
    client_limited: str | None = None


@dataclass(frozen=True)
class Verdict:
    """By all probes of one rate. `holds` None: undecided, the rate is probed again. `sure`: by confidence, not by the share alone."""

    holds: bool | None
    sure: bool
    share: float
    low: float
    high: float


@dataclass
class Saturation:
    """The search's state. `held` and `failed`: the closest rates that hold and fail (None: none yet)."""

    search: Search
    held: float | None = None
    failed: float | None = None
    ending: Ending | None = None
    probes: list[tuple[Probe, Verdict]] = field(default_factory=list)
    _again: list[Probe] = field(default_factory=list)
    _void: Probe | None = None

    def next_rate(self) -> float | None:
        """The rate to probe now; None when the search is over."""
        if self.ending is not None or len(self.probes) >= self.search.at_most:
            return None
        low, high = (float(rate) for rate in self.search.between)
        if self._void or self._again:
            return (self._void or self._again[0]).rate
        if self.held is None:
            return low
        if self.failed is None:
            return min(2 * self.held, high)
        return None if self.known else math.sqrt(self.held * self.failed)

    def learn(self, probe: Probe) -> Verdict:
        verdict = self._judge([*self._again, probe])
        if not verdict.holds and probe.client_limited is not None:
            verdict = replace(verdict, holds=None, sure=False)
        self.probes.append((probe, verdict))
        if not verdict.holds and probe.client_limited is not None:
            # What the client did not manage says nothing of the server. It may have been disturbed for a moment, so it gets a second chance.
            self.ending = "client_limited" if self._void else None
            self._void = probe
            return verdict
        self._void = None
        self._again = [probe] if verdict.holds is None else []
        if verdict.holds:
            self.held = probe.rate
            self.ending = "upper_end" if probe.rate >= self.search.between[1] else None
        elif verdict.holds is False:
            self.failed = probe.rate
            self.ending = "lower_end" if self.held is None else None
        if self.ending is None and self.known:
            self.ending = "between"
        return verdict

    @property
    def known(self) -> bool:
        return self.held is not None and self.failed is not None and self.failed <= self.held * (1 + self.search.tolerance) * (1 + 1e-9)

    @property
    def highest(self) -> float | None:
        """The highest rate that held, once one above it did not; None if the search cannot say."""
        return self.held if self.failed is not None and self.ending != "client_limited" else None

    def summary(self) -> str:
        share, (low, high) = f"{self.search.goodput:.4g}", self.search.between
        n = f"{len(self.probes)} probes"
        if self.ending == "client_limited":
            probe = self.probes[-1][0]
            known = f"{self.held:.4g}/s held before" if self.held else "no rate held before"
            return f"the client, not the server, was the limit at {probe.rate:.4g}/s ({probe.client_limited}); {known}"
        if self.ending == "upper_end":
            return f"the server held the upper end, {high:.4g}/s, with a good share of {share}: its highest rate is above that ({n})"
        if self.ending == "lower_end":
            return f"the lower end, {low:.4g}/s, did not hold with a good share of {share} ({n})"
        if self.held is None or self.failed is None:
            return f"all {n} used: {'no rate' if self.held is None else f'{self.held:.4g}/s'} held and no rate failed"
        doubtful = sorted({probe.rate for probe, verdict in self.probes if probe.rate in (self.held, self.failed) and not verdict.sure})
        unsure = f"; decided by the share alone, without confidence: {', '.join(f'{rate:.4g}/s' for rate in doubtful)}" if doubtful else ""
        wide = "" if self.known else f", wider than the tolerance of {self.search.tolerance:.2g}"
        return f"{self.held:.4g}/s held and {self.failed:.4g}/s did not ({n}{wide}{unsure})"

    def _judge(self, probes: list[Probe]) -> Verdict:
        target = self.search.goodput
        n, good = sum(p.n for p in probes), sum(p.good for p in probes)
        interval = wilson_interval(good, n)
        assert interval.ratio is not None and interval.low is not None and interval.high is not None
        verdict = (interval.ratio, interval.low, interval.high)
        if probes[-1].hopeless or interval.high < target:
            return Verdict(False, True, *verdict)
        if interval.low >= target:
            return Verdict(True, True, *verdict)
        # All requests of every probe good is the only proof of a share of 1 there is.
        provable = target < 1 and 2 * n >= min_successes_to_prove(target)
        last = len(self.probes) + 1 >= self.search.at_most
        if len(probes) == 1 and provable and not last:
            return Verdict(None, False, *verdict)
        return Verdict(interval.ratio >= target, False, *verdict)


def cannot_hold(bad: int, n: int, target: float) -> bool:
    """`bad` failed requests of n miss `target` even if all the others are good."""
    high = wilson_interval(n - bad, n).high
    return high is not None and high < target
