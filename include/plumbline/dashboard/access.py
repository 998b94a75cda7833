"""Access to costs: contract prices, invoices, budgets and all costs derived from them.

Cost pages are refused without access. Other pages get declarations and an archive without costs, so they cannot show any.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fastapi import Depends, HTTPException, Request
from fastapi.params import Depends as Dependency

from plumbline.archive import Archive, FindingView
from plumbline.archive.repository import Slice
from plumbline.declarations import Declarations
from plumbline.findings.decision_change import DECISION_CHANGE_PREFIX
from plumbline.results.finding import FindingKind, FindingState
from plumbline.results.stored import PriceView

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
    """The declarations without prices, invoices and budgets."""
    hidden: dict[str, Any] = {"prices": (), "price_sources": (), "rates": (), "overhead": (), "invoices": (), "budget": None}
    providers = {name: provider.model_copy(update=hidden) for name, provider in declared.providers.items()}
    return dataclasses.replace(declared, providers=providers)


class ArchiveWithoutCosts(Archive):
    """An archive without prices and without findings about prices or first choices."""

    def prices(self, provider: Any = None) -> list[PriceView]:
        return []

    def findings(
        self, state: FindingState | tuple[FindingState, ...] | None = None, campaign_id: str | None = None, latest: int | None = None
    ) -> list[FindingView]:
        return _without_cost_findings(super().findings(state, campaign_id, latest))

    def finding(self, finding_id: str) -> FindingView:
        if visible := _without_cost_findings([super().finding(finding_id)]):
            return visible[0]
        raise LookupError(f'finding "{finding_id}" is about money')

    def findings_of(self, provider: str | Sequence[str], kind: FindingKind | None = None, unsettled: bool = False) -> list[FindingView]:
        return _without_cost_findings(super().findings_of(provider, kind, unsettled))

    def findings_page(self, *args: Any, **kwargs: Any) -> Slice[FindingView]:
        page = super().findings_page(*args, **kwargs)
        return dataclasses.replace(page, rows=tuple(_without_cost_findings(page.rows)))

    def findings_shown_by(self, campaign_id: str, limit: int) -> tuple[FindingView, ...]:
        return tuple(_without_cost_findings(super().findings_shown_by(campaign_id, limit)))


def _without_cost_findings(findings: Iterable[FindingView]) -> list[FindingView]:
    return [f for f in findings if f.kind != "price" and not str(f.detail.get("subject", "")).startswith(DECISION_CHANGE_PREFIX)]
