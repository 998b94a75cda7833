"""What a step of training waits for: one word, from what the trial saw of its steady state.

data            at least 30 % of the steps' time went by until the batch was at hand
communication   at least 30 % of it went by in waiting for other ranks
accelerator     it was busy 70 % of the time, and its arithmetic or its power was at least 30 % of what the probe reached
cores           of a CPU: at least 70 % of the trial's cores were busy with it
host            the device idled, and neither data nor other ranks were waited for: it waited for the program that drives it
not shown       the device idled, or was not seen, and what was waited for was not measured"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from plumbline.judgement import judges
from plumbline.results import MetricRow, Stage, Telemetry
from plumbline.results.limit import AT_WORK, BUSY, Limit, LimitName

WAITED = 0.3


@dataclass(frozen=True)
class StepEvidence:
    """Of steady state, as shares of 1; None: not measured. `data`, `communication`: of the steps' time, waited for the batch and for other ranks.
    `busy`: of the time, of accelerators or of the trial's cores. `arithmetic`, `power`: over what the probes reached."""

    accelerated: bool
    data: float | None = None
    communication: float | None = None
    busy: float | None = None
    arithmetic: float | None = None
    power: float | None = None


def step_evidence(
    *, accelerated: bool, metrics: Iterable[MetricRow], stages: Sequence[Stage], telemetry: Iterable[Telemetry], probed_power: float | None
) -> StepEvidence:
    """From a trial's rows. `telemetry`: of the monitor; `probed_power`: the most that one accelerator drew in the probes, W."""
    spent = {stage.stage: stage.total_s for stage in stages if stage.phase == "steady" and stage.stage != "checkpoint"}
    seen: dict[str, list[float]] = {}
    for row in telemetry:
        if row.phase == "steady":
            signal = row.signal.split("_", 1)[1] if row.signal.startswith("gpu") and row.signal[3:4].isdigit() else row.signal
            seen.setdefault(signal, []).append(row.mean)
    means = {name: sum(values) / len(values) for name, values in seen.items()}
    drawn = means.get("power")
    utilization = next((row.value for row in metrics if (row.phase, row.metric) == ("steady", "model_flops_utilization")), None)
    return StepEvidence(
        accelerated,
        _share(spent, "data_wait"),
        _share(spent, "gradient_sync"),
        means.get("utilization" if accelerated else "own_cpu"),
        utilization,
        drawn / probed_power if drawn is not None and probed_power else None,
    )


def _share(spent: Mapping[str, float], stage: str) -> float | None:
    # A script that reports only its waiting has no whole to take the share of.
    whole = sum(spent.values())
    return spent[stage] / whole if stage in spent and len(spent) > 1 and whole > 0 else None


@judges("step of training")
def judge_step(evidence: StepEvidence) -> Limit:
    """What limited the step."""
    seen = _seen(evidence)
    waits: dict[LimitName, float] = {"data": evidence.data or 0.0, "communication": evidence.communication or 0.0}
    worst = max(waits, key=lambda name: waits[name])
    if waits[worst] >= WAITED:
        return _waiting(worst, seen, _DECIDES[worst])
    if evidence.busy is None:
        return _waiting("not_shown", seen, "a driver that reports use" if evidence.accelerated else "a machine whose /proc can be read")
    known = [share for share in (evidence.arithmetic, evidence.power) if share is not None]
    if evidence.busy >= BUSY and not evidence.accelerated:
        return Limit.shown("steady", "cores", seen)
    if evidence.busy >= BUSY and max(known, default=0.0) >= AT_WORK:
        return Limit.shown("steady", "accelerator", seen)
    if evidence.busy >= BUSY and not known:
        return _waiting("not_shown", seen, "its power, or a model whose operations are known")
    if evidence.data is None:
        return _waiting("not_shown", seen, "the stages of a step, such as data_wait, in the script's reports")
    return _waiting("host", seen, _DECIDES["host"])


_DECIDES: dict[LimitName, str] = {
    "data": "more loader processes, or data nearer to the accelerator",
    "communication": "a larger batch for each rank, or ranks on one node",
    "host": "larger batches, a compiled model or fewer small operations",
}


def _waiting(limit: LimitName, seen: str, decides: str) -> Limit:
    return Limit(phase="steady", limit=limit, seen=seen, missing="the step is not shown to be what the hardware computes", decides=decides)


def _seen(evidence: StepEvidence) -> str:
    device = "the accelerators were busy" if evidence.accelerated else "the trial's cores were busy with it"
    words = [
        (evidence.busy, f"{device} {{:.0%}} of the time"),
        (evidence.data, "steps waited {:.0%} of their time for data"),
        (evidence.communication, "and {:.0%} for other ranks"),
        (evidence.arithmetic, "arithmetic was {:.1%} of the probe's"),
        (evidence.power, "power was {:.0%} of the most that the probes drew"),
    ]
    return "; ".join(text.format(share) for share, text in words if share is not None) or "nothing was seen of what the step waited for"
