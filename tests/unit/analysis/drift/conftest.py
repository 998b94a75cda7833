"""Builders of samples: a series measured by seeded noise, and the rules it is judged by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from plumbline.declarations import DriftRules
from plumbline.declarations.workloads.workload import DriftLimits
from plumbline.metrics import METRICS, Metric
from plumbline.results.sample import CampaignSample, RepeatValue, TrialOutcome

KEY = "training/gpt@1/h1/torch/local-2core/here/host-2core"


@pytest.fixture
def key() -> str:
    return KEY


@pytest.fixture
def rules() -> DriftRules:
    return DriftRules.model_validate({"confidence": "95%", "false_discovery_rate": "5%", "bootstrap_trials": 2})


@pytest.fixture
def limits() -> Callable[[Metric], DriftLimits | None]:
    """The catalogue's own thresholds."""

    def of(known: Metric) -> DriftLimits | None:
        return None if known.warn is None or known.page is None else DriftLimits.model_construct(warn=known.warn, page=known.page)

    return of


def observation(
    metric: str, value: float, slot: str = "02:00", repeat: int = 1, phase: str = "steady", statistic: str | None = None
) -> RepeatValue:
    known = METRICS[metric]
    return RepeatValue(metric, statistic or known.statistic, phase, known.unit, known.direction, slot, repeat, value)


@pytest.fixture
def sample() -> Callable[..., CampaignSample]:
    """sample(campaign, {metric or (metric, statistic, phase): values or slot → values}, **fields)."""

    def build(
        campaign: str,
        metrics: Mapping[Any, Sequence[float] | Mapping[str, Sequence[float]]],
        key: str = KEY,
        simulated: bool = False,
        **fields: Any,
    ) -> CampaignSample:
        found = []
        for name, given in metrics.items():
            metric, statistic, phase = name if isinstance(name, tuple) else (name, None, "steady")
            by_slot = given if isinstance(given, Mapping) else {"02:00": given}
            for slot, values in by_slot.items():
                found += [observation(metric, value, slot, i, phase, statistic) for i, value in enumerate(values, 1)]
        return CampaignSample(key, campaign, simulated, tuple(found), **fields)

    return build


@pytest.fixture
def noisy(sample: Callable[..., CampaignSample]) -> Callable[..., CampaignSample]:
    """noisy(rng, campaign, n, cv, {metric: true level}, slots=…, tau=…): lognormal repeats; `tau` is campaign-to-campaign scatter."""

    def build(
        rng: np.random.Generator,
        campaign: str,
        n: int,
        cv: float,
        levels: Mapping[str, float],
        slots: Sequence[str] = ("02:00",),
        tau: float = 0.0,
        **fields: Any,
    ) -> CampaignSample:
        shifts = {metric: rng.normal(0, tau) for metric in levels}
        return sample(
            campaign,
            {m: {s: list(level * np.exp(rng.normal(shifts[m], cv, n))) for s in slots} for m, level in levels.items()},
            **fields,
        )

    return build


@pytest.fixture
def outcomes() -> Callable[..., tuple[TrialOutcome, ...]]:
    """outcomes("valid", "failed:timeout", "degraded!gpu_xid", …): one attempt per repeat; behind `!` the codes of its reasons."""

    def build(*words: str) -> tuple[TrialOutcome, ...]:
        found = []
        for i, word in enumerate(words, 1):
            ending, _, reasons = word.partition("!")
            status, _, failure = ending.partition(":")
            codes = tuple(filter(None, reasons.split("!")))
            found.append(TrialOutcome(f"c.p.training.gpt.0200.r{i}", "02:00", i, 1, status, failure or None, codes))  # type: ignore[arg-type]
        return tuple(found)

    return build
