"""Access to costs: contract prices, invoices, budgets and all costs derived from them.

Cost pages are refused without access. Other pages get declarations and an archive without costs, so they cannot show any.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fastapi import Depends, HTTPException, Request
from fastapi.params import Depends as Dependency

from plumbline.archive import Archive, FindingView
from plumbline.archive.invoices import INVOICE_COMPARED
from plumbline.archive.prices import priced_by
from plumbline.archive.records import AuditView
from plumbline.archive.repository import Slice
from plumbline.dashboard.money_fields import without_money
from plumbline.declarations import Declarations, Provider
from plumbline.declarations.economics import Economics
from plumbline.findings.types import rests_on_prices
from plumbline.results.stored import DecisionView

COSTS_REFUSED = "contract prices, invoices and costs require a role with access to costs: docs/team-server.md (Users and roles)"


def allow_everyone() -> bool:
    """For an app with a single user."""
    return True


def note_cost_access(may_see_money: Callable[..., bool]) -> Dependency:
    """Store once per request whether its user may see costs; `can_see_costs` reads it."""

    def note(request: Request, allowed: bool = Depends(may_see_money)) -> None:
        request.state.money = allowed

    dependency: Dependency = Depends(note)
    return dependency


def can_see_costs(request: Request) -> bool:
    """Whether the user of this request may see costs; False if not stored."""
    return bool(getattr(request.state, "money", False))


def require_cost_access(request: Request) -> None:
    """A route's dependency: 403 without access to costs."""
    if not can_see_costs(request):
        raise HTTPException(403, COSTS_REFUSED)


def without_costs(declared: Declarations) -> Declarations:
    """The declarations without prices, invoices, budgets, contracts and the amounts of `economics.yaml`."""
    providers = {name: without_money(provider) for name, provider in declared.providers.items()}
    return dataclasses.replace(declared, providers=providers, contracts={}, economics=Economics())


class ArchiveWithoutCosts(Archive):
    """An archive without prices, invoices, decisions (they rest on prices), findings about either, and amounts in the texts of other findings."""

    def _no_rows(self, *args: Any, **kwargs: Any) -> Any:
        return []

    prices = price_readings = newest_readings = decisions = newest_decisions = price_steps = moved_choices = compared_invoices = _no_rows

    def decisions_page(self, *args: Any, **kwargs: Any) -> Slice[DecisionView]:
        return Slice((), None)

    def visible(self, provider: Provider) -> Provider:
        return without_money(provider)

    def audit(self, *args: Any, **kwargs: Any) -> list[AuditView]:
        shown = (entry for entry in super().audit(*args, **kwargs) if entry.what != INVOICE_COMPARED)
        return [dataclasses.replace(e, why=without_amounts(e.why), detail=without_amounts(e.detail)) for e in shown]

    def audit_between(self, *args: Any, **kwargs: Any) -> list[AuditView]:
        entries = super().audit_between(*args, **kwargs)
        shown = (e for e in entries if priced_by(e.subject) is None and e.what != INVOICE_COMPARED)
        return [dataclasses.replace(e, why=without_amounts(e.why), detail=without_amounts(e.detail)) for e in shown]

    def findings_by_id(self, *args: Any, **kwargs: Any) -> list[FindingView]:
        return _without_cost_findings(super().findings_by_id(*args, **kwargs))

    def findings(self, *args: Any, **kwargs: Any) -> list[FindingView]:
        return _without_cost_findings(super().findings(*args, **kwargs))

    def finding(self, finding_id: str) -> FindingView:
        if visible := _without_cost_findings([super().finding(finding_id)]):
            return visible[0]
        raise LookupError(f'finding "{finding_id}" is about money')

    def findings_of(self, *args: Any, **kwargs: Any) -> list[FindingView]:
        return _without_cost_findings(super().findings_of(*args, **kwargs))

    def findings_page(self, *args: Any, **kwargs: Any) -> Slice[FindingView]:
        page = super().findings_page(*args, **kwargs)
        return dataclasses.replace(page, rows=tuple(_without_cost_findings(page.rows)))

    def findings_shown_by(self, campaign_id: str, limit: int) -> tuple[FindingView, ...]:
        return tuple(_without_cost_findings(super().findings_shown_by(campaign_id, limit)))


def _without_cost_findings(findings: Iterable[FindingView]) -> list[FindingView]:
    shown = (f for f in findings if not rests_on_prices(f))
    # A finding of any other kind may have been moved by a price, or be about a budget.
    return [dataclasses.replace(f, headline=without_amounts(f.headline), detail=without_amounts({**f.detail, **_NO_MONEY})) for f in shown]


_NO_MONEY: dict[str, Any] = {"prices": [], "moves": []}
"""The fields of a finding that hold prices, and first choices that rest on prices."""
_AMOUNT = re.compile(r"\b(USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD)\b|[$€£¥]|\d [A-Z]{3}/(h|GPU-hour|instance-hour)\b")
AMOUNT_HIDDEN = "Not shown: the text has amounts of money, which require a role with access to costs"


def without_amounts(value: Any) -> Any:
    """The value, as JSON holds it, with a note in place of each text that has an amount of money: a part of a sentence would not be one."""
    if isinstance(value, str):
        return AMOUNT_HIDDEN if _AMOUNT.search(value) else value
    if isinstance(value, Mapping):
        return {key: without_amounts(each) for key, each in value.items()}
    return [without_amounts(each) for each in value] if isinstance(value, list | tuple) else value
