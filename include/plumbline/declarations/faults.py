"""What a training trial breaks on purpose, to measure what it costs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from plumbline.declarations.base import Declared

AtStep = Annotated[int, Field(ge=1, description="counted from 0, warm-up included")]
Times = Annotated[
    int, Field(ge=1, le=1000, description="on how many attempts in a row it happens; more than restarts: the trial must fail")
]


class RankKill(Declared):
    """A training process is killed (SIGKILL) in the middle of step `at_step` and resumed from the newest valid checkpoint.

    Of several ranks it is the last one of the first node; all of them start again, since no step can be done without it.
    """

    inject: Literal["rank_kill"]
    at_step: AtStep
    times: Times = 1


class GroupKill(Declared):
    """All training processes of the first node are killed at once in the middle of step `at_step`, as when a machine goes away."""

    inject: Literal["group_kill"]
    at_step: AtStep
    times: Times = 1


class RankHang(Declared):
    """A training process stops (SIGSTOP) in the middle of step `at_step`: nothing ends, nothing goes on.

    It is noticed when no step has ended for `notice` times the median step time, and a second at least; then all are killed.
    """

    inject: Literal["rank_hang"]
    at_step: AtStep
    notice: float = Field(20.0, ge=3, le=10_000)
    times: Times = 1


class CheckpointKill(Declared):
    """A training process is killed half way through writing the checkpoint that follows step `at_step`: the one before it is resumed from."""

    inject: Literal["checkpoint_kill"]
    at_step: AtStep
    times: Times = 1


class PodDelete(Declared):
    """The trial's pod is deleted in the middle of step `at_step`, without grace; a new one goes on from the newest valid checkpoint.

    Kubernetes only, on one node, with a volume that outlives the pod (the provider's `launcher.volume_claim`).
    """

    inject: Literal["pod_delete"]
    at_step: AtStep
    times: Times = 1


Fault = Annotated[RankKill | GroupKill | RankHang | CheckpointKill | PodDelete, Field(discriminator="inject")]
