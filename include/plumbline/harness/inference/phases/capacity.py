"""A highest rate, once its servers have ended: what limited it, and whether it is one of the hardware. A closed loop has one as a search has."""

from __future__ import annotations

from pathlib import Path

from plumbline.harness.inference.analysis import roofline, validity
from plumbline.harness.inference.analysis.capacity_limit import CapacityEvidence, judge_capacity
from plumbline.harness.inference.phases.path_limit import measure_path
from plumbline.harness.inference.phases.trial_record import CapacityLoad, TrialRecord
from plumbline.harness.inference.server.assembly import ServerPlace
from plumbline.harness.measurement import degraded
from plumbline.results import metric_row


def conclude_on_own_server(record: TrialRecord, place: ServerPlace, client_cpus: tuple[int, ...] | None, checkpoint: Path | None) -> None:
    """Measure the path without the model as the highest rate used it, and conclude. Nothing where no search held a rate."""
    if (at := record.capacity) is None:
        return  # nothing was searched, or no rate held
    path_rate, missing = measure_path(record, place, client_cpus, at.log, at.prompts, at.in_flight, checkpoint)
    slots = record.workload.server.sequences * len(place.variables)
    _conclude(record, at, _evidence(record, at, slots, path_rate, missing, apart=client_cpus is not None))


def conclude_on_endpoint(record: TrialRecord, *, hidden: bool, apart: bool) -> None:
    """As above, of a server that the trial did not start. `hidden`: it is on another machine, which the trial does not watch; `apart`: it and the client
    share no core."""
    if (at := record.capacity) is None:
        return
    missing = "the server is not the trial's own"
    _conclude(record, at, _evidence(record, at, record.workload.server.sequences, None, missing, apart=apart, hidden=hidden))


def _evidence(
    record: TrialRecord, at: CapacityLoad, slots: int, path_rate: float | None, missing: str, *, apart: bool, hidden: bool = False
) -> CapacityEvidence:
    workload, gpus = record.workload, record.watch.gpus
    probed = {row.metric: row.value for row in record.probed if row.value}
    rows = {row.metric: row.value for row in record.result.metrics if row.phase == at.log.load.name}
    limited = validity.client_limited(at.log, record.trial.validity)

    def highest(values: list[float | None]) -> float | None:
        return max((value for value in values if value is not None), default=None)

    drawn, most = highest([each.gpus.get("power") for each in at.watched]), gpus.peak("environment", "power")
    cpu_s = sum(at.log.cpu_s)
    return CapacityEvidence(
        rate=at.rate,
        phase=at.log.load.name,
        # A server that the trial did not start is where the client is, or it is hidden.
        accelerated=gpus.gpus > 0 if workload.server.backend == "external" else workload.needs.accelerator != "cpu",
        in_flight=at.in_flight,
        slots=slots,
        own=highest([each.own for each in at.watched]),
        foreign=highest([each.foreign for each in at.watched]),
        foreign_from=record.trial.validity.foreign_cpu_degraded,
        client=cpu_s / at.log.elapsed_s / record.watch.cores if at.log.cpu_s and at.log.elapsed_s > 0 else None,
        # On the server's cores a client is late as soon as they are full: only what makes a phase invalid was the client's own limit.
        client_limited=limited.reason.detail if limited is not None and (apart or limited.level == "invalid") else "",
        path_rate=path_rate,
        path_missing=missing,
        bandwidth=rows.get("model_bandwidth_utilization"),
        arithmetic=roofline.arithmetic_share(workload, at.log, at.rate, probed.get("matmul_tflops")),
        utilization=highest([each.gpus.get("utilization") for each in at.watched]),
        power=drawn / most if drawn is not None and most else None,
        hidden=hidden,
    )


def _conclude(record: TrialRecord, at: CapacityLoad, evidence: CapacityEvidence) -> None:
    """`highest_sustained_rate` is what the hardware serves; another one is `highest_rate_reached`, which nothing is ranked or priced by."""
    limit, phase = judge_capacity(evidence), at.log.load.name
    record.result.limits.append(limit)
    shown = limit.judgement.verdict == "met"
    if at.bracket is not None and shown:
        record.result.metrics.append(metric_row("highest_sustained_rate", at.rate, at.probes, phase=phase, ci=at.bracket))
    if shown:
        return
    reason = f"limited by {limit.word}" if limit.limit != "not_shown" else "what limited it is not shown"
    if at.bracket is not None:
        record.result.metrics += [
            metric_row("highest_sustained_rate", None, at.probes, phase=phase, reason=f"{at.rate:.4g}/s was reached; {reason}"),
            metric_row("highest_rate_reached", at.rate, at.probes, phase=phase, ci=at.bracket),
        ]
    record.result.judgements.append(degraded("capacity_not_shown", f"{reason}: {limit.judgement.text}"))
