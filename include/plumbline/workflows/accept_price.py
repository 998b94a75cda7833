"""Accept a price: a person's, or by rule, and the decisions that follow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import cast, get_args

from plumbline.analysis.prices.book import declared_price
from plumbline.analysis.prices.check import PriceVerdict
from plumbline.archive import Archive, PriceView
from plumbline.declarations import Declarations, Provider
from plumbline.declarations.providers.rates import ListedPurchase, Term
from plumbline.findings.price import format_price_source, price_unit
from plumbline.findings.price_check import checked_price
from plumbline.findings.types import type_of
from plumbline.findings.types.held_price import HeldPrice
from plumbline.findings.types.price_change import PriceFinding, format_price_name
from plumbline.metrics.formatting import format_money
from plumbline.results.finding import Finding
from plumbline.workflows.decide import RecordedDecision, decide_all


@dataclass(frozen=True)
class AcceptedPrice:
    """The effective price, and the decisions recomputed with it. `repeated`: it was accepted before, and the reason is not in the audit log."""

    price: PriceView
    decisions: tuple[RecordedDecision, ...] = ()
    repeated: bool = False


def accept_price(
    archive: Archive,
    provider: Provider,
    purchase: ListedPurchase,
    term: Term | None,
    *,
    by: str,
    why: str,
    usd_per_gpu_hour: float | None = None,
    by_rule: PriceVerdict | None = None,
    at: datetime | None = None,
    declared: Declarations | None = None,
    along: Sequence[Provider] = (),
) -> AcceptedPrice:
    """Accept a price: `usd_per_gpu_hour`, else the newest reading. It is effective from its first reading, but not before the price that it
    follows; accepting the accepted price changes nothing.

    `by_rule`: the verdict that a rule accepts; else a person decides, which accepts open findings about this price. `declared`: recompute every
    team's decision. `along`: providers whose newest reading of the same kind of price is accepted too, before any decision.
    LookupError without a reading and a price; ValueError for a price that is not above 0, or an empty author or reason.
    """
    now = at or datetime.now(timezone.utc)
    checked = by_rule or checked_price(archive, provider, purchase, term, now)
    usd_per_gpu_hour = _valid_price(provider, purchase, term, usd_per_gpu_hour, checked)
    if declared is not None:
        # The first choice at the old price is stored too, so that the change can be attributed.
        decide_all(archive, declared, now.date(), f"a price of {provider.name} is about to change")
    for other in along:
        accept_price(archive, other, purchase, term, by=by, why=why, at=at)
    since, source = now.date(), f"given by {by}"
    if checked is not None and usd_per_gpu_hour == checked.price:
        since, source = checked.since.date(), format_price_source(checked.reading)
    usd = usd_per_gpu_hour * provider.accelerator.count
    before, listed = archive.accepted_price(provider.name, purchase, term), declared_price(provider, purchase, term, now.date())
    repeated = before is not None and before.usd_per_hour == usd and (listed is None or listed.since <= before.since)
    if repeated and before is not None:
        accepted_before = before
    else:
        since = max([since, *([before.since] if before else []), *([listed.since] if listed else [])])
        accepted_before = archive.accept_price(provider.name, purchase, term, usd, since, source, by=by, why=why)
    if by_rule is None:
        subjects = {each.of(purchase, term) for each in (PriceFinding, HeldPrice)}
        for finding in archive.findings_of(provider.name, "price", unsettled=True):
            if finding.detail.get("subject") in subjects:
                archive.set_finding_state(finding.finding_id, "accepted", by=by, why=why)
    if declared is None:
        return AcceptedPrice(accepted_before, repeated=repeated)
    kind = f"{purchase} {term}" if term else purchase
    reason = f"{by} accepted {format_money(accepted_before.usd_per_hour, 'USD/h')} as the {kind} price of {provider.name}"
    return AcceptedPrice(accepted_before, tuple(decide_all(archive, declared, now.date(), reason)), repeated)


def _valid_price(
    provider: Provider, purchase: ListedPurchase, term: Term | None, given: float | None, checked: PriceVerdict | None
) -> float:
    title, unit = f"the {format_price_name(purchase, term)} price of {provider.name}", price_unit(provider.accelerator.kind)
    expected = f"in USD per {unit} (`{accept_command(provider, purchase, term)} --price USD`)"
    if given is None and checked is None:
        raise LookupError(f"no reading of {title}; expected a price {expected}")
    price = given if given is not None or checked is None else checked.price
    if price is None or not (math.isfinite(price) and price > 0):
        raise ValueError(f"{title} is {price:g}; expected a price above 0 {expected}")
    return price


def price_of_finding(finding: Finding) -> tuple[ListedPurchase, Term | None]:
    """ListedPurchase and term of the price that a finding is about. ValueError for other findings."""
    about = PriceFinding.price_of(finding) or HeldPrice.price_of(finding)
    if about is None or about[0] not in get_args(ListedPurchase):
        raise ValueError(f"finding {finding.finding_id} is about a {type_of(finding).noun}; expected a finding about a price")
    return cast(ListedPurchase, about[0]), about[1]


def accept_command(provider: Provider, purchase: ListedPurchase, term: Term | None) -> str:
    """The command line that accepts one price of a provider."""
    of = "" if purchase == "on_demand" else f" --purchase {purchase}"
    return f"plumbline prices accept {provider.name}{of}{f' --term {term}' if term else ''} --why …"
