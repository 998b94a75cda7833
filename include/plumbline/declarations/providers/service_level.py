"""The contractual service level of a provider: what it promises, field by field from the files of `promises`, and what holds for all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import AwareDatetime, Field, create_model, model_validator

from plumbline.declarations.base import Declared
from plumbline.declarations.promises import PROMISES
from plumbline.metrics.units import CreditShare, Duration


class Maintenance(Declared):
    """Announced work of the provider, whose time counts neither as available nor as down."""

    since: AwareDatetime
    until: AwareDatetime
    source: str = Field(min_length=3, description="where it was announced, such as 'mail of 3 November'")


if TYPE_CHECKING:
    _Promised = Declared  # a promise's own file reads its fields
else:
    _Promised = create_model("Promised", __base__=Declared, **{name: field for one in PROMISES for name, field in one.fields.items()})


class ServiceLevel(_Promised):
    """The provider's contractual service level, which scorecards compare with the measurements."""

    maintenance: tuple[Maintenance, ...] = Field((), max_length=500, description="further windows come from the operations log")
    clause: Annotated[str, Field(min_length=3, description="where the contract says so, such as 'Annex B, 4.2'")] | None = None
    credit: CreditShare | None = Field(None, description="of a month's bill, which the contract grants for another breach, such as 10%")
    claim_within: Duration | None = Field(None, description="after the end of the month of a breach, as the contract says, such as 30d")
    contact: Annotated[str, Field(pattern=r"^[^@\s<>,;]+@[^@\s<>,;]+$", description="the mail address of its support")] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> ServiceLevel:
        for i, window in enumerate(self.maintenance):
            if window.until <= window.since:
                raise ValueError(f"maintenance[{i}].until is {window.until.isoformat()}; expected an instant after since")
        for promise in PROMISES:
            promise.check(self)
        return self

    def of_trial(self) -> ServiceLevel:
        """The terms as trials carry them."""
        return ServiceLevel.model_validate(self.model_dump(include={one.id for one in PROMISES if one.in_trials}))
