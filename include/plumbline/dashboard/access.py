"""Access to costs: contract prices, invoices, budgets and all costs derived from them.

Cost pages are refused without access. Other pages get declarations and an archive without costs, so they cannot show any.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, TypeVar

from fastapi import Depends, HTTPException, Request
from fastapi.params import Depends as Dependency

from plumbline.archive import Archive, FindingView
from plumbline.archive.invoices import INVOICE_COMPARED
from plumbline.archive.prices import priced_by
from plumbline.archive.records import AuditView
from plumbline.archive.repository import Slice
from plumbline.dashboard.money_fields import holds_money, json_without_money, without_amounts, without_money
from plumbline.declarations import Declarations, Provider
from plumbline.declarations.economics import Economics
from plumbline.findings.types import rests_on_prices
from plumbline.results.finding import Finding

T = TypeVar("T")
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


def _without_rows_of_money(kind: type[T]) -> type[T]:
    """The class, whose questions are answered with nothing where their answers are records of money by their types."""
    for name, question in vars(Archive).items():
        asks = getattr(question, "__wrapped__", None)
        if asks is not None and name not in vars(kind) and holds_money(eval(asks.__annotations__["return"], asks.__globals__)):
            setattr(kind, name, _answering_nothing(question))
    return kind


def _answering_nothing(question: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(question)
    def answer(*args: Any, **kwargs: Any) -> Any:
        found = question(*args, **kwargs)
        if isinstance(found, Slice):
            return Slice((), None)
        return type(found)() if isinstance(found, list | tuple | dict) else None

    return answer


@_without_rows_of_money
class ArchiveWithoutCosts(Archive):
    """An archive without prices, invoices, decisions (they rest on prices), findings about either, and amounts in the texts of other findings."""

    def _no_rows(self, *args: Any, **kwargs: Any) -> Any:
        return []

    moved_choices = _no_rows  # first choices rest on prices

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
    return [dataclasses.replace(f, headline=without_amounts(f.headline), detail=_detail_without_money(f.detail)) for f in shown]


def _detail_without_money(detail: Mapping[str, Any]) -> Any:
    # First choices rest on prices.
    return without_amounts({**json_without_money(Finding, detail), "moves": []})
