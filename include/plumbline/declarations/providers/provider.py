"""A provider: where trials run, how to reach it, what it costs, and what its contract promises."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, get_args

from pydantic import Field, model_validator

from plumbline.declarations.base import Declared, DeclaredPattern, Name, Residency, extensible
from plumbline.declarations.dag_ids import BENCHMARK, dag_id
from plumbline.declarations.devices import part_of_card
from plumbline.declarations.limits import AMONG, AT_MOST, RARELY, UNLESS
from plumbline.declarations.providers.dated import Dated, check_one_at_a_time
from plumbline.declarations.providers.launcher_base import LauncherBase, WatchKind
from plumbline.declarations.providers.launchers import Launcher
from plumbline.declarations.providers.price_kinds import Ownership, ServerlessRate, SupportPlan
from plumbline.declarations.providers.rates import DeclaredRate, Invoice, ListedPurchase, Overhead, Purchase, check_invoices
from plumbline.declarations.providers.service_level import ServiceLevel
from plumbline.declarations.providers.token_rate import TokenRate
from plumbline.declarations.urls import DeclaredUrl
from plumbline.declarations.workloads.engines import EngineArgs, check_engine_args
from plumbline.declarations.workloads.script import DataAddress
from plumbline.metrics.units import ByteSize, Duration, HourlyPrice, Pause

if TYPE_CHECKING:
    from plumbline.declarations.providers.contract import Contract


class PriceSourceBase(Declared):
    """Base of all price sources. A package adds one: a subclass, registered under its kind in the group `plumbline.price_sources`."""

    implementation: ClassVar[str] = ""
    """`module:class` of the `PriceSource`, imported when a price is read."""

    def made_with(self, contracts: Mapping[str, Contract], config: Path) -> tuple[Any, ...]:
        """Arguments of the `PriceSource`: the declaration. `config`: the folder of declarations."""
        return (self,)


class GpuhuntSource(PriceSourceBase):
    """List and spot prices of public clouds, from the gpuhunt catalog."""

    implementation = "plumbline.price_sources.gpuhunt:GpuhuntPrices"
    kind: Literal["gpuhunt"]
    cloud: Name | None = Field(None, description="the cloud as gpuhunt names it, such as oci; the provider's cloud if omitted")
    location: str | None = Field(None, min_length=1, description="region or zone as gpuhunt names it; the provider's if omitted")
    instance_type: str | None = Field(None, min_length=1, description="as gpuhunt names it; the provider's if omitted")
    catalog: str | None = Field(None, min_length=1, description="a fixed catalog version; the newest if omitted")


class ContractSource(PriceSourceBase):
    """Negotiated prices, from a file under `include/config/contracts/`."""

    implementation = "plumbline.price_sources.declared:ContractPrices"
    kind: Literal["contract"]
    contract: Name

    def made_with(self, contracts: Mapping[str, Contract], config: Path) -> tuple[Any, ...]:
        """See PriceSourceBase: the contract."""
        return (contracts[self.contract],)


class CsvSource(PriceSourceBase):
    """A price history in a file: date, provider, region, instance_type, gpu, gpus, purchase, usd_per_gpu_hour."""

    implementation = "plumbline.price_sources.csv_history:CsvPrices"
    kind: Literal["csv"]
    file: str = Field(min_length=1, description="path, absolute or below the folder of declarations")
    max_age: Duration | None = Field(None, description="limit of the newest row's age; unlimited if omitted, as for a history of changes")

    def made_with(self, contracts: Mapping[str, Contract], config: Path) -> tuple[Any, ...]:
        """See PriceSourceBase: the file, and the limit of its age."""
        return config / self.file, self.max_age


class OpencostSource(PriceSourceBase):
    """The cost of our pods in USD, from OpenCost's allocation API."""

    implementation = "plumbline.price_sources.opencost:OpencostPrices"
    kind: Literal["opencost"]
    url: DeclaredUrl = Field(
        pattern=r"^https?://[^\s?#@]+$", description="OpenCost's address, such as http://opencost.opencost:9003, without a password"
    )
    namespace: Name = "plumbline"
    window: Duration = Field(7 * 86400.0, description="the past time whose pods are summed")
    purchase: ListedPurchase = Field("on_demand", description="purchase of these pods' nodes")

    @model_validator(mode="after")
    def _whole_hours(self) -> OpencostSource:
        if self.window < 3600:
            raise ValueError(f"window {self.window / 60:.3g}min is too short; expected at least 1h")
        return self


_OwnSource = Annotated[GpuhuntSource | ContractSource | CsvSource | OpencostSource, Field(discriminator="kind")]
_EXTENSIBLE = extensible(_OwnSource, PriceSourceBase, "plumbline.price_sources")
DeclaredSource = Annotated[_OwnSource, _EXTENSIBLE.validator, _EXTENSIBLE.serializer]


class Budget(Declared):
    """A hard limit of a calendar month (UTC): no trial is planned that would exceed it."""

    only_limits = True

    gpu_hours_per_month: float | None = Field(None, gt=0, description="accelerators × hours that trials hold them, such as 200")
    usd_per_month: float | None = Field(
        None, gt=0, description="the same hours at the accepted, else the declared on-demand price, such as 5000"
    )

    @model_validator(mode="after")
    def _require_a_limit(self) -> Budget:
        if self.gpu_hours_per_month is None and self.usd_per_month is None:
            raise ValueError("has no limit; expected gpu_hours_per_month, usd_per_month or both")
        return self

    def __str__(self) -> str:
        limits = [
            f"{limit:,.10g} {unit}"
            for limit, unit in ((self.gpu_hours_per_month, "GPU-hours"), (self.usd_per_month, "USD"))
            if limit is not None
        ]
        return f"{' and '.join(limits)} a month"


class CapacityWatch(Declared):
    """How often a node is asked for between campaigns."""

    every: Annotated[Duration, RARELY] = Field(ge=900.0, le=31 * 86400.0, description="interval, such as 6h: 15min to 31d")
    gpus: int | None = Field(None, ge=1, le=1024, description="accelerators to ask for; all of one node if omitted")
    dry_run: Annotated[bool, UNLESS] = Field(False, description="true: ask the API alone, and start no pod")


_WATCHABLE = {"uptime": "an endpoint, whose requests show it, or a cluster", "capacity": "a cluster, whose nodes are asked for"}


class UptimeWatch(Declared):
    """How often an endpoint gets one request of one output token between campaigns, or a cluster's API lists the provider's nodes."""

    every: Annotated[Duration, RARELY] = Field(ge=60.0, le=3600.0, description="interval, such as 5min: 1min to 1h")
    ready_nodes: int | None = Field(
        None,
        ge=0,
        le=1024,
        description="of a cluster: nodes that must be ready; the provider's `nodes` if omitted; 0: only the API must answer",
    )

    def ready_nodes_of(self, nodes: int) -> int:
        return nodes if self.ready_nodes is None else self.ready_nodes


class MonitoringConfig(Declared):
    """A changed driver, machine or software starts the provider's benchmark; a changed price does not."""

    enabled: bool = Field(True, description="false: no environment checks between campaigns, and no rerun after a change")
    debounce: Pause = Field(3600.0, description="how long after the start of a rerun further changes wait for the next one")
    workloads: Annotated[tuple[Name, ...] | None, AMONG] = Field(
        None, min_length=1, description="workloads of the rerun after a change; those of the monthly rerun if omitted"
    )
    probe: Annotated[Duration | None, RARELY] = Field(
        None, ge=86400.0, description="interval of hardware probes of arithmetic and memory, such as 7d; never if omitted"
    )
    capacity: Annotated[CapacityWatch | None, RARELY] = Field(
        None, description="ask for a node at an interval: {every: 6h, gpus: 8}; never if omitted"
    )
    uptime: Annotated[UptimeWatch | None, RARELY] = Field(
        None, description="send a request to an endpoint, or ask a cluster for its nodes, at an interval: {every: 5min}; never if omitted"
    )

    def of(self, kind: WatchKind) -> CapacityWatch | UptimeWatch | None:
        return (self.uptime if kind == "uptime" else self.capacity) if self.enabled else None


AnyLauncher = TypeVar("AnyLauncher", bound=LauncherBase)


class Accelerator(Declared):
    """The accelerators, or for a CPU provider the `count` of cores that a trial may use."""

    kind: Literal["cpu", "nvidia", "amd"]
    product: str | None = Field(None, description="as the device reports itself, such as NVIDIA-H100-80GB-HBM3")
    count: int = Field(ge=1, le=1024)
    memory: ByteSize | None = Field(None, ge=2.0**28, description="of one accelerator, such as 80GiB; known from `product` if omitted")


class Price(Dated):
    """A declared price of the whole instance."""

    purchase: ListedPurchase
    price: HourlyPrice
    source: str = Field(min_length=3, description="of the figure, such as 'contract 2026-114' or a price page with its date")


class Place(Declared):
    """Where trials run, and how to reach it. Documents of trials have it whole, with the instance's declared prices and slots."""

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
    engine_args: dict[Literal["vllm", "tensorrtllm"], EngineArgs] = Field(
        default_factory=dict,
        description="of this provider's own stack, by server.backend: they go before a workload's server.engine_args, and results show them",
    )
    data_places: dict[Name, DataAddress] = Field(
        default_factory=dict,
        description="addresses at this provider of data that a script's `task.data.name` names: a bucket in its region, a volume",
    )
    slots: tuple[Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")], ...] | None = Field(
        None, description='overrides the workloads\' slots for the monthly schedule (UTC), such as ["02:00"]'
    )


class InvoiceLines(Declared):
    """`match`: a regular expression, searched in what a line says of its product: SKU, meter, resource, service and description."""

    match: DeclaredPattern = Field(min_length=3, max_length=500)


class Terms(Declared):
    """What it costs beside declared prices, what it promises, what is planned there, and who may use it. It does not change a measurement, so that no
    trial carries it; an earlier harness would refuse what it does not know. Each has a default."""

    group: Name | None = Field(
        None, description="providers that can change together, such as a reseller's and its cloud's; those of one `cloud` if omitted"
    )
    residency: tuple[Residency, ...] = Field((), description="all that hold, such as [DE, EU]: a team may require one of them")
    sold_by: Literal["gpu", "instance"] = Field(
        "instance", description="gpu: parts of an instance can be rented; instance: all its accelerators are billed together"
    )
    price_sources: tuple[DeclaredSource, ...] = ()
    token_prices: tuple[TokenRate, ...] = Field((), description="what a hosted model bills by tokens and requests, instead of prices")
    rates: tuple[DeclaredRate, ...] = ()
    overhead: tuple[Overhead, ...] = ()
    invoices: tuple[Invoice, ...] = ()
    owned: tuple[Ownership, ...] = Field(
        (), description="what its instances cost if one owns them; on_demand, where none is declared, is this price"
    )
    serverless: tuple[ServerlessRate, ...] = Field((), description="of an endpoint that scales to zero")
    support: tuple[SupportPlan, ...] = ()
    sla: ServiceLevel = ServiceLevel()
    manual_steps: tuple[Annotated[str, Field(min_length=3)], ...] | None = Field(
        None, description="manual steps before a trial can run, one sentence each; [] for none"
    )
    nodes: Annotated[int, AT_MOST] = Field(
        1, ge=1, le=1024, description="machines of this kind that one trial may take: the monthly rerun has no workload of more nodes"
    )
    workloads: Annotated[tuple[Name, ...] | None, AMONG] = Field(
        None,
        min_length=1,
        description="workloads of its monthly rerun; every fitting one that is not on demand only if omitted",
    )
    watch: MonitoringConfig = MonitoringConfig()
    budget: Budget | None = None
    invoice: InvoiceLines | None = Field(None, description="which lines of an invoice bill it, where they do not name its instance type")


class Provider(Terms, Place):
    """One YAML file under `include/config/providers/`: a place with its terms."""

    @model_validator(mode="after")
    def _consistent(self) -> Provider:
        cores = len(self.launcher.cpus_here)
        if cores and self.accelerator.kind == "cpu" and cores != self.accelerator.count:
            raise ValueError(f"accelerator.count is {self.accelerator.count}, but launcher.cpus lists {cores}; expected one core per count")
        self._budget_counts()
        self._watches_fit()
        for backend, args in self.engine_args.items():
            check_engine_args(args, backend, f"engine_args.{backend}")
        resource = self.launcher.accelerator_resource or ""
        if self.accelerator.kind == "amd" and resource.startswith("nvidia"):
            raise ValueError(f"launcher.gpu_resource is {resource}, but accelerator.kind is amd; expected amd.com/gpu")
        part, product = part_of_card(resource), self.accelerator.product
        if part is not None and product is not None and part_of_card(product) is None:
            raise ValueError(
                f"launcher.gpu_resource is {resource} ({part}), but accelerator.product {product} is a whole card; expected the part's product, "
                f"such as {product}-{f'MIG-{part[4:]}' if part.startswith('MIG ') else 'SHARED'}"
            )
        if self.sold_by == "gpu" and (self.accelerator.kind == "cpu" or self.launcher.hosted):
            raise ValueError(
                f"sold_by gpu, but {'accelerator.kind is cpu' if self.accelerator.kind == 'cpu' else 'the launcher is an endpoint'}; expected "
                "sold_by: instance, or none"
            )
        if self.accelerator.kind == "cpu" and any(rate.item == "cpu" for rate in self.rates):
            raise ValueError("rates of cpu, but accelerator.kind is cpu, whose price is the instance's; expected it in prices only")
        if self.token_prices and not self.launcher.hosted:
            raise ValueError("token_prices, but the launcher is no endpoint, whose instance is paid by the hour; expected prices")
        if self.token_prices and (self.prices or self.price_sources):
            raise ValueError(
                "both token_prices and prices or price_sources; expected one of them: an endpoint bills its use or its instance"
            )
        if self.serverless and (self.prices or self.token_prices or not (self.launcher.hosted or self.simulated)):
            raise ValueError("serverless; expected it for an endpoint, without prices and token_prices")
        check_one_at_a_time((*self.owned, *self.serverless), lambda _: "owned or serverless prices")
        check_one_at_a_time(self.support, lambda plan: plan.what)
        check_one_at_a_time(self.token_prices, lambda _: "token_prices")
        check_one_at_a_time(self.rates, lambda rate: f"{rate.item} rates")
        check_invoices(self.invoices)
        check_one_at_a_time(self.prices, lambda price: f"{price.purchase} prices")
        return self

    def _watches_fit(self) -> None:
        for kind, expected in _WATCHABLE.items():
            if getattr(self.watch, kind) is not None and kind not in self.launcher.watches:
                raise ValueError(f"watch.{kind}, but launcher.kind is {self.launcher.kind}; expected {expected}, or no watch.{kind}")
        if self.watch.uptime is not None and self.watch.uptime.ready_nodes is not None and not self.launcher.counts_nodes:
            raise ValueError(
                f"watch.uptime.ready_nodes, but launcher.kind is {self.launcher.kind}; expected a cluster, whose nodes are counted"
            )
        asked = self.watch.capacity.gpus if self.watch.capacity is not None else None
        if asked is not None and asked > self.accelerator.count:
            raise ValueError(
                f"watch.capacity.gpus is {asked}, more than accelerator.count {self.accelerator.count}; expected those of one node"
            )

    def _budget_counts(self) -> None:
        if self.budget is None:
            return
        if self.budget.gpu_hours_per_month is not None and self.accelerator.kind == "cpu":
            raise ValueError("budget.gpu_hours_per_month, but accelerator.kind is cpu; expected usd_per_month")
        if self.budget.usd_per_month is not None and not any(p.purchase in ("on_demand", "owned", "serverless") for p in self.price_list):
            raise ValueError("budget.usd_per_month, but no on_demand price is declared; expected one in prices, or gpu_hours_per_month")

    def of_trial(self) -> Provider:
        """The provider as its trials carry it: the place alone, and those promises that documents have had from the first harness on."""
        unset = {name: field.get_default(call_default_factory=True) for name, field in Terms.model_fields.items()}
        return self.model_copy(update={**unset, "sla": self.sla.of_trial()})

    def places(self, facts: Mapping[str, object]) -> dict[str, tuple[str, bool]]:
        """By those of `host.region` and `host.zone` that a node's facts have: the declared one, and whether it is the node's, in any case of letters."""
        declared = {} if self.launcher.hosted else {"host.region": self.region, "host.zone": self.zone}
        return {k: (v, str(facts[k]).casefold() == v.casefold()) for k, v in declared.items() if v is not None and facts.get(k) is not None}

    @property
    def witness(self) -> str:
        """Those of one name are one witness of a change: its `group`, else its `cloud`."""
        return self.group or self.cloud

    @property
    def pool(self) -> str:
        """The Airflow pool of the provider's trials."""
        return f"plumbline_{self.launcher.machine_name or self.name}"

    def launcher_as(self, kind: type[AnyLauncher]) -> AnyLauncher:
        """The launcher's declaration, for code that runs one kind only. TypeError if it is of another kind."""
        # A client's pod is both a cluster's and an endpoint's.
        launcher = next((each for each in (self.launcher, getattr(self.launcher, "endpoint", None)) if isinstance(each, kind)), None)
        if launcher is None:
            raise TypeError(
                f"{self.name}: launcher.kind is {self.launcher.kind}; expected {get_args(kind.model_fields['kind'].annotation)[0]}"
            )
        return launcher

    @property
    def nodes_of_a_trial(self) -> int:
        """Machines that a trial of the monthly rerun may take at most."""
        return self.launcher.nodes_of_a_trial(self.nodes)

    @property
    def simulated(self) -> bool:
        """Whether its results are simulated; they never mix with measured ones."""
        return self.launcher.simulated

    @property
    def price_list(self) -> tuple[Price, ...]:
        """Every price in order of precedence: simulated changes, the latest first, then the declared ones."""
        simulated = (
            Price.model_construct(purchase=e.purchase, price=e.price, since=e.since, until=e.until, source="simulated price change")
            for e in self.launcher.price_changes()
        )
        return (*simulated, *self.own_prices)

    @property
    def own_prices(self) -> tuple[Price, ...]:
        """The declared prices, and those that follow from ownership and serverless rates."""
        entries: tuple[Ownership | ServerlessRate, ...] = (*self.owned, *self.serverless)
        gpus, terms = self.accelerator.count, {"since", "until", "source"}
        made = [{"purchase": e.purchase, "price": e.usd_per_hour(gpus)} | e.model_dump(include=terms) for e in entries]
        return (*self.prices, *(Price.model_construct(None, **values) for values in made))

    def price_on(self, on: date, purchase: Purchase = "on_demand") -> Price | None:
        """The declared price of the whole instance on the day `on`, from `since` (included) until `until` (excluded), or None.

        What is owned or serverless and has no price on demand costs that wherever a price on demand counts."""
        prices = self.price_list
        kinds = {p.purchase for p in prices}
        if purchase == "on_demand" and purchase not in kinds:
            return next((p for p in prices if p.purchase in ("owned", "serverless") and p.holds(on)), None)
        return next((p for p in prices if p.purchase == purchase and p.holds(on)), None)

    @property
    def dag_id(self) -> str:
        """The id of the provider's benchmark DAG."""
        return dag_id(f"{BENCHMARK}{self.name.replace('-', '_')}")
