"""`thresholds.yaml`: limits of validity and of drift, and when an end of reserved hours is near."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from plumbline.declarations.base import Declared
from plumbline.declarations.workloads.workload import DriftLimits, LimitsByMetric, Workload
from plumbline.metrics import Metric
from plumbline.metrics.units import Duration, Percent, Share


class ClientLimits(Declared):
    """Limits from which on the load client was a limit itself.

    No default may be added here: `criteria_hash` leaves defaults out, and no recorded trial would match its own any more."""

    dispatch_delay_degraded: Duration = Field(description="p99 of request_dispatch_delay")
    dispatch_delay_invalid: Duration
    achieved_rate_degraded: Share = Field(
        description="requests dispatched over requests scheduled; less means that the client was the limit"
    )
    achieved_rate_invalid: Share
    client_cpu_degraded: Share = Field(0.9, description="CPU time over wall time of the load client's busiest process")


class ValidityLimits(ClientLimits):
    """Limits from which on a trial is `degraded` or `invalid`, before any score."""

    step_time_cv_degraded: Percent = Field(description="coefficient of variation of steady step times")
    step_time_cv_invalid: Percent
    cpu_pressure_degraded: Percent = Field(description="share of the measured time in which some task waited for a core (PSI some)")
    cpu_pressure_invalid: Percent
    foreign_cpu_degraded: Percent = Field(description="share of the trial's cores that other processes used while it measured")
    foreign_cpu_invalid: Percent
    steady_steps_degraded: Share = Field(0.5, description="steady steps over steps.measure; less means that the steady state came too late")
    steady_steps_invalid: Share = 0.1

    @model_validator(mode="after")
    def _ordered(self) -> ValidityLimits:
        for signal in ("step_time_cv", "cpu_pressure", "foreign_cpu", "dispatch_delay", "achieved_rate", "steady_steps"):
            degraded, invalid = getattr(self, f"{signal}_degraded"), getattr(self, f"{signal}_invalid")
            side, wanted = ("above", "below") if signal in ("achieved_rate", "steady_steps") else ("below", "above")
            if (invalid > degraded) if side == "above" else (invalid < degraded):
                raise ValueError(
                    f"{signal}_invalid {invalid:g} is {side} {signal}_degraded {degraded:g}; expected invalid at or {wanted} degraded"
                )
        return self


Facts = tuple[Annotated[str, Field(pattern=r"^[a-z0-9_.*-]+$", examples=["gpu.*.product"])], ...]
"""Names of environment facts; `*` matches any characters."""


class EnvironmentRules(Declared):
    """Which environment changes are findings, where that differs from the project's defaults."""

    matters: Facts = Field((), description="a change of these is a finding, even without a change of performance")
    ignored: Facts = Field((), description="a change of these is only listed")

    @model_validator(mode="after")
    def _check_disjoint(self) -> EnvironmentRules:
        both = sorted({*self.matters} & {*self.ignored})
        if both:
            raise ValueError(f"{', '.join(both)} is in matters and ignored; expected it in one of them")
        return self

    def says(self, fact: str) -> bool | None:
        """Whether a change of the fact matters, by the first matching pattern; None without one."""
        for patterns, answer in ((self.matters, True), (self.ignored, False)):
            if any(fnmatchcase(fact, pattern) for pattern in patterns):
                return answer
        return None


class DriftRules(Declared):
    """How a campaign is compared with its baseline."""

    confidence: Share = Field(
        description="of intervals, such as 95%; 1 minus it is the level of the exact test of one metric by its repeats"
    )
    false_discovery_rate: Share = Field(description="Benjamini–Hochberg level over one campaign's metrics")
    bootstrap_trials: int = Field(ge=1, description="valid trials of a series that a campaign needs for its first baseline")
    bootstrap_campaigns: int = Field(
        3, ge=1, le=12, description="number of first complete campaigns of a series that make its first baseline unless they drifted"
    )
    answer_within: Duration = Field(
        7 * 86400.0, ge=1, description="how long a question about a finding waits for an answer; then the old baseline is kept"
    )
    metrics: LimitsByMetric = Field(default_factory=dict)
    environment: EnvironmentRules = EnvironmentRules()

    @field_validator("confidence", "false_discovery_rate")
    @classmethod
    def _not_certain(cls, value: float) -> float:
        if value >= 1:
            raise ValueError("100% leaves nothing to decide; expected a percentage below 100%, such as 95%")
        return value


class CommitmentRules(Declared):
    """When reserved hours of contracts are findings."""

    expires_within: Duration = Field(30 * 86400.0, description="time to their end from which on a finding is open, unless they are renewed")


class Thresholds(Declared):
    """The file `thresholds.yaml`."""

    validity: ValidityLimits
    drift: DriftRules
    commitments: CommitmentRules = CommitmentRules()

    def drift_limits(self, workload: Workload | None, known: Metric) -> DriftLimits | None:
        """The thresholds of one metric from the workload, else this file, else the catalogue; None if it never alarms alone.

        `workload` is None of an imported result, which has no declaration of ours.
        """
        if workload is not None and known.name in workload.drift:
            return workload.drift[known.name]
        if known.name in self.drift.metrics:
            return self.drift.metrics[known.name]
        return None if known.warn is None or known.page is None else DriftLimits.model_construct(warn=known.warn, page=known.page)
