"""Each finding's cost a month, and the savings of moving a workload: the one source of these amounts for messages, reports and pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from plumbline.analysis.cost.service_credit import credit_of
from plumbline.analysis.decisions.decision_record import DecisionDocument
from plumbline.analysis.decisions.savings import CostAnswer, Savings, answers_of, savings_of
from plumbline.analysis.prices.book import all_with_effective_prices, price_in_force, quote, with_effective_prices
from plumbline.answers.places import with_places
from plumbline.answers.trial_credits import claims_by_finding
from plumbline.archive import Archive, FindingView, PriceView
from plumbline.declarations import Declarations, Provider
from plumbline.declarations.providers.rates import Purchase
from plumbline.findings.headline import headline
from plumbline.findings.monthly_cost import MonthlyCost, cost_on_providers, monthly_cost
from plumbline.findings.types import about_price, stored_type
from plumbline.results.finding import OPEN_STATES, UNREADABLE_ERRORS, Finding, FindingState
from plumbline.results.sample import Series
from plumbline.results.stored import read_finding

SETTLED: tuple[FindingState, ...] = ("accepted", "resolved")


def monthly_cost_of(archive: Archive, declared: Declarations, view: FindingView) -> MonthlyCost:
    """At the prices of the day on which the finding began, so that the amount changes only with the finding or an accepted price.

    One of UNREADABLE_ERRORS for a finding of another shape.
    """
    cost = _credited(archive, declared, view, _cost(declared, view, _accepted(archive, declared, [view])))
    return _with_claims(archive, declared, [view], {view.finding_id: cost})[view.finding_id]


def monthly_costs(archive: Archive, declared: Declarations, views: Sequence[FindingView]) -> dict[str, MonthlyCost]:
    """Costs of several findings by id, in one statement; an unreadable finding is left out."""
    accepted, costs = _accepted(archive, declared, views), {}
    for view in views:
        with suppress(*UNREADABLE_ERRORS):
            costs[view.finding_id] = _credited(archive, declared, view, _cost(declared, view, accepted))
    return _with_claims(archive, declared, views, costs)


def headlines(archive: Archive, declared: Declarations | None, views: Sequence[FindingView]) -> dict[str, str]:
    """The first line of each finding by id, with its money; without declarations no money is known."""
    costs, lines = monthly_costs(archive, declared, views) if declared is not None else {}, {}
    for view in views:
        finding, cost = read_finding(view), costs.get(view.finding_id)
        lines[view.finding_id] = (
            headline(finding, cost.usd, cost.credit, cost.claim)
            if finding is not None and cost is not None
            else headline(finding)
            if finding is not None
            else view.headline
        )
    return lines


def _credited(archive: Archive, declared: Declarations, view: FindingView, cost: MonthlyCost) -> MonthlyCost:
    """With the credit of a broken promise, as `provider_promises` has it: at the declared volumes and each day's price."""
    promised, provider = view.detail.get("credit") or {}, declared.providers.get(view.provider)
    if provider is None or promised.get("share") is None:
        return cost
    month = datetime.fromisoformat(f"{promised['month']}-01T00:00:00+00:00")
    priced = with_effective_prices(provider, archive.prices(provider.name))
    money = credit_of(float(promised["share"]), priced, declared.alerts.volumes_of(provider.name), month)
    return replace(cost, credit=None if money is None else money.amount)


def _with_claims(
    archive: Archive, declared: Declarations, views: Sequence[FindingView], costs: dict[str, MonthlyCost]
) -> dict[str, MonthlyCost]:
    """With what trials prove broken, and which of the findings claims it."""
    claiming = {
        view.provider
        for view in views
        if view.state in OPEN_STATES
        and (of := stored_type(view.kind, str(view.detail.get("subject", "")))).claimable
        and not of.grants_credit
    }
    proven = claims_by_finding(archive, declared, claiming) if claiming else {}
    return {name: replace(cost, claim=proven[name].text) if name in proven else cost for name, cost in costs.items()}


def _accepted(archive: Archive, declared: Declarations, views: Sequence[FindingView]) -> dict[tuple[str, str], PriceView]:
    shared = {name for view in views for name in (view.detail.get("cause") or {}).get("providers", ())}
    names = sorted(({view.provider for view in views} | shared) & declared.providers.keys())
    return {(p.provider, p.purchase): p for p in archive.prices(names) if p.until is None and p.term is None} if names else {}


def _cost(declared: Declarations, view: FindingView, accepted: Mapping[tuple[str, str], PriceView]) -> MonthlyCost:
    finding = Finding.of(view.detail)
    if finding.cause is not None:
        return _cost_by_provider(declared, view, finding, accepted)
    cost = _cost_of(declared, view, finding, accepted)
    # The sum over all regions that took one price counts once.
    return replace(cost, text="") if finding.prices and finding.prices[0].provider != finding.provider else cost


def _cost_by_provider(
    declared: Declarations, view: FindingView, finding: Finding, accepted: Mapping[tuple[str, str], PriceView]
) -> MonthlyCost:
    """The sum over the providers of a shared cause; of those whose cost is known."""
    costs = []
    for name in finding.cause.providers if finding.cause is not None else ():
        members = tuple(m for m in finding.members if m.series_key and Series.parse(m.series_key).provider == name)
        if members:
            series = Series.parse(members[0].series_key or "")
            part = replace(finding, provider=name, members=members, series_key=members[0].series_key or "", workload=series.workload)
            costs.append(_cost_of(declared, view, part, accepted))
    return cost_on_providers(costs)


def _cost_of(declared: Declarations, view: FindingView, finding: Finding, accepted: Mapping[tuple[str, str], PriceView]) -> MonthlyCost:
    provider, began = declared.providers.get(finding.provider), view.opened_at.date()
    if about_price(finding) and view.state in SETTLED and not finding.prices:
        return MonthlyCost(None, "")  # an older version's effect is a fraction of a price that may have changed

    def price(purchase: Purchase) -> float | None:
        assert provider is not None  # called for declared providers only
        return price_in_force(accepted.get((provider.name, purchase)), provider, purchase, None, began)

    runs = {w.name for w in declared.workloads_for(provider)} if provider is not None else set()
    wanted = {name for _, _, preference in declared.choices() for name in preference.workloads}
    return monthly_cost(finding, declared.alerts, provider, began, price, runs & wanted)


def stored_switches(archive: Archive, declared: Declarations, newest: Sequence[DecisionDocument]) -> Savings:
    """Every switch that saves, the best first, and whether it is known where anything runs: in USD a month at the declared volumes, as shares of
    the cost where no volume says how much runs there.

    `newest`: the newest decision of each choice; those about declared choices count.
    """
    by_choice = {decision.choice: decision for decision in newest}
    placed = with_places(archive, declared)
    wanted = {(team, kind, tuple(preference.workloads)): preference.current for team, kind, preference in placed.choices()}
    names = sorted(declared.providers)
    priced = all_with_effective_prices(declared.providers.values(), archive.prices(names)) if names else {}
    answers = [answer for choice, place in wanted.items() if choice in by_choice for answer in _answers(by_choice[choice], priced, place)]
    return savings_of(answers, declared.alerts.volumes)


def _answers(decision: DecisionDocument, priced: Mapping[str, Provider], current: str | None) -> tuple[CostAnswer, ...]:
    if (day := decision.day) is None:  # an older version's
        return ()

    def price(provider: str, purchase: Purchase) -> float | None:
        basis = quote(priced[provider], day, purchase).basis if provider in priced else None
        return None if basis is None else basis.usd_per_hour

    return answers_of(decision, decision.cheapest, price, current)
