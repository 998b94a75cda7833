"""Simulated campaigns with a known right decision: providers with given differences and scatter."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import Preference
from plumbline.metrics.rows import metric_row

WEIGHTS = {"time_to_first_token": 0.5, "output_token_throughput": 0.2, "cost_per_1k_requests": 0.3}
SLOTS = ("02:00", "10:00", "18:00")
GATE_S = 0.2
"""The gate, in worlds that have one; providers' latencies lie around it."""

PROVIDERS = (2, 3, 5)
REPEATS = (3, 6, 9)
SLOT_NOISE = {"none": 0.0, "moderate": 0.5, "large": 1.5, "huge": 6.0}
"""Standard deviation of slot effects, in units of the repeats'."""
USUAL_SLOT_NOISE = ("none", "moderate", "large")
NOISE = (0.01, 0.03, 0.1)
USUAL_GAPS = {"median": 0.1, "factor": 2.2}
"""Standard deviation of providers' logarithms: log-normal, 95 % between 2 % and 50 %."""


@dataclass(frozen=True)
class World:
    """Parameters of one campaign. `gaps`: a fixed standard deviation of the providers' logarithms; None: drawn from `USUAL_GAPS`."""

    providers: int
    repeats: int
    slots: int
    slot_noise: str
    noise: float
    unequal: bool
    gate: bool
    gaps: float | None = None


def any_world(rng: np.random.Generator) -> World:
    """A random world, each factor drawn independently."""
    return World(
        providers=int(rng.choice(PROVIDERS)),
        repeats=int(rng.choice(REPEATS)),
        slots=int(rng.choice((1, 3))),
        slot_noise=str(rng.choice(USUAL_SLOT_NOISE)),
        noise=float(rng.choice(NOISE)),
        unequal=bool(rng.integers(2)),
        gate=bool(rng.random() < 0.25),
    )


def preference(world: World) -> Preference:
    """The weights of every simulated team, and its gate."""
    gates = (f"time_to_first_token <= {1000 * GATE_S:g}ms in steady",) if world.gate else ()
    return Preference.model_validate({"workloads": ("chat",), "weights": WEIGHTS, "gates": gates})


@dataclass(frozen=True)
class Truth:
    """The truth: each provider's log score to a common reference, and whether it passes the gate."""

    scores: dict[str, float]
    keeps: dict[str, bool]

    def first(self, among: list[str]) -> str | None:
        """The best of these; None if none passes the gate."""
        able = [name for name in among if self.keeps[name]]
        return max(able, key=lambda name: self.scores[name]) if able else None


def campaign(world: World, rng: np.random.Generator) -> tuple[Truth, list[TrialSample]]:
    """Draw a truth and the trials that a campaign in this world would measure."""
    gaps = world.gaps if world.gaps is not None else USUAL_GAPS["median"] * USUAL_GAPS["factor"] ** rng.standard_normal()
    scores, keeps, trials = {}, {}, []
    for i in range(world.providers):
        name = f"p{i}"
        # Half of a provider's difference is common to its metrics, half is the metric's own.
        common, own = rng.standard_normal(), rng.standard_normal(3)
        latency, rate, price = gaps * np.sqrt(0.5) * (np.array([-1.0, 1.0, 1.0]) * common + own)
        sigma = world.noise * (np.exp(0.5 * rng.standard_normal()) if world.unequal else 1.0)
        scores[name] = WEIGHTS["time_to_first_token"] * -latency + WEIGHTS["output_token_throughput"] * rate
        scores[name] += WEIGHTS["cost_per_1k_requests"] * (rate - price)
        keeps[name] = not world.gate or GATE_S * np.exp(latency) <= GATE_S
        by_slot = rng.standard_normal((world.slots, 2))
        for repeat in range(world.repeats):
            slot = repeat % world.slots
            noise = sigma * (SLOT_NOISE[world.slot_noise] * by_slot[slot] + rng.standard_normal(2))
            # A slow trial is slow in all metrics: noise of rate and latency correlates.
            noise = np.array([noise[0], -0.7 * noise[0] + np.sqrt(1 - 0.7**2) * noise[1]])
            numbers = {
                "time_to_first_token": GATE_S * np.exp(latency + noise[0]),
                "output_token_throughput": 500 * np.exp(rate + noise[1]),
                "cost_per_1k_requests": 2 * np.exp(price - rate - noise[1]),
            }
            trials.append(_trial(name, SLOTS[slot], repeat + 1, numbers))
    return Truth(scores, keeps), trials


def _trial(provider: str, slot: str, repeat: int, numbers: dict[str, float]) -> TrialSample:
    rows = tuple(metric_row(name, float(value), 90) for name, value in numbers.items())
    return TrialSample(f"{provider}.r{repeat}", provider, "inference", "chat", 1, "valid", slot, repeat, None, rows)


def factors(world: World) -> dict[str, str]:
    values = dataclasses.asdict(world)
    del values["gaps"]
    return {name.replace("_", " "): str(value) for name, value in values.items()}
