"""The one number that is asked first of a workload: as its declaration says, or what fits its task."""

from __future__ import annotations

from plumbline.declarations import AnyWorkload, TrainingWorkload
from plumbline.declarations.models import Encoder
from plumbline.declarations.primary import Primary

_TRAINING = {
    "language_model": "tokens_per_second_per_device",
    "lora": "tokens_per_second_per_device",
    "contrastive": "samples_per_second",
    "classification": "samples_per_second_per_device",
    "reinforcement": "samples_per_second",
}
"""By task: what is trained a second, in the unit that the task is told in; per device where the harness reports it so."""


def primary_of(workload: AnyWorkload) -> Primary:
    """What the workload declares; else of training what one device trains a second, of inference how much load it holds within its SLO.

    Without a search for that load, the wait for the first token (of an encoder: for the answer) at the load that is declared.
    """
    if workload.primary is not None:
        return workload.primary
    if isinstance(workload, TrainingWorkload):
        return Primary.model_validate(_TRAINING[workload.task.kind])
    if any(phase.name == "sweep" for phase in workload.phases):
        return Primary.model_validate("highest_sustained_rate")
    if isinstance(workload.model, Encoder):
        return Primary.model_validate("p95 request_scheduled_latency in steady")
    return Primary.model_validate("p95 time_to_first_token in steady")
