"""A search phase: probe Poisson rates until the highest rate that the server sustains within the SLO is known to the declared tolerance."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np

from plumbline.declarations.workloads.inference import Slo
from plumbline.declarations.workloads.load import SearchPhaseSpec
from plumbline.harness.inference.analysis import roofline, validity
from plumbline.harness.inference.analysis.metrics import metrics_of, stages_of, within_slo
from plumbline.harness.inference.load.prompts import Prompts, probe_prompts
from plumbline.harness.inference.load.schedule import probe_load
from plumbline.harness.inference.phases.load_phase import (
    Driver,
    length_telemetry,
    noted_lengths,
    prepare_cache,
    require_running,
    wait_until_settled,
)
from plumbline.harness.inference.phases.saturation import Planned, Probe, Saturation, cannot_hold, growth_of
from plumbline.harness.inference.phases.trial_record import CapacityLoad, TrialRecord
from plumbline.harness.inference.server.under_test import format_outcome
from plumbline.harness.measurement import EvidenceFile, TrialFailed, Watched, degraded
from plumbline.loadclient.prompt import Prompt
from plumbline.loadclient.request_log import RequestLog
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

    What limited the rate is judged when its server has ended (`capacity`); its row is absent where the search cannot determine it (a judgement
    has the reason). The other rows are those of the last run that confirmed that rate. Raises TrialFailed as other phases do, and "bad_declaration" if a probe cannot be computed."""
    record, state = driver.record, Saturation(spec.search)
    best: tuple[RequestLog, Sequence[Prompt]] | None = None
    seen: list[tuple[float, Watched]] = []
    began_s = record.done_s
    record.event("sweep_started")
    while (planned := state.next_probe()) is not None:
        number = len(state.probes)
        require_running(driver.served, f"before probe {number} of {spec.name}")
        prepare_cache(driver, spec.name, prompts)
        log, texts, watched, probe = _probe(driver, phase, spec, number, planned, prompts)
        seen.append((planned.rate, watched))
        verdict = state.learn(probe)
        record.done_s = began_s + state.spent_s
        if verdict.holds and (planned.confirming or state.held is None):
            best = log, texts
        elif verdict.holds is False:
            wait_until_settled(driver, spec.name, prompts.cold_start)
    record.event("sweep_ended")
    record.done_s = began_s + spec.search.budget_s
    if best is not None:
        log, texts = best
        record.result.metrics += noted_lengths(metrics_of(log, record.workload.slo, None), record.workload.requests)
        record.result.metrics += roofline.roofline_rows(record.workload, log, record.probed)
        record.result.telemetry += length_telemetry(log, record.workload.requests)
        record.result.stages += stages_of(log, None)
    if state.highest is not None and state.failed is not None and best is not None:
        around = [watched for rate, watched in seen if rate >= state.highest]
        record.capacity = CapacityLoad(state.highest, (state.highest, state.failed), len(state.probes), *best, around)
    else:
        record.result.metrics.append(metric_row("highest_sustained_rate", None, len(state.probes), phase=spec.name))
        code = "client_limited" if state.ending == "client_limited" else "search_open"
        record.result.judgements.append(degraded(code, f"no highest rate in {spec.name}: {state.summary()}"))
    record.result.evidence.append(_evidence(record, state))


def observe(planned: Planned, log: RequestLog, slo: Slo, stopped_s: float | None, client_limited: str | None) -> Probe:
    """The result of a probe by the log of its load. `stopped_s`: the second at which it was given up as hopeless; None: it was not."""
    met, ok = within_slo(log, slo), log.ok & (log.ended <= (math.inf if stopped_s is None else stopped_s))
    latency, scheduled = (log.last_token - log.scheduled)[ok], log.scheduled[ok]
    order = np.argsort(scheduled, kind="stable")
    lasted_s = planned.seconds if stopped_s is None else min(stopped_s, planned.seconds)
    growth = growth_of(scheduled[order], latency[order], lasted_s)
    probe = Probe(planned.rate, log.n, int(met.sum()), lasted_s, planned.confirming, client_limited=client_limited, growth=growth)
    if stopped_s is not None:
        # Those that were not sent any more, and those that were cut off for it, might still have been good.
        possible = probe.good + (log.load.n - log.n) + log.errors().get("cancelled", 0)
        return replace(probe, n=log.load.n, good=possible, hopeless=True)
    return replace(probe, residence_s=float(np.median(latency)) if len(latency) else 0.0)


def _probe(
    driver: Driver, phase: int, spec: SearchPhaseSpec, number: int, planned: Planned, prompts: Prompts
) -> tuple[RequestLog, Sequence[Prompt], Watched, Probe]:
    record, workload, target = driver.record, driver.record.workload, spec.search.goodput
    try:
        load = probe_load(workload, phase, number, planned.rate, planned.seconds)
        if prompts.own is not None:
            load, texts = prompts.own.probe(load, phase, number)
        else:
            texts = probe_prompts(workload, load, phase, number)
    except ValueError as error:
        raise TrialFailed("bad_declaration", str(error)) from error
    stopped_s: float | None = None

    def stop(log: RequestLog) -> bool:
        nonlocal stopped_s
        now_s = time.monotonic() - log.began
        if stopped_s is None and np.isfinite(now_s) and cannot_hold(count_missed(log, workload.slo, now_s), load.n, target):
            stopped_s = now_s
        return stopped_s is not None

    what = "confirming run" if planned.confirming else "probe"
    with record.watch.phase(spec.name) as watched:
        log = driver.drive(load, texts, stop=stop, note=f"{what} {number + 1} at {planned.rate:.4g}/s: ")
    record.logs.append(log)
    require_running(driver.served, format_outcome(log))
    limited = validity.client_limited(log, record.trial.validity)
    late = limited.reason.detail if limited is not None and limited.level == "invalid" else None
    return log, texts, watched, observe(planned, log, workload.slo, stopped_s, late)


def _evidence(record: TrialRecord, state: Saturation) -> EvidenceFile:
    """`search.json`: how the search ended, and its probes in their order; the requests of a probe are in requests.parquet, by its number."""
    content = {
        "ended": state.ending or "used_up",
        "told": state.summary(),
        "held": state.held,
        "failed": state.failed,
        "probes": [{"probe": i, **asdict(probe), **asdict(verdict)} for i, (probe, verdict) in enumerate(state.probes)],
    }
    return EvidenceFile.of_json("search", content, record.workdir)
