"""The faults that a training workload declares; `harness.faults` has the file of each that injects it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from plumbline.declarations.base import Declared

AtStep = Annotated[int, Field(ge=1, description="counted from 0, warm-up included")]
Times = Annotated[
    int, Field(ge=1, le=1000, description="number of consecutive attempts with the fault; more than restarts makes the trial fail")
]


BROKE_OFF = "training_broke_off"
"""The event of the timeline when training ended before it should, without a declared fault."""


class DeclaredFault(Declared):
    """Base of all declared faults: when they strike, and how often."""

    replaces_pod: ClassVar[bool] = False
    """The launcher ends the trial's pod and starts another."""
    event: ClassVar[str]
    """Of the timeline, when the fault struck."""


class RankKill(DeclaredFault):
    """A training process is killed (SIGKILL) in the middle of step `at_step` and resumed from the newest valid checkpoint.

    Of several ranks it is the last one of the first node; all of them start again, since no step can be done without it.
    """

    event: ClassVar[str] = "rank_killed"

    inject: Literal["rank_kill"]
    at_step: AtStep
    times: Times = 1


class GroupKill(DeclaredFault):
    """All training processes of the first node are killed in the middle of step `at_step`, like the loss of a machine."""

    event: ClassVar[str] = "group_killed"

    inject: Literal["group_kill"]
    at_step: AtStep
    times: Times = 1


class CheckpointKill(DeclaredFault):
    """A training process is killed half way through writing the checkpoint that follows step `at_step`: the one before it is resumed from."""

    event: ClassVar[str] = "rank_killed_in_checkpoint"

    inject: Literal["checkpoint_kill"]
    at_step: AtStep
    times: Times = 1


class PodDelete(DeclaredFault):
    """The trial's pod is deleted without grace in the middle of step `at_step`; a new one resumes from the newest valid checkpoint.

    Kubernetes only, on one node, with a volume that outlives the pod (the provider's `launcher.volume_claim`).
    """

    replaces_pod: ClassVar[bool] = True
    event: ClassVar[str] = "pod_deleted"

    inject: Literal["pod_delete"]
    at_step: AtStep
    times: Times = 1


Fault = Annotated[RankKill | GroupKill | CheckpointKill | PodDelete, Field(discriminator="inject")]
