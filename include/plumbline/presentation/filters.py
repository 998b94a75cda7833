"""What a page shows: the fields of its address, what they select, and which of them a link carries along."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from typing import Annotated, Literal
from urllib.parse import urlencode

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from plumbline.analysis.fleet import CostUnit
from plumbline.analysis.trial_sample import WorkloadKind
from plumbline.archive.repository import Span
from plumbline.declarations import Declarations
from plumbline.presentation.series_summary import StateName

Months = Literal["", "3", "6", "12"]


PLACE = ("cloud", "region", "accelerator")


RANGE = ("last", "since", "until")


PAGES: Mapping[str, tuple[str, ...]] = {
    "/": (*PLACE, "team", "kind", "state", *RANGE, "per"),
    "/providers": (*PLACE, "team", "kind", "state", *RANGE),
    "/workloads": ("team", "kind", *RANGE, "per"),
    "/campaigns": (*PLACE, "team", "kind", "state"),
    "/decisions": ("team", "kind", *RANGE),
    "/findings": (*PLACE, "team", *RANGE),
}
"""The fields that each page, and the pages below it, take. A finding has a kind and a state of its own."""


Word = Annotated[str, Field(max_length=200)]


Day = Annotated[date | None, BeforeValidator(lambda value: value or None)]
"""A form sends an empty field as an empty text."""


class Filter(BaseModel):
    """What a page shows; empty: everything. `last`: months until now; `since`, `until`: days, `until` included. `per`: what a cost is of."""

    model_config = ConfigDict(frozen=True)

    cloud: Word = ""
    region: Word = ""
    accelerator: Word = ""
    team: Word = ""
    kind: WorkloadKind | Literal[""] = ""
    state: StateName | Literal[""] = ""
    last: Months = ""
    since: Day = None
    until: Day = None
    per: CostUnit = "token"

    def query(self, only: Iterable[str] | None = None, **changes: str) -> str:
        """The address's query with some fields changed; `only`: of these fields."""
        values = {name: value for name, value in self if only is None or name in only}
        values["per"] = "" if values.get("per") == "token" else values.get("per", "")
        parameters = {name: str(value) for name, value in {**values, **changes}.items() if value}
        return f"?{urlencode(parameters)}" if parameters else "?"

    def carried(self, path: str) -> str:
        """The query that a link to a page has, empty without one: of these fields those that the page takes."""
        query = self.query(PAGES.get(f"/{path.split('/')[1]}" if path else "", ()))
        return "" if query == "?" else query

    def span(self, now: datetime) -> Span:
        """The time that counts, each end None where it is open; the end is not included."""
        if self.last:
            month = now.month - int(self.last)
            year, month = now.year + (month - 1) // 12, (month - 1) % 12 + 1
            return now.replace(year=year, month=month, day=min(now.day, monthrange(year, month)[1])), None
        begin = datetime.combine(self.since, time(), timezone.utc) if self.since else None
        return begin, datetime.combine(self.until + timedelta(days=1), time(), timezone.utc) if self.until else None

    @property
    def narrows(self) -> bool:
        """Whether providers or workloads are left out."""
        return any((self.cloud, self.region, self.accelerator, self.team, self.kind, self.state))

    @property
    def ranged(self) -> bool:
        return bool(self.last or self.since or self.until)

    @property
    def places(self) -> bool:
        return any((self.cloud, self.region, self.accelerator))

    def fits_place(self, declared: Declarations, provider: str) -> bool:
        """Whether a provider has the cloud, region and accelerator; one that is not declared has none."""
        declaration = declared.providers.get(provider)
        if declaration is None:
            return not self.places
        product = declaration.accelerator.product or declaration.accelerator.kind
        selections = ((self.cloud, declaration.cloud), (self.region, declaration.region), (self.accelerator, product))
        return all(selected in ("", actual) for selected, actual in selections)

    def fits_workload(self, declared: Declarations, kind: str, workload: str) -> bool:
        """Whether a workload is of the kind, and one that the team decides about."""
        of_team = self.workloads(declared)
        return self.kind in ("", kind) and (of_team is None or workload in of_team)

    def workloads(self, declared: Declarations) -> frozenset[str] | None:
        """Workloads that the team decides about; None without a team."""
        return frozenset(w for _, _, p in declared.choices(self.team) for w in p.workloads) if self.team else None
