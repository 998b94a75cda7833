"""Prices in force and what they changed, and the price history of one provider. All in USD per hour of the whole instance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from fastapi import HTTPException, Query, Request
from fastapi.responses import Response

from plumbline.analysis.prices.book import with_effective_prices
from plumbline.answers.monthly_costs import monthly_costs
from plumbline.answers.prices_in_force import PURCHASES, TermPrice, pending_text, prices_of, term_prices
from plumbline.archive import Archive, FindingView, PriceReadingView
from plumbline.dashboard.rendering import NavEntry, PageRoutes
from plumbline.dashboard.site import Site
from plumbline.declarations import Declarations, Price
from plumbline.findings.types.held_price import HeldPrice
from plumbline.findings.types.price_change import format_price_name
from plumbline.metrics.formatting import ABSENT, capitalize_first, format_money, format_money_change
from plumbline.presentation.charts.chart import Chart, Part, axis, line, marks
from plumbline.presentation.findings_inbox import InboxGroup, group_findings
from plumbline.results.finding import OPEN_STATES

MAX_READINGS = 400
"""Most readings of one provider: more than a year of daily ones of one price."""
READINGS_SHOWN = 20
PROVIDERS_PER_PAGE = 12
"""On one page of the list."""
FINDINGS_SHOWN = 50


@dataclass(frozen=True)
class CurrentPrice:
    """One purchase and term of one provider. `price`: in force, with the one before it; empty without one. `since`, `source`, `by`, `why`: its own.
    `pending`: what waits for a decision, `finding_id` where."""

    provider: str
    purchase: str
    price: str
    since: str
    source: str
    by: str
    why: str
    read: str
    read_at: str
    pending: str
    finding_id: str
    simulated: bool


@dataclass(frozen=True)
class PricesPage:
    """`after`: the provider after which the next page begins, None on the last one."""

    rows: tuple[CurrentPrice, ...]
    after: str | None
    held: tuple[InboxGroup, ...]
    changed: tuple[InboxGroup, ...]


@dataclass(frozen=True)
class ProviderPrices:
    """`charts`: one for each kind of purchase of which anything is known. `held`: what was in force when, by its kind, newest first.

    `readings`: the newest ones, newest first. `unsettled`, `settled`: findings."""

    provider: str
    rows: tuple[CurrentPrice, ...]
    charts: tuple[Chart, ...]
    held: tuple[tuple[str, Price], ...]
    readings: tuple[PriceReadingView, ...]
    unsettled: tuple[InboxGroup, ...]
    settled: tuple[InboxGroup, ...]
    sources: tuple[str, ...]


def prices_page(archive: Archive, declared: Declarations, on: date, after: str = "") -> PricesPage:
    """Prices of declared providers after a name on a day, and unresolved price findings."""
    names = sorted(name for name in declared.providers if name > after)
    page_names = names[:PROVIDERS_PER_PAGE]
    newest = archive.newest_readings(page_names)
    readings = {name: [r for r in newest if r.provider == name] for name in page_names}
    places = [declared.providers[name] for name in page_names]
    unsettled = archive.findings_of(page_names, "price", unsettled=True)
    rows = [current_price(row) for row in term_prices(archive, places, readings, unsettled, on)]
    open_findings = archive.findings_page(state=OPEN_STATES, kind="price", limit=FINDINGS_SHOWN).rows
    held_findings = [f for f in open_findings if _is_held(f)]
    changed_findings = [f for f in open_findings if f not in held_findings]
    return PricesPage(
        tuple(rows),
        page_names[-1] if len(names) > len(page_names) else None,
        _grouped(archive, declared, held_findings),
        _grouped(archive, declared, changed_findings),
    )


def provider_prices(archive: Archive, declared: Declarations, name: str, now: datetime) -> ProviderPrices:
    """One declared provider's prices: what they changed, history, readings."""
    accepted = archive.prices(name)
    provider = with_effective_prices(declared.providers[name], accepted)
    readings = archive.price_readings(name, latest=MAX_READINGS)
    findings = archive.findings_page(kind="price", provider=name, limit=FINDINGS_SHOWN).rows
    known = {(p.purchase, p.term) for p in accepted} | {(r.purchase, r.term) for r in readings}
    known |= {(p.purchase, None) for p in provider.price_list}
    charts, held = [], []
    for purchase, term in ((p, term) for p in PURCHASES for term in sorted((t for kind, t in known if kind == p), key=lambda t: t or "")):
        prices = prices_of(provider, accepted, purchase, term)
        purchase_readings = [r for r in readings if (r.purchase, r.term) == (purchase, term)]
        chart = price_chart(purchase, term, prices, purchase_readings, held_since(findings, purchase, term), now)
        charts += [chart] if chart is not None else []
        held += [(format_price_name(purchase, term), price) for price in reversed(prices)]
    return ProviderPrices(
        provider=name,
        rows=tuple(map(current_price, term_prices(archive, [declared.providers[name]], {name: readings}, findings, now.date()))),
        charts=tuple(charts),
        held=tuple(held),
        readings=tuple(readings[::-1][:READINGS_SHOWN]),
        unsettled=_grouped(archive, declared, [f for f in findings if f.state in OPEN_STATES]),
        settled=_grouped(archive, declared, [f for f in findings if f.state not in OPEN_STATES]),
        sources=tuple(s.kind for s in provider.price_sources),
    )


def _grouped(archive: Archive, declared: Declarations, findings: Sequence[FindingView]) -> tuple[InboxGroup, ...]:
    return group_findings(findings, monthly_costs(archive, declared, findings))


def held_since(findings: Iterable[FindingView], purchase: str, term: str | None) -> str | None:
    """The day since which a price is held; None if none is."""
    name = f"price.{purchase}" + (f".{term}" if term else "")
    open_findings = (f for f in findings if _is_held(f) and f.state in OPEN_STATES)
    return next(
        (str(f.detail.get("since")) for f in open_findings if any(m.get("name") == name for m in f.detail.get("members", ()))), None
    )


def _is_held(finding: FindingView) -> bool:
    return HeldPrice.owns(finding.kind, str(finding.detail.get("subject", "")))


def current_prices(archive: Archive, declared: Declarations, name: str, on: date) -> tuple[CurrentPrice, ...]:
    """The price in force of each purchase and term of one provider; empty for one that is not declared, or of which no price is known."""
    if name not in declared.providers:
        return ()
    waiting = archive.findings_of(name, "price", unsettled=True)
    readings = {name: [r for r in archive.newest_readings([name]) if r.provider == name]}
    return tuple(map(current_price, term_prices(archive, [declared.providers[name]], readings, waiting, on)))


def current_price(row: TermPrice) -> CurrentPrice:
    reading, pending = row.reading, row.pending
    return CurrentPrice(
        provider=row.provider,
        purchase=row.name,
        price="" if row.usd is None else format_money_change(row.before, row.usd, "USD/h"),
        since="" if row.since is None else str(row.since),
        source=row.source,
        by=row.by,
        why=row.why,
        read=format_money(reading.usd_per_instance_hour, "USD/h") if reading else ABSENT,
        read_at=f"{reading.observed_at:%Y-%m-%d %H:%M} · {reading.source}" if reading else "",
        pending=pending_text(row),
        finding_id="" if pending is None else pending.finding_id,
        simulated=row.simulated,
    )


_SYMBOLS = {"contract": "square", "csv": "diamond", "gpuhunt": "circle", "opencost": "cross", "simulated": "star"}
_DEFAULT_SPAN = timedelta(days=365)


def price_chart(
    purchase: str,
    term: str | None,
    prices: Sequence[Price],
    readings: Sequence[PriceReadingView],
    held_since: str | None,
    now: datetime,
) -> Chart | None:
    """One kind of purchase of one provider, in USD per hour of the instance; None if nothing is known of it.

    `prices`: what was in force when, oldest first. `held_since`: the day (ISO 8601) from which readings are held back; they are drawn
    hollow.
    """
    end = now.date() + timedelta(days=1)
    days = [r.observed_at.date() for r in readings] + [p.since for p in prices if p.until is not None]
    days += [p.since for p in prices[1:]]
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
    data += _steps(prices, begin, end)
    if not data:
        return None
    purchase_name = format_price_name(purchase, term)
    held_note = f" Hollow since {held_since}: held, not in use until accepted." if held_since else ""
    return Chart(
        name=f"price-{purchase_name.replace(' ', '-')}",
        section="prices",
        title=capitalize_first(purchase_name),
        caption=f"Line: the price in force. Marks: readings of the sources.{held_note}",
        data=data,
        layout={
            "xaxis": axis("", type="date", range=[begin.isoformat(), end.isoformat()]),
            "yaxis": axis("USD per hour of the instance", rangemode="tozero"),
            "hovermode": "closest",
            "showlegend": len(data) > 1,
        },
        height=330,
        wide=True,
    )


def _steps(prices: Sequence[Price], begin: date, end: date) -> list[Part]:
    """One line of steps within the chart's range, broken where no price is in force; empty without a price."""
    x: list[str | None] = []
    y: list[float | None] = []
    sources: list[str] = []
    for price in prices:
        first, last = max(price.since, begin), min(price.until or end, end)
        if first >= last:
            continue
        if x and x[-1] != first.isoformat():
            x, y, sources = [*x, None], [*y, None], [*sources, ""]
        x, y, sources = [*x, first.isoformat(), last.isoformat()], [*y, price.price, price.price], [*sources, price.source, price.source]
    hover = "%{y:.4f} USD/h from %{x|%Y-%m-%d}<extra>%{text}</extra>"
    return [line(x, y, "$p0", hover, width=2.5, text=sources, name="in force", connectgaps=False)] if x else []


def _choices(archive: Archive, declared: Declarations, provider: str) -> list[dict[str, str]]:
    """The teams' choices that the provider has results for, which its price can change."""
    measured = {part.series.workload for part in archive.newest_usable(providers=[provider])}
    return [
        {"team": team, "kind": kind, "workload": workload}
        for team, kind, preference in declared.choices()
        for workload in preference.workloads
        if workload in measured
    ]


def router(site: Site) -> PageRoutes:
    """`/prices` and `/prices/{provider}`."""
    routes = PageRoutes(NavEntry(70, "Prices", "/prices"), money=True)
    pages, reader, declared = site.pages, site.reader, site.declared

    @routes.page("/prices")
    def show_prices(request: Request, after: str = Query("", max_length=200)) -> Response:
        prices = prices_page(reader.archive(), declared.now(), pages.now().date(), after)
        return pages.page(request, "prices.html.j2", prices, p=prices, begun=bool(after))

    @routes.page("/prices/{provider}")
    def show_provider_prices(request: Request, provider: str) -> Response:
        declarations, archive = declared.now(), reader.archive()
        providers = declarations.providers
        if provider not in providers:
            raise HTTPException(404, f'no provider is declared as "{provider}"; expected one of {", ".join(sorted(providers))}')
        prices = provider_prices(archive, declarations, provider, pages.now())
        return pages.page(request, "price_history.html.j2", prices, p=prices, choices=_choices(archive, declarations, provider))

    return routes
