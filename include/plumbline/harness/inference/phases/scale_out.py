"""Drive a scale-out phase as any load, and record its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from plumbline.declarations.workloads.load import ScaleOutPhaseSpec
from plumbline.harness.inference.analysis import validity
from plumbline.harness.inference.analysis.metrics import within_slo
from plumbline.harness.inference.analysis.scale_out import find_steps
from plumbline.harness.inference.phases.load_phase import Driver, measure_phase
from plumbline.harness.measurement import EvidenceFile, TrialJudgement, present
from plumbline.kinds.arithmetic.scale_out import ScaleOut
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.prompt import Prompt
from plumbline.results.launch_record import STEP_DOWN, STEP_UP


def measure_scale_out(driver: Driver, spec: ScaleOutPhaseSpec, load: PhaseLoad, prompts: Sequence[Prompt]) -> None:
    """Raises as `measure_phase` does."""
    record = driver.record
    measure_phase(driver, load, prompts)
    log = record.logs[-1]
    record.event(STEP_UP, log.began + spec.hold)
    record.event(STEP_DOWN, log.began + len(spec.rates) * spec.hold)
    found = ScaleOut(find_steps(log, within_slo(log, record.workload.slo), spec), spec)
    record.result.metrics += found.metrics
    record.result.curves += found.curves
    untimed = None if found.problem is None else TrialJudgement("degraded", found.problem)
    record.result.judgements += present(validity.client_limited(log, record.trial.validity), untimed)
    content = {"window": spec.window, "steps": [asdict(step) for step in found.steps]}
    record.result.evidence.append(EvidenceFile.of_json("scale_out", content, record.workdir))
