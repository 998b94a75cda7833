"""From checked prices to findings, and what a new check means for the price findings that stand.

Severity. Nothing about a price has to wake anybody: never page. A list price that rose, or fell by 10 % or more, is a warn: the ranking of
providers may be wrong now. A smaller fall is an info. A spot price that rose is a warn, one that fell an info. A price that is held is an
info when it is read first, and a warn from the second time on: then the source does not correct itself, and somebody has to look.

A list price stays what was accepted until a person accepts the new one; its finding stands until then, or until the old price was read twice
again. A spot price is held against the new level at once, so its finding is over with the next check. A hold is over when the source names a
price that can be, or when somebody or a second source confirms it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from plumbline.analysis.drift import comparison
from plumbline.analysis.prices.check import PriceVerdict
from plumbline.declarations.providers.rates import Purchase, Term
from plumbline.findings import Reconciliation
from plumbline.results.finding import Finding, Member, Severity, finding_id
from plumbline.results.price_reading import Reading

LARGE_FALL = 0.10
CHANGED_SUBJECT, HELD_SUBJECT = "price", "held price"
GPU_HOUR, CORE_HOUR = "GPU-hour", "core-hour"


def format_price_name(purchase: Purchase, term: Term | None) -> str:
    """The price in words, such as `on-demand` or `reserved 1y`."""
    return " ".join(filter(None, (purchase.replace("_", "-"), term)))


def price_unit(accelerator: str) -> str:
    """What a price per hour is for, by the kind of accelerator: a GPU, or a core where there is none."""
    return CORE_HOUR if accelerator == "cpu" else GPU_HOUR


def price_subject(kind: str, purchase: Purchase, term: Term | None) -> str:
    """The subject of a finding about a price: `price on-demand`, `held price reserved 1y`."""
    return f"{kind} {format_price_name(purchase, term)}"


def price_finding(checked: PriceVerdict, simulated: bool = False, unit: str = GPU_HOUR) -> Finding | None:
    """The finding that one checked price is; None if it changed nothing that is confirmed and nothing is held. `unit`: what the price is for."""
    if checked.meaning == "changed":
        return _changed(checked, simulated, unit)
    return _held(checked, simulated, unit) if checked.meaning == "held" else None


def reconcile_prices(
    checks: Sequence[PriceVerdict], standing: Sequence[Finding], simulated: bool = False, unit: str = GPU_HOUR
) -> Reconciliation:
    """Hold one provider's checks, one for each price, against its price findings that stand."""
    known = {f.subject: f for f in standing if f.kind == "price"}
    new, continued, seen, over = [], [], [], []
    for checked in checks:
        reading = checked.reading
        change, hold = (known.get(price_subject(kind, reading.purchase, reading.term)) for kind in (CHANGED_SUBJECT, HELD_SUBJECT))
        found = price_finding(checked, simulated, unit)
        if hold is not None and checked.meaning != "held":
            over.append((hold, _hold_over(checked, unit)))
        if change is not None and (why := _change_over(checked, unit)):
            over.append((change, why))
            change = None
        if found is None:
            continue
        before = hold if checked.meaning == "held" else change
        if before is None:
            new.append(found)
        elif (before.title, before.severity) == (found.title, found.severity):
            seen.append(before)
        else:
            headline = found.headline.replace(f"since {found.since}", f"since {before.since}")
            continued.append(replace(found, finding_id=before.finding_id, since=before.since, headline=headline, state=before.state))
    return Reconciliation(tuple(new), tuple(continued), tuple(over), tuple(seen))


def _changed(checked: PriceVerdict, simulated: bool, unit: str) -> Finding:
    reading, accepted, effect = checked.reading, checked.accepted, checked.effect
    assert accepted is not None and effect is not None  # only a price that was held against another one has changed
    spot = reading.purchase == "spot"
    severity: Severity = "warn" if effect > 0 or (not spot and effect <= -LARGE_FALL) else "info"
    move = f"{format_usd(accepted, checked.price)} → {format_usd(checked.price, accepted)} USD per {unit} ({comparison.format_relative_change(effect)})"
    proof = "median of three readings" if spot else _seen(checked)
    consequence = (
        "spot prices are held against the new level from now on"
        if spot
        else "costs are still reckoned with the accepted price; what is accepted is what they are reckoned with next"
    )
    return _finding(
        checked,
        CHANGED_SUBJECT,
        severity,
        title=f"{format_price_name(reading.purchase, reading.term)} price {move}",
        headline=f"since {checked.since.date()}, {proof} ({format_price_source(reading)})",
        explanation=f"{consequence}{_steps(checked.steps)}",
        simulated=simulated,
    )


def _held(checked: PriceVerdict, simulated: bool, unit: str) -> Finding:
    reading = checked.reading
    severity: Severity = "warn" if checked.sightings > 1 else "info"
    accepted = f"the accepted {format_usd(checked.accepted)} holds" if checked.accepted is not None else "no price is accepted yet"
    return _finding(
        checked,
        HELD_SUBJECT,
        severity,
        title=f"{format_price_name(reading.purchase, reading.term)} price of {format_usd(checked.price, checked.accepted)} USD per {unit} is held",
        headline=f"since {checked.since.date()}, {_seen(checked)} ({format_price_source(reading)}): {checked.reason}",
        explanation=f"{accepted}; nothing uses this price until somebody accepts it or a second source says the same{_steps(checked.steps)}",
        simulated=simulated,
    )


def _finding(
    checked: PriceVerdict, kind: str, severity: Severity, *, title: str, headline: str, explanation: str, simulated: bool
) -> Finding:
    reading = checked.reading
    subject = price_subject(kind, reading.purchase, reading.term)
    # The time and the price, not the day alone: a price can come back on the day on which a finding about it was settled.
    began = f"{checked.since.isoformat()} {checked.price:.6g}"
    return Finding(
        finding_id=finding_id(reading.provider, began, "price", subject),
        series_key="",
        campaign_id=None,
        kind="price",
        severity=severity,
        headline=f"{severity.upper()}  {'SIMULATED  ' if simulated else ''}{reading.provider} · {title}, {headline}",
        explanation=explanation,
        provider=reading.provider,
        workload_kind="",
        workload="",
        subject=subject,
        title=title,
        simulated=simulated,
        effect=checked.effect,
        members=(Member(f"price.{reading.purchase}{f'.{reading.term}' if reading.term else ''}", title, checked.effect),),
        since=str(checked.since.date()),
    )


def _hold_over(checked: PriceVerdict, unit: str) -> str:
    price = f"{format_usd(checked.price, checked.accepted)} USD per {unit}"
    if checked.meaning == "changed" and checked.confirmed_by:
        return f"confirmed: {checked.confirmed_by} says {price} too"
    if checked.meaning in ("unchanged", "first"):
        return f"over: {format_price_source(checked.reading)} says {price}, which is what is accepted"
    return f"over: {format_price_source(checked.reading)} says {price}, which can be"


def _change_over(checked: PriceVerdict, unit: str) -> str | None:
    """Why a change that stands is over; None if it goes on."""
    accepted = checked.accepted
    if checked.reading.purchase == "spot" and checked.meaning in ("unchanged", "changed"):
        return f"over: the spot price is held against {format_usd(accepted)} USD per {unit} now"
    if checked.meaning == "unchanged" and checked.sightings > 1:
        return f"over: {format_price_source(checked.reading)} says the accepted {format_usd(accepted)} USD per {unit} again, seen twice"
    return None


def _seen(checked: PriceVerdict) -> str:
    if checked.confirmed_by is not None:
        return f"confirmed by {checked.confirmed_by}"
    return {1: "seen once", 2: "seen twice"}.get(checked.sightings, f"seen {checked.sightings} times")


def format_price_source(reading: Reading) -> str:
    """Who told the price, such as `gpuhunt 20261121-1`."""
    named = reading.source_version.startswith(reading.source)
    return reading.source_version if named else f"{reading.source} {reading.source_version}"


def _steps(steps: Sequence[Reading]) -> str:
    if not steps:
        return ""
    return "; before that " + ", ".join(f"{format_usd(s.usd_per_gpu_hour)} was read on {s.observed_at.date()}" for s in steps[-3:])


def format_usd(price: float | None, beside: float | None = None) -> str:
    """To a hundredth of a cent, cents at least, and with as many decimals as tell two prices apart."""
    if price is None:
        return "none"
    digits = 4
    while digits < 8 and beside is not None and price != beside and f"{price:.{digits}f}" == f"{beside:.{digits}f}":
        digits += 1
    whole, _, decimals = f"{price:.{digits}f}".partition(".")
    return f"{whole}.{decimals.rstrip('0'):0<2}"
