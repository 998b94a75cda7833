"""Current prices, and the price history of one provider. All in USD per hour of the whole instance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, get_args

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, Response

from plumbline.analysis.decisions.current_results import matching_preferences
from plumbline.archive import Archive, FindingView, PriceReadingView, PriceView
from plumbline.dashboard.rendering import PageRenderer
from plumbline.dashboard.sources import ArchiveReader, DeclarationsReader
from plumbline.declarations import Declarations, Price, Provider
from plumbline.declarations.providers.rates import Purchase
from plumbline.findings.price import HELD_SUBJECT
from plumbline.metrics.formatting import capitalize_first, format_amount
from plumbline.presentation.charts.chart import Chart, Part, axis, line, marks
from plumbline.presentation.findings_inbox import InboxGroup, group_findings

PURCHASES: tuple[Purchase, ...] = get_args(Purchase)
MAX_READINGS = 400
"""Of one provider, newest first: more than a year of daily ones of one price."""
READINGS_SHOWN = 20
PROVIDERS_PER_PAGE = 12
"""On one page of the list."""
FINDINGS_SHOWN = 50


@dataclass(frozen=True)
class CurrentPrice:
    """One purchase option of one provider; `since` and `source` are those of the price in use."""

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

    rows: tuple[CurrentPrice, ...]
    after: str | None
    held: tuple[InboxGroup, ...]
    changed: tuple[InboxGroup, ...]


@dataclass(frozen=True)
class PriceListEntry:
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
    rows: tuple[CurrentPrice, ...]
    charts: tuple[Chart, ...]
    entries: tuple[PriceListEntry, ...]
    readings: tuple[PriceReadingView, ...]
    findings: tuple[InboxGroup, ...]
    sources: tuple[str, ...]


def prices_page(archive: Archive, declared: Declarations, on: date, after: str = "") -> PricesPage:
    """Prices of declared providers after a name on a day, and unresolved price findings."""
    names = sorted(name for name in declared.providers if name > after)
    page_names = names[:PROVIDERS_PER_PAGE]
    accepted, readings = archive.prices(page_names), archive.newest_readings(page_names)
    rows: list[CurrentPrice] = []
    for name in page_names:
        accepted_prices, provider_readings = [p for p in accepted if p.provider == name], [r for r in readings if r.provider == name]
        rows += _current_prices(declared.providers[name], accepted_prices, provider_readings, on)
    open_findings = [
        finding
        for state in ("open", "acknowledged")
        for finding in archive.findings_page(state=state, kind="price", limit=FINDINGS_SHOWN).rows
    ]
    held_findings = [f for f in open_findings if _is_held(f)]
    changed_findings = [f for f in open_findings if f not in held_findings]
    return PricesPage(
        tuple(rows),
        page_names[-1] if len(names) > len(page_names) else None,
        group_findings(held_findings, {}),
        group_findings(changed_findings, {}),
    )


def provider_prices(archive: Archive, provider: Provider, now: datetime) -> ProviderPrices:
    """One provider's prices: history, readings, findings."""
    accepted = archive.prices(provider.name)
    readings = archive.price_readings(provider.name, latest=MAX_READINGS)
    findings = archive.findings_page(kind="price", provider=provider.name, limit=FINDINGS_SHOWN).rows
    kinds = dict.fromkeys((p.purchase, p.term) for p in accepted) | dict.fromkeys((r.purchase, r.term) for r in readings)
    kinds |= dict.fromkeys((p.purchase, None) for p in provider.price_list)
    charts = []
    for purchase, term in sorted(kinds, key=lambda kind: (PURCHASES.index(kind[0]), kind[1] or "")):
        declared_prices = [] if term is not None else [p for p in provider.price_list if p.purchase == purchase]
        purchase_prices = [p for p in accepted if (p.purchase, p.term) == (purchase, term)]
        purchase_readings = [r for r in readings if (r.purchase, r.term) == (purchase, term)]
        chart = price_chart(purchase, term, declared_prices, purchase_prices, purchase_readings, held_since(findings, purchase, term), now)
        charts += [chart] if chart is not None else []
    return ProviderPrices(
        provider=provider.name,
        rows=tuple(_current_prices(provider, accepted, readings, now.date())),
        charts=tuple(charts),
        entries=(*_accepted_entries(accepted), *_declared_entries(provider.price_list)),
        readings=tuple(readings[::-1][:READINGS_SHOWN]),
        findings=group_findings(findings, {}),
        sources=tuple(s.kind for s in provider.price_sources),
    )


def held_since(findings: Iterable[FindingView], purchase: str, term: str | None) -> str | None:
    """The day since which a price is held; None if none is."""
    name = f"price.{purchase}" + (f".{term}" if term else "")
    open_findings = (f for f in findings if _is_held(f) and f.state in ("open", "acknowledged"))
    return next(
        (str(f.detail.get("since")) for f in open_findings if any(m.get("name") == name for m in f.detail.get("members", ()))), None
    )


def _is_held(finding: FindingView) -> bool:
    return str(finding.detail.get("subject", "")).startswith(HELD_SUBJECT)


def _current_prices(
    provider: Provider, accepted: Sequence[PriceView], readings: Sequence[PriceReadingView], on: date
) -> list[CurrentPrice]:
    rows = []
    for purchase in PURCHASES:
        declared_price = next((p for p in provider.price_list if p.purchase == purchase and _is_valid_on(p.since, p.until, on)), None)
        accepted_price = next((p for p in reversed(accepted) if p.purchase == purchase and p.term is None and p.until is None), None)
        reading = next((r for r in reversed(readings) if r.purchase == purchase), None)
        if declared_price is None and accepted_price is None and reading is None:
            continue
        # The newer of the accepted and the declared price is in use.
        price_in_use = (
            accepted_price
            if accepted_price is not None and (declared_price is None or declared_price.since <= accepted_price.since)
            else declared_price
        )
        rows.append(
            CurrentPrice(
                provider=provider.name,
                purchase=purchase,
                declared=format_amount(declared_price.price if declared_price else None),
                accepted=format_amount(accepted_price.usd_per_hour if accepted_price else None),
                since=str(price_in_use.since) if price_in_use else "",
                source=price_in_use.source if price_in_use else "",
                read=format_amount(reading.usd_per_instance_hour if reading else None),
                read_at=f"{reading.observed_at:%Y-%m-%d %H:%M} · {reading.source}" if reading else "",
                simulated=provider.simulated,
            )
        )
    return rows


def _is_valid_on(since: date, until: date | None, on: date) -> bool:
    return since <= on and (until is None or on < until)


def _accepted_entries(prices: Sequence[PriceView]) -> list[PriceListEntry]:
    newest = sorted(prices, key=lambda p: (p.purchase, p.since, p.first_seen_at), reverse=True)
    return [
        PriceListEntry(
            _purchase_label(p.purchase, p.term), "accepted", format_amount(p.usd_per_hour), str(p.since), str(p.until or ""), p.source
        )
        for p in newest
        if p.until != p.since  # one that another followed on the same day never held
    ]


def _declared_entries(prices: Sequence[Price]) -> list[PriceListEntry]:
    newest = sorted(prices, key=lambda p: (p.purchase, p.since), reverse=True)
    return [PriceListEntry(p.purchase, "declared", format_amount(p.price), str(p.since), str(p.until or ""), p.source) for p in newest]


def _purchase_label(purchase: str, term: str | None) -> str:
    return f"{purchase} {term}" if term else purchase


_SYMBOLS = {"contract": "square", "csv": "diamond", "gpuhunt": "circle", "opencost": "cross", "simulated": "star"}
_DEFAULT_SPAN = timedelta(days=365)


def price_chart(
    purchase: str,
    term: str | None,
    declared: Sequence[Price],
    accepted: Sequence[PriceView],
    readings: Sequence[PriceReadingView],
    held_since: str | None,
    now: datetime,
) -> Chart | None:
    """One kind of purchase of one provider, in USD per hour of the instance; None if nothing is known of it.

    `held_since`: the day (ISO 8601) from which readings are held back, which are drawn hollow.
    """
    end = now.date() + timedelta(days=1)
    days = [r.observed_at.date() for r in readings] + [p.since for p in accepted]
    begin = min(days) - timedelta(days=3) if days else end - _DEFAULT_SPAN
    data: list[Part] = []
    for source in dict.fromkeys(r.source for r in readings):
        source_readings = [r for r in readings if r.source == source]
        symbol = _SYMBOLS.get(source, "circle")
        open_marks = [f"{symbol}-open" if held_since and f"{r.observed_at:%Y-%m-%d}" >= held_since else symbol for r in source_readings]
        style = {"opacity": 0.75, "line": {"color": "$p1", "width": 1}}
        x, y, versions = (
            [getattr(r, name) for r in source_readings] for name in ("observed_at", "usd_per_instance_hour", "source_version")
        )
        hover = "%{x|%Y-%m-%d %H:%M}: %{y:.4f} USD/h<extra>%{text}</extra>"
        labels = {"text": versions, "name": f"read: {source}"}
        data.append(marks([moment.isoformat() for moment in x], y, "$p1", hover, size=6, symbol=open_marks, marker=style, **labels))
    declared_steps = [(p.since, p.until, p.price, p.source) for p in declared]
    accepted_steps = [(p.since, p.until, p.usd_per_hour, p.source) for p in accepted if p.until != p.since]
    data += _steps("declared", sorted(declared_steps), begin, end, colour="$p7", dash="dot")
    data += _steps("accepted", sorted(accepted_steps), begin, end, colour="$p0", width=2.5)
    if not data:
        return None
    purchase_name = purchase.replace("_", "-") + (f" {term}" if term else "")
    held_note = f" Hollow since {held_since}: held, not in use until accepted." if held_since else ""
    return Chart(
        name=f"price-{purchase_name.replace(' ', '-')}",
        section="prices",
        title=capitalize_first(purchase_name),
        caption=f"Steps: accepted and declared prices. Marks: readings of the sources.{held_note}",
        data=data,
        layout={
            "xaxis": axis("", type="date", range=[begin.isoformat(), end.isoformat()]),
            "yaxis": axis("USD per hour of the instance", rangemode="tozero"),
            "hovermode": "closest",
            "showlegend": True,
        },
        height=330,
        wide=True,
    )


def _steps(name: str, spans: Sequence[tuple[date, date | None, float, str]], begin: date, end: date, **style: Any) -> list[Part]:
    """One line of steps within the chart's range, broken where no price is valid; empty without a price."""
    x: list[str | None] = []
    y: list[float | None] = []
    sources: list[str] = []
    for since, until, price, source in spans:
        first, last = max(since, begin), min(until or end, end)
        if first >= last:
            continue
        if x and x[-1] != first.isoformat():
            x, y, sources = [*x, None], [*y, None], [*sources, ""]
        x, y, sources = [*x, first.isoformat(), last.isoformat()], [*y, price, price], [*sources, source, source]
    hover = f"{name}: %{{y:.4f}} USD/h from %{{x|%Y-%m-%d}}<extra>%{{text}}</extra>"
    return [line(x, y, style.pop("colour"), hover, text=sources, name=name, connectgaps=False, **style)] if x else []


def _choices(archive: Archive, declared: Declarations, provider: str) -> list[dict[str, str]]:
    """The teams' choices that the provider has results for: what its price is negotiated about."""
    measured = {part.series.workload for part in archive.newest_usable(providers=[provider])}
    return [
        {"team": team, "kind": kind, "workload": workload}
        for team, kind, preference in (matching_preferences(declared, None, None, None) if declared.teams else ())
        for workload in preference.workloads
        if workload in measured
    ]


def router(pages: PageRenderer, reader: ArchiveReader, declared: DeclarationsReader) -> APIRouter:
    """`/prices` and `/prices/{provider}`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/prices", response_class=HTMLResponse)
    def show_prices(request: Request, after: str = Query("", max_length=200)) -> Response:
        prices = prices_page(reader.archive(), declared.now(), pages.now().date(), after)
        return pages.page(request, "prices.html.j2", p=prices, begun=bool(after))

    @routes.get("/prices/{provider}", response_class=HTMLResponse)
    def show_provider_prices(request: Request, provider: str) -> Response:
        declarations, archive = declared.now(), reader.archive()
        providers = declarations.providers
        if provider not in providers:
            raise HTTPException(404, f'no provider is declared as "{provider}"; expected one of {", ".join(sorted(providers))}')
        prices = provider_prices(archive, providers[provider], pages.now())
        return pages.page(request, "price_history.html.j2", p=prices, choices=_choices(archive, declarations, provider))

    return routes
