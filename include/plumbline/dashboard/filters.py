"""One filter for every page: its fields in the address, what they select, and which of them a link carries along."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from pydantic import Field

from plumbline.analysis.drift.series_state import STATES
from plumbline.analysis.fleet import COST_UNITS
from plumbline.dashboard.access import can_see_costs
from plumbline.declarations import Declarations
from plumbline.declarations.teams import KINDS
from plumbline.presentation.filters import PAGES, Filter
from plumbline.presentation.series_summary import ORDER


@dataclass(frozen=True)
class FilterBar:
    """A page's form. `action`: its path; `offered`: of each field what may be chosen; `kept`: other fields of its address."""

    action: str
    chosen: Filter
    offered: Mapping[str, tuple[str, ...]]
    kept: Mapping[str, str]

    @property
    def ranged(self) -> bool:
        return "last" in self.offered


def filter_bar(
    request_path: str, declared: Declarations, chosen: Filter, money: bool, only: Iterable[str] | None = None, **other_fields: str
) -> FilterBar:
    """The form of the page, with the fields that it takes, or `only` these of them."""
    providers = [declared.providers[name] for name in sorted(declared.providers)]
    choices: dict[str, tuple[str, ...]] = {
        "cloud": tuple(sorted({p.cloud for p in providers})),
        "region": tuple(sorted({p.region for p in providers})),
        "accelerator": tuple(sorted({p.accelerator.product or p.accelerator.kind for p in providers})),
        "team": tuple(sorted(declared.teams)),
        "kind": KINDS,
        "state": ORDER,
        "last": ("3", "6", "12"),
        "per": COST_UNITS if money else (),
    }
    page = f"/{request_path.split('/')[1]}"
    page_fields = PAGES[page]
    if page == "/campaigns":
        choices["state"] = STATES
    return FilterBar(
        request_path,
        chosen,
        {name: choices[name] for name in page_fields if name in choices and (only is None or name in only)},
        other_fields,
    )


class _OfFindings(Filter):
    """Findings have a kind and a state of their own, and no cost of an outcome."""

    kind: Any = Field("", exclude=True)
    state: Any = Field("", exclude=True)
    per: Any = Field("", exclude=True)


def read_filter(request: Request, chosen: Annotated[Filter, Query()]) -> Filter:
    """A page's dependency: the filter of its address. Costs are of the outcome for a reader without access to them."""
    return chosen if can_see_costs(request) else chosen.model_copy(update={"per": "token"})


def read_findings_filter(chosen: Annotated[_OfFindings, Query()]) -> Filter:
    """The same for findings."""
    return Filter(**chosen.model_dump())


Chosen = Annotated[Filter, Depends(read_filter)]
ChosenOfFindings = Annotated[Filter, Depends(read_findings_filter)]
