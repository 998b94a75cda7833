"""What the pages of prices show: what is declared, what was accepted and what the sources say, each with its source and date.

All in USD per hour of the whole instance, which is what costs are reckoned with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import get_args

from plumbline.archive import Archive, FindingView, PriceReadingView, PriceView
from plumbline.dashboard.price_charts import price_chart
from plumbline.declarations import Declarations, Price, Provider
from plumbline.declarations.purchases import Purchase
from plumbline.drift.price import HELD
from plumbline.reports.chart import Chart

PURCHASES: tuple[Purchase, ...] = get_args(Purchase)
MOST_READINGS = 400
"""Of one provider, newest first: more than a year of daily ones of one price."""
SHOWN_READINGS = 20
PROVIDERS = 12
"""On one page of the list."""
MOST_FINDINGS = 50


@dataclass(frozen=True)
class PriceNow:
    """One kind of purchase of one provider now. Amounts are text, an en dash where there is none; `source` is that of what costs are
    reckoned with."""

    provider: str
    purchase: str
    declared: str
    accepted: str
    since: str
    source: str
    read: str
    read_at: str
    simulated: bool


@dataclass(frozen=True)
class PricesPage:
    """`after`: the provider after which the next page begins, None on the last one."""

    rows: tuple[PriceNow, ...]
    after: str | None
    held: tuple[FindingView, ...]
    changed: tuple[FindingView, ...]


@dataclass(frozen=True)
class Entry:
    """One line of a price list: declared, or accepted."""

    purchase: str
    what: str
    amount: str
    since: str
    until: str
    source: str


@dataclass(frozen=True)
class ProviderPrices:
    """`charts`: one for each kind of purchase that anything is known of. `readings`: the newest ones, newest first."""

    provider: str
    rows: tuple[PriceNow, ...]
    charts: tuple[Chart, ...]
    entries: tuple[Entry, ...]
    readings: tuple[PriceReadingView, ...]
    findings: tuple[FindingView, ...]
    sources: tuple[str, ...]


def prices_page(archive: Archive, declared: Declarations, on: date, after: str = "") -> PricesPage:
    """Declared providers' prices on a day, those after a name, and the price findings that wait for somebody."""
    names = sorted(name for name in declared.providers if name > after)
    shown = names[:PROVIDERS]
    accepted, readings = archive.prices(shown), archive.newest_readings(shown)
    rows: list[PriceNow] = []
    for name in shown:
        own, read = [p for p in accepted if p.provider == name], [r for r in readings if r.provider == name]
        rows += _rows(declared.providers[name], own, read, on)
    standing = [
        finding
        for state in ("open", "acknowledged")
        for finding in archive.findings_page(state=state, kind="price", limit=MOST_FINDINGS).rows
    ]
    held = tuple(f for f in standing if _is_held(f))
    return PricesPage(tuple(rows), shown[-1] if len(names) > len(shown) else None, held, tuple(f for f in standing if f not in held))


def provider_prices(archive: Archive, provider: Provider, now: datetime) -> ProviderPrices:
    """One provider's prices: history, readings, findings."""
    accepted = archive.prices(provider.name)
    readings = archive.price_readings(provider.name, latest=MOST_READINGS)
    findings = archive.findings_page(kind="price", provider=provider.name, limit=MOST_FINDINGS).rows
    kinds = dict.fromkeys((p.purchase, p.term) for p in accepted) | dict.fromkeys((r.purchase, r.term) for r in readings)
    kinds |= dict.fromkeys((p.purchase, None) for p in provider.price_list)
    charts = []
    for purchase, term in sorted(kinds, key=lambda kind: (PURCHASES.index(kind[0]), kind[1] or "")):
        listed = [] if term is not None else [p for p in provider.price_list if p.purchase == purchase]
        own = [p for p in accepted if (p.purchase, p.term) == (purchase, term)]
        read = [r for r in readings if (r.purchase, r.term) == (purchase, term)]
        chart = price_chart(purchase, term, listed, own, read, held_since(findings, purchase, term), now)
        charts += [chart] if chart is not None else []
    return ProviderPrices(
        provider=provider.name,
        rows=tuple(_rows(provider, accepted, readings, now.date())),
        charts=tuple(charts),
        entries=(*_accepted(accepted), *_declared(provider.price_list)),
        readings=tuple(readings[::-1][:SHOWN_READINGS]),
        findings=findings,
        sources=tuple(s.kind for s in provider.price_sources),
    )


def held_since(findings: Iterable[FindingView], purchase: str, term: str | None) -> str | None:
    """The day since which a price is held; None if none is."""
    name = f"price.{purchase}" + (f".{term}" if term else "")
    standing = (f for f in findings if _is_held(f) and f.state in ("open", "acknowledged"))
    return next((str(f.detail.get("since")) for f in standing if any(m.get("name") == name for m in f.detail.get("members", ()))), None)


def _is_held(finding: FindingView) -> bool:
    return str(finding.detail.get("subject", "")).startswith(HELD)


def _rows(provider: Provider, accepted: Sequence[PriceView], readings: Sequence[PriceReadingView], on: date) -> list[PriceNow]:
    found = []
    for purchase in PURCHASES:
        listed = next((p for p in provider.price_list if p.purchase == purchase and _holds(p.since, p.until, on)), None)
        own = next((p for p in reversed(accepted) if p.purchase == purchase and p.term is None and p.until is None), None)
        read = next((r for r in reversed(readings) if r.purchase == purchase), None)
        if listed is None and own is None and read is None:
            continue
        # What is newer counts, as everywhere: what was accepted, or what is declared since.
        counts = own if own is not None and (listed is None or listed.since <= own.since) else listed
        found.append(
            PriceNow(
                provider=provider.name,
                purchase=purchase,
                declared=_usd(listed.price if listed else None),
                accepted=_usd(own.usd_per_hour if own else None),
                since=str(counts.since) if counts else "",
                source=counts.source if counts else "",
                read=_usd(read.usd_per_instance_hour if read else None),
                read_at=f"{read.observed_at:%Y-%m-%d %H:%M} · {read.source}" if read else "",
                simulated=provider.simulated,
            )
        )
    return found


def _holds(since: date, until: date | None, on: date) -> bool:
    return since <= on and (until is None or on < until)


def _accepted(prices: Sequence[PriceView]) -> list[Entry]:
    newest = sorted(prices, key=lambda p: (p.purchase, p.since, p.first_seen_at), reverse=True)
    return [
        Entry(_kind(p.purchase, p.term), "accepted", _usd(p.usd_per_hour), str(p.since), str(p.until or ""), p.source)
        for p in newest
        if p.until != p.since  # one that another followed on the same day never held
    ]


def _declared(prices: Sequence[Price]) -> list[Entry]:
    newest = sorted(prices, key=lambda p: (p.purchase, p.since), reverse=True)
    return [Entry(p.purchase, "declared", _usd(p.price), str(p.since), str(p.until or ""), p.source) for p in newest]


def _kind(purchase: str, term: str | None) -> str:
    return f"{purchase} {term}" if term else purchase


def _usd(amount: float | None) -> str:
    if amount is None:
        return "–"
    return f"{amount:,.2f}" if amount >= 1 else f"{amount:.4g}"
