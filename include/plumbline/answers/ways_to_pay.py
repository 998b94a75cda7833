"""Every way to pay for each served workload that was measured: owned, rented, reserved, serverless or hosted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from plumbline.analysis.cost.forecast import ForecastInputs
from plumbline.analysis.cost.payment_options import PaymentOptions, payment_options
from plumbline.answers.current_results import current_results
from plumbline.archive import Archive
from plumbline.declarations import Declarations


@dataclass(frozen=True)
class WaysCase:
    """A provider and a workload by its newest usable campaign. `inputs`: what is declared and measured of them; `ways`: the comparison, or why
    there is none."""

    inputs: ForecastInputs
    campaign: str
    simulated: bool
    ways: PaymentOptions | str

    @property
    def provider(self) -> str:
        return self.inputs.provider.name

    @property
    def workload(self) -> str:
        return self.inputs.workload.name


def ways_to_pay(archive: Archive, declared: Declarations, on: date) -> tuple[WaysCase, ...]:
    """By workload and provider; of training there is no comparison, whose runs do not last a month."""
    now = current_results(archive, declared, on)
    cases = []
    for provider, workload in sorted(now.campaigns, key=lambda place: place[::-1]):
        if provider in now.providers and workload in now.workloads and now.workloads[workload].kind == "inference":
            trials = [trial for trial in now.trials if trial.workload == workload]
            inputs = ForecastInputs(now.providers[provider], now.workloads[workload], trials, declared.economics, on)
            ways = payment_options(inputs, now.providers.values())
            cases.append(WaysCase(inputs, now.campaigns[provider, workload], provider in now.simulated, ways))
    return tuple(cases)
