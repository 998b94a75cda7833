"""Where a provider's prices are learnt from, day by day."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from plumbline.declarations.base import Declared, Name
from plumbline.declarations.purchases import Purchase
from plumbline.declarations.units import Duration


class GpuhuntSource(Declared):
    """List and spot prices of public clouds, from the gpuhunt catalog."""

    kind: Literal["gpuhunt"]
    cloud: Name | None = Field(None, description="the cloud as gpuhunt names it, such as oci; left out, the provider's own cloud")
    location: str | None = Field(None, min_length=1, description="region or zone as gpuhunt names it; left out, the provider's own")
    instance_type: str | None = Field(None, min_length=1, description="as gpuhunt names it; left out, the provider's own")
    catalog: str | None = Field(None, min_length=1, description="a catalog version that is read for ever; left out, the newest")


class ContractSource(Declared):
    """Negotiated prices, from a file under `include/config/contracts/`."""

    kind: Literal["contract"]
    contract: Name


class CsvSource(Declared):
    """A history that somebody keeps: date, provider, region, instance_type, gpu, gpus, purchase, usd_per_gpu_hour."""

    kind: Literal["csv"]
    file: str = Field(min_length=1, description="path, absolute or below the folder of declarations")
    max_age: Duration | None = Field(
        None, description="how old the newest row may be; left out, any age: a history of changes alone has old rows"
    )


class OpencostSource(Declared):
    """What our pods did cost, from OpenCost's allocation API; it tells USD."""

    kind: Literal["opencost"]
    url: str = Field(
        pattern=r"^https?://[^\s?#@]+$", description="where OpenCost answers, such as http://opencost.opencost:9003, without a password"
    )
    namespace: Name = "plumbline"
    window: Duration = Field(7 * 86400.0, description="how far back the pods are added up")
    purchase: Purchase = Field("on_demand", description="how the nodes of these pods are paid for")

    @model_validator(mode="after")
    def _whole_hours(self) -> OpencostSource:
        if self.window < 3600:
            raise ValueError(f"window {self.window / 60:.3g}min is too short; expected at least 1h")
        return self


DeclaredSource = Annotated[GpuhuntSource | ContractSource | CsvSource | OpencostSource, Field(discriminator="kind")]
