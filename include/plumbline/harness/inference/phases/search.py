"""A search phase: probe Poisson rates until the highest rate that the server sustains within the SLO is known to the declared tolerance."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import asdict

from plumbline.declarations import Trial
from plumbline.declarations.workloads.load import SearchPhaseSpec
from plumbline.harness.inference.analysis import roofline, validity
from plumbline.harness.inference.analysis.metrics import metrics_of, stages_of
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
from plumbline.harness.inference.phases.running_probe import RunningProbe
from plumbline.harness.inference.phases.saturation import Planned, RateProbe, Saturation
from plumbline.harness.inference.phases.trial_record import CapacityLoad, TrialRecord
from plumbline.harness.inference.server.under_test import format_outcome
from plumbline.harness.measurement import EvidenceFile, TrialFailed, TrialJudgement, Watched, degraded
from plumbline.loadclient.prompt import Prompt
from plumbline.loadclient.request_log import RequestLog
from plumbline.results import metric_row


def search_offset(trial: Trial) -> float:
    """Where a trial's search begins, 0 to 1 of the first step of its rates: another place for each repeat, so that repeats do not agree only
    because they meet the same rates. A replay begins where its trial began."""
    return int.from_bytes(hashlib.sha256((trial.replay_of or trial.trial_id).encode()).digest()[:6], "big") / 2**48


def measure_search(driver: Driver, phase: int, spec: SearchPhaseSpec, prompts: Prompts) -> None:
    """Search phase number `phase` of the workload.

    What limited the rate is judged when its server has ended (`capacity`); its row is absent where the search cannot determine it (a judgement
    has the reason). The other rows are those of the last run that confirmed that rate. Raises TrialFailed as other phases do, and "bad_declaration" if a probe cannot be computed."""
    record, state = driver.record, Saturation(spec.search, search_offset(driver.record.trial))
    best: tuple[RequestLog, Sequence[Prompt]] | None = None
    seen: list[tuple[float, Watched]] = []
    began_s = record.done_s
    record.event("sweep_started")
    while (planned := state.next_probe()) is not None:
        number = len(state.probes)
        require_running(driver.served, f"before probe {number} of {spec.name}")
        prepare_cache(driver, spec.name, prompts)
        log, texts, watched, probe = _probe(driver, phase, spec, state, planned, prompts)
        seen.append((planned.rate, watched))
        verdict = state.learn(probe)
        record.done_s = began_s + state.spent_s
        if verdict.holds and state.held in (None, planned.rate):
            best = log, texts
        elif verdict.holds is False:
            wait_until_settled(driver, spec.name, prompts.cold_start)
    record.event("sweep_ended")
    record.done_s = began_s + spec.search.budget_s
    if best is not None and (state.held is not None or state.ending == "upper_end"):
        log, texts = best
        record.result.metrics += noted_lengths(metrics_of(log, record.workload.slo, None), record.workload.requests)
        record.result.metrics += roofline.roofline_rows(record.workload, log, record.probed)
        record.result.telemetry += length_telemetry(log, record.workload.requests)
        record.result.stages += stages_of(log, None)
    if state.highest is not None and state.held is not None and best is not None:
        around = [watched for rate, watched in seen if rate >= state.held]
        record.capacity = CapacityLoad(state.highest, state.bracket, len(state.probes), *best, around)
    else:
        record.result.metrics.append(metric_row("highest_sustained_rate", None, len(state.probes), phase=spec.name))
    if (judgement := search_judgement(state, spec.name)) is not None:
        record.result.judgements.append(judgement)
    record.result.evidence.append(_evidence(record, state))


def search_judgement(state: Saturation, phase: str) -> TrialJudgement | None:
    """Why the trial's highest rate is missing or less certain than declared; None: it is known within the tolerance and with confidence."""
    if state.highest is None:
        code = "client_limited" if state.ending == "client_limited" else "search_open"
        return degraded(code, f"no highest rate in {phase}: {state.summary()}")
    return None if state.certain else degraded("rate_uncertain", f"the highest rate in {phase} is uncertain: {state.summary()}")


def _probe(
    driver: Driver, phase: int, spec: SearchPhaseSpec, state: Saturation, planned: Planned, prompts: Prompts
) -> tuple[RequestLog, Sequence[Prompt], Watched, RateProbe]:
    record, workload, number = driver.record, driver.record.workload, len(state.probes)
    try:
        load = probe_load(workload, phase, number, planned.rate, planned.seconds)
        if prompts.own is not None:
            load, texts = prompts.own.probe(load, phase, number)
        else:
            texts = probe_prompts(workload, load, phase, number)
    except ValueError as error:
        raise TrialFailed("bad_declaration", str(error)) from error
    running = RunningProbe(state, planned, workload.slo)
    what = "confirming run" if planned.confirming else "probe"
    with record.watch.phase(spec.name) as watched:
        log = driver.drive(
            load,
            texts,
            stop=lambda log: running.ends(log, time.monotonic() - log.began),
            note=f"{what} {number + 1} at {planned.rate:.4g}/s: ",
        )
    record.logs.append(log)
    require_running(driver.served, format_outcome(log))
    limited = validity.client_limited(log, record.trial.validity)
    late = limited.reason.detail if limited is not None and limited.level == "invalid" else None
    return log, texts, watched, running.result(log, late)


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
