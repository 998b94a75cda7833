"""A provider: one place to run trials, how to reach it, what it costs and what its contract promises."""

from __future__ import annotations

from datetime import date
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, model_validator

from plumbline.declarations.base import Declared, Name
from plumbline.declarations.budget import Budget
from plumbline.declarations.launchers import COLLECTIVE_LIMIT_S, EndpointLauncher, KubernetesLauncher, Launcher, LocalLauncher
from plumbline.declarations.price_sources import DeclaredSource
from plumbline.declarations.purchases import Purchase as Purchase
from plumbline.declarations.rates import DeclaredRate, Invoice, Overhead, check_invoices, check_rates
from plumbline.declarations.simulation import PriceChange, SimulatedLauncher
from plumbline.declarations.units import Duration, HourlyPrice, Share
from plumbline.declarations.watch import Watch


class Accelerator(Declared):
    """What computes. For a CPU provider `count` is the number of cores a trial may use."""

    kind: Literal["cpu", "nvidia", "amd"]
    product: str | None = Field(None, description="as the device reports itself, such as NVIDIA-H100-80GB-HBM3")
    count: int = Field(ge=1, le=1024)


class Price(Declared):
    """A declared price of the whole instance; `source` says who says so."""

    purchase: Purchase
    price: HourlyPrice
    since: date
    until: date | None = None
    source: str = Field(min_length=3, description="where the figure comes from, such as 'contract 2026-114' or a price page with its date")

    @model_validator(mode="after")
    def _dates(self) -> Price:
        if self.until is not None and self.until <= self.since:
            raise ValueError(f"until {self.until} is not after since {self.since}; expected a later date")
        return self


class ServiceLevel(Declared):
    """What the provider's contract promises; scorecards hold it against what was measured."""

    launch_success: Share | None = None
    provisioning_lead_time: Duration | None = None


class Provider(Declared):
    """One YAML file under `include/config/providers/`."""

    name: Name
    enabled: bool = True
    description: str = ""
    cloud: Name
    region: Name
    zone: Name | None = None
    instance_type: str = Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    accelerator: Accelerator
    launcher: Launcher
    prices: tuple[Price, ...] = ()
    sold_by: Literal["gpu", "instance"] = Field(
        "instance", description="gpu: a part of an instance can be rented; instance: all its accelerators are billed together"
    )
    price_sources: tuple[DeclaredSource, ...] = ()
    rates: tuple[DeclaredRate, ...] = ()
    overhead: tuple[Overhead, ...] = ()
    invoices: tuple[Invoice, ...] = ()
    sla: ServiceLevel = ServiceLevel()
    manual_steps: tuple[Annotated[str, Field(min_length=3)], ...] | None = Field(
        None, description="what a person must do before a trial can run there, a sentence each; [] says that nothing is"
    )
    workloads: tuple[Name, ...] | None = Field(
        None,
        min_length=1,
        description="what its monthly rerun measures, on demand only or not; every workload that fits and is not on demand only if left out",
    )
    watch: Watch = Watch()
    budget: Budget | None = None
    slots: tuple[Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")], ...] | None = Field(
        None, description='overrides the workloads\' slots for the monthly schedule (UTC), such as ["02:00"]'
    )

    @model_validator(mode="after")
    def _consistent(self) -> Provider:
        if (
            isinstance(self.launcher, LocalLauncher)
            and self.accelerator.kind == "cpu"
            and len(self.launcher.cpus) != self.accelerator.count
        ):
            raise ValueError(
                f"accelerator.count is {self.accelerator.count} but launcher.cpus lists {len(self.launcher.cpus)}; expected one core per count"
            )
        self._budget_counts()
        if (
            isinstance(self.launcher, KubernetesLauncher)
            and self.accelerator.kind == "amd"
            and self.launcher.gpu_resource.startswith("nvidia")
        ):
            raise ValueError(f"launcher.gpu_resource is {self.launcher.gpu_resource}, but accelerator.kind is amd; expected amd.com/gpu")
        if self.sold_by == "gpu" and (self.accelerator.kind == "cpu" or isinstance(self.launcher, EndpointLauncher)):
            raise ValueError(
                f"sold_by gpu, but {'accelerator.kind is cpu' if self.accelerator.kind == 'cpu' else 'the launcher is an endpoint'}: a trial "
                "takes all of it; expected sold_by: instance, or none"
            )
        if self.accelerator.kind == "cpu" and any(rate.item == "cpu" for rate in self.rates):
            raise ValueError(
                "rates of cpu, but accelerator.kind is cpu: the instance's own price is the CPU's; expected it in prices alone"
            )
        check_rates(self.rates)
        check_invoices(self.invoices)
        by_purchase: dict[str, list[Price]] = {}
        for price in self.prices:
            by_purchase.setdefault(price.purchase, []).append(price)
        for purchase, prices in by_purchase.items():
            ordered = sorted(prices, key=lambda p: p.since)
            for earlier, later in pairwise(ordered):
                if earlier.until is None or earlier.until > later.since:
                    raise ValueError(
                        f"two {purchase} prices hold on {later.since}; expected `until: {later.since}` or earlier on the first"
                    )
        return self

    def _budget_counts(self) -> None:
        if self.budget is None:
            return
        if self.budget.gpu_hours_per_month is not None and self.accelerator.kind == "cpu":
            raise ValueError("budget.gpu_hours_per_month, but accelerator.kind is cpu: it would never be reached; expected usd_per_month")
        if self.budget.usd_per_month is not None and not any(p.purchase == "on_demand" for p in self.price_list):
            raise ValueError("budget.usd_per_month, but no on_demand price is declared; expected one in prices, or gpu_hours_per_month")

    def of_trial(self) -> Provider:
        """The provider as its trials carry it: without when and how much it is used, who tells its price, what else is paid and
        what people do for it, which change nothing that is measured, and which a harness of an earlier version would refuse as unknown."""
        paid = {"sold_by": "instance", "price_sources": (), "rates": (), "overhead": (), "invoices": ()}
        return self.model_copy(update={"workloads": None, "watch": Watch(), "budget": None, "manual_steps": None, **paid})

    @property
    def pool(self) -> str:
        """The Airflow pool that keeps this provider's trials apart from each other."""
        if isinstance(self.launcher, KubernetesLauncher | SimulatedLauncher):
            return f"plumbline_{self.name}"
        return f"plumbline_{self.launcher.machine}"

    @property
    def collective_s(self) -> float:
        """How many seconds the collectives of a hardware probe may take there."""
        launcher = self.launcher
        return launcher.collective_timeout if isinstance(launcher, LocalLauncher | KubernetesLauncher) else COLLECTIVE_LIMIT_S

    @property
    def simulated(self) -> bool:
        """Whether there is no machine behind it: its results never mix with measured ones."""
        return isinstance(self.launcher, SimulatedLauncher)

    @property
    def price_list(self) -> tuple[Price, ...]:
        """Every price, what is to be believed first where two hold on a day: a simulated change, the latest first, then the declared ones."""
        if not isinstance(self.launcher, SimulatedLauncher):
            return self.prices
        changes = sorted((e for e in self.launcher.drift if isinstance(e, PriceChange)), key=lambda e: e.since, reverse=True)
        simulated = (
            Price.model_construct(purchase=e.purchase, price=e.price, since=e.since, until=e.until, source="simulated price change")
            for e in changes
        )
        return (*simulated, *self.prices)

    @property
    def dag_id(self) -> str:
        """The id of the provider's benchmark DAG."""
        return f"benchmark_{self.name.replace('-', '_')}"
