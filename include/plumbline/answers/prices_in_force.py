"""The price in force of each purchase and term of a provider: since when, from where, by whom and why, and what waits for a decision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, get_args

from plumbline.analysis.prices.book import all_with_effective_prices, prices_in_force
from plumbline.archive import Archive, AuditView, FindingView, PriceReadingView, PriceView
from plumbline.declarations import Price, Provider
from plumbline.declarations.providers.rates import Purchase
from plumbline.findings.types.held_price import HeldPrice
from plumbline.findings.types.price_change import PriceFinding, format_price_name
from plumbline.metrics.units import Amount
from plumbline.results.finding import OPEN_STATES

PURCHASES: tuple[Purchase, ...] = get_args(Purchase)


@dataclass(frozen=True)
class PendingPrice:
    """A reading that differs from the price in force and waits for a person. `held`: it is not believed yet; else a change."""

    finding_id: str
    held: bool


@dataclass(frozen=True)
class TermPrice:
    """One purchase and term of one provider, in USD per hour of the instance. `usd`: in force on the day, with the price `before` it; None without
    one. `by`, `why`: of an accepted price; empty of a declared one. `reading`: the newest one; `pending`: what it waits for."""

    provider: str
    purchase: Purchase
    term: str | None
    usd: Amount | None
    before: float | None
    since: date | None
    source: str
    by: str
    why: str
    reading: PriceReadingView | None
    pending: PendingPrice | None
    simulated: bool

    @property
    def name(self) -> str:
        """Such as `reserved 1y`."""
        return format_price_name(self.purchase, self.term)


def term_prices(
    archive: Archive,
    providers: Sequence[Provider],
    readings: Mapping[str, Sequence[PriceReadingView]],
    findings: Iterable[FindingView],
    on: date,
) -> list[TermPrice]:
    """In the order of `providers` (as declared) and of purchases; what is neither declared, accepted nor read has no row. `readings`: by provider,
    oldest first; `findings`: of prices."""
    names = [provider.name for provider in providers]
    accepted: dict[str, list[PriceView]] = {}
    for price in archive.prices(names):
        accepted.setdefault(price.provider, []).append(price)
    subjects = tuple(f"price/{name}/{purchase}" for name in names for purchase in PURCHASES)
    log = [entry for entry in archive.audit(subjects) if entry.what == "price_accepted"]
    priced = all_with_effective_prices(providers, (p for own in accepted.values() for p in own))
    waiting = [f for f in findings if f.state in OPEN_STATES]
    rows = []
    for provider in providers:
        own, read = accepted.get(provider.name, []), readings.get(provider.name, ())
        known: set[tuple[str, str | None]] = {(p.purchase, p.term) for p in own} | {(r.purchase, r.term) for r in read}
        known |= {(p.purchase, None) for p in priced[provider.name].price_list}
        for purchase in PURCHASES:
            for term in sorted((t for kind, t in known if kind == purchase), key=lambda t: t or ""):
                held = prices_of(priced[provider.name], own, purchase, term)
                rows.append(_row(provider, purchase, term, held, read, [f for f in waiting if f.provider == provider.name], log, on))
    return rows


def prices_of(priced: Provider, accepted: Iterable[PriceView], purchase: Purchase, term: str | None) -> tuple[Price, ...]:
    """Which price of a purchase and term held when, oldest first. `priced`: the provider at accepted prices. A price that is agreed for a term is
    accepted, never declared."""
    if term is None:
        return prices_in_force(priced, purchase)
    own = [
        p for p in accepted if (p.purchase, p.term) == (purchase, term) and p.until != p.since
    ]  # one followed on its first day never held
    fields: list[Any] = [
        {"purchase": purchase, "price": p.usd_per_hour, "since": p.since, "until": p.until, "source": p.source} for p in own
    ]
    return tuple(Price.model_construct(None, **of) for of in fields)


def _row(
    provider: Provider,
    purchase: Purchase,
    term: str | None,
    held: Sequence[Price],
    readings: Sequence[PriceReadingView],
    waiting: Sequence[FindingView],
    log: Sequence[AuditView],
    on: date,
) -> TermPrice:
    begun = [p for p in held if p.since <= on]
    price = begun[-1] if begun and (begun[-1].until is None or on < begun[-1].until) else None
    entry = next((e for e in reversed(log) if price is not None and _accepted(e, provider.name, purchase, term, price)), None)
    name = format_price_name(purchase, term)
    subjects = {each.subject + name: each is HeldPrice for each in (PriceFinding, HeldPrice)}
    pending = next((f for f in waiting if f.detail.get("subject") in subjects), None)
    return TermPrice(
        provider=provider.name,
        purchase=purchase,
        term=term,
        usd=None if price is None else float(price.price),
        before=float(begun[-2].price) if price is not None and len(begun) > 1 and begun[-2].until == price.since else None,
        since=None if price is None else price.since,
        source="" if price is None else price.source,
        by="" if entry is None else entry.who,
        why="" if entry is None else entry.why,
        reading=next((r for r in reversed(readings) if (r.purchase, r.term) == (purchase, term)), None),
        pending=None if pending is None else PendingPrice(pending.finding_id, subjects[str(pending.detail["subject"])]),
        simulated=provider.simulated,
    )


def _accepted(entry: AuditView, provider: str, purchase: str, term: str | None, price: Price) -> bool:
    """Whether the entry of the log is about the acceptance of this price."""
    detail = entry.detail or {}
    same = (detail.get("term"), detail.get("usd_per_hour"), detail.get("source")) == (term, price.price, price.source)
    return entry.subject == f"price/{provider}/{purchase}" and same


def pending_text(price: TermPrice) -> str:
    """What a price waits for; empty where nothing is pending."""
    if price.pending is None:
        return ""
    return "held: not in use until accepted" if price.pending.held else "changed: waits for acceptance"
