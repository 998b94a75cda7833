"""A search phase: probe after probe of Poisson load, each judged before the next rate is chosen, the server idle in between."""

from __future__ import annotations

import json
import time
from dataclasses import asdict

import numpy as np

from plumbline.declarations.inference import Slo
from plumbline.declarations.load import SearchPhaseSpec
from plumbline.harness.inference import judging
from plumbline.harness.inference.arrivals import probe_load
from plumbline.harness.inference.metrics import good, metrics_of
from plumbline.harness.inference.phases import Driver, require_running
from plumbline.harness.inference.prompts import Prompts, probe_prompts
from plumbline.harness.inference.record import Record
from plumbline.harness.inference.requestlog import RequestLog
from plumbline.harness.inference.saturation import Probe, Saturation, cannot_hold
from plumbline.harness.inference.serving import told
from plumbline.harness.inference.settling import prepare, settle
from plumbline.harness.inference.stages import stages_of
from plumbline.harness.measurement import EvidenceFile, Judgement, TrialFailed
from plumbline.results import Reason, row


def missed(log: RequestLog, slo: Slo, now_s: float) -> int:
    """Requests that are beyond saving at `now_s` seconds of the phase: failed, ended outside the SLO, or unanswered past one of its limits."""
    ended = np.isfinite(log.ended)
    lost = ended & ~good(log, slo)
    waited = now_s - log.scheduled
    if slo.time_to_first_token is not None:
        first = np.where(np.isnan(log.first_token), waited, log.first_token - log.scheduled)
        lost |= ~ended & (first > slo.time_to_first_token)
    if slo.request_scheduled_latency is not None:
        lost |= ~ended & (waited > slo.request_scheduled_latency)
    return int((lost & log.due).sum())


def measure_search(driver: Driver, phase: int, spec: SearchPhaseSpec, prompts: Prompts) -> None:
    """Search phase number `phase` of the workload.

    The row of the highest rate is absent where the search cannot say (the reason is a judgement); the other rows of the phase are those of the
    last probe of the highest rate that held. Raises TrialFailed as other phases do, and "bad_declaration" if a probe cannot be computed.
    """
    record, state = driver.record, Saturation(spec.search)
    best: RequestLog | None = None
    began_s = record.done_s
    record.event("sweep_started")
    while (rate := state.next_rate()) is not None:
        number = len(state.probes)
        require_running(driver.served, f"before probe {number} of {spec.name}")
        prepare(driver, spec.name, prompts)
        log, probe = _probe(driver, phase, spec, number, rate)
        verdict = state.learn(probe)
        record.done_s = began_s + (number + 1) * spec.search.probe
        if verdict.holds:
            best = log
        else:
            settle(driver, spec.name, prompts.cold_start)
    record.event("sweep_ended")
    record.done_s = began_s + spec.search.at_most * spec.search.probe
    bracket = (state.held, state.failed) if state.held is not None and state.failed is not None else None
    record.result.metrics.append(row("highest_sustained_rate", state.highest, len(state.probes), phase=spec.name, ci=bracket))
    if best is not None:
        record.result.metrics += metrics_of(best, record.workload.slo, None)
        record.result.stages += stages_of(best, None)
    if state.highest is None:
        code = "client_limited" if state.ending == "client_limited" else "search_open"
        record.result.judgements.append(Judgement("degraded", Reason(code=code, detail=f"no highest rate in {spec.name}: {state.told()}")))
    record.result.evidence.append(_evidence(record, state))


def _probe(driver: Driver, phase: int, spec: SearchPhaseSpec, number: int, rate: float) -> tuple[RequestLog, Probe]:
    record, workload, target = driver.record, driver.record.workload, spec.search.goodput
    try:
        load = probe_load(workload, phase, number, rate)
        asked = probe_prompts(workload, load, phase, number)
    except ValueError as error:
        raise TrialFailed("bad_declaration", str(error)) from error
    hopeless = False

    def stop(log: RequestLog) -> bool:
        nonlocal hopeless
        now_s = time.monotonic() - log.began
        hopeless = hopeless or (np.isfinite(now_s) and cannot_hold(missed(log, workload.slo, now_s), load.n, target))
        return hopeless

    with record.watch.phase(spec.name):
        log = driver.drive(load, asked, stop=stop, note=f"probe {number + 1} at {rate:.4g}/s: ")
    record.logs.append(log)
    require_running(driver.served, told(log))
    met = good(log, workload.slo)
    limited = judging.client_limited(log, record.trial.validity)
    late = limited.reason.detail if limited is not None and limited.level == "invalid" else None
    # Ended early: those that were not sent any more, and those that were cut off for it, might still have been good.
    possible = int(met.sum()) + (load.n - log.n) + log.errors().get("cancelled", 0) if hopeless else int(met.sum())
    return log, Probe(rate, load.n if hopeless else log.n, possible, hopeless, late)


def _evidence(record: Record, state: Saturation) -> EvidenceFile:
    """`search.json`: how the search ended, and its probes in their order; the requests of a probe are in requests.parquet, by its number."""
    path = record.workdir / "search.json"
    content = {
        "ended": state.ending or "used_up",
        "told": state.told(),
        "held": state.held,
        "failed": state.failed,
        "probes": [{"probe": i, **asdict(probe), **asdict(verdict)} for i, (probe, verdict) in enumerate(state.probes)],
    }
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return EvidenceFile("search", path)
