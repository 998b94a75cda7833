"""Price findings: open them from checked prices, and reconcile them with the open ones.

Severity: never page. A list price that rose, or fell by 10 % or more, warns: the ranking may have changed; a smaller fall is an info. A spot
price that rose warns, one that fell is an info. A held price is an info at its first reading and a warn from the second on.

A list price's finding resolves when a person accepts the new price, or the accepted one is read twice. A spot price's finding resolves with
the next check, which compares with the new level. A hold resolves with a plausible price, a second source, or a person's decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from plumbline.analysis.prices.check import PriceVerdict
from plumbline.findings import Reconciliation, provider_finding
from plumbline.findings.types.held_price import HeldPrice
from plumbline.findings.types.price_change import PriceFinding, format_price_name
from plumbline.metrics.formatting import format_amount, format_money, format_money_change
from plumbline.results.finding import Finding, Member, PriceMove, Severity
from plumbline.results.price_reading import Reading
from plumbline.words.prices import verdict_reason

LARGE_FALL = 0.10
GPU_HOUR, CORE_HOUR = "GPU-hour", "core-hour"


def price_unit(accelerator: str) -> str:
    """The unit of a price per hour by the kind of accelerator: a GPU, or a core without one."""
    return CORE_HOUR if accelerator == "cpu" else GPU_HOUR


def price_finding(checked: PriceVerdict, simulated: bool = False, unit: str = GPU_HOUR) -> Finding | None:
    """The finding of one checked price; None unless a change is confirmed or the price is held. `unit`: what the price is for."""
    if checked.status == "changed":
        return _changed_finding(checked, simulated, unit)
    return _held_finding(checked, simulated, unit) if checked.status == "held" else None


def reconcile_prices(
    checks: Sequence[PriceVerdict], open_findings: Sequence[Finding], simulated: bool = False, unit: str = GPU_HOUR
) -> Reconciliation:
    """Compare one provider's checks, one for each price, with its open price findings."""
    new, continued, unchanged, resolved = [], [], [], []
    for checked in checks:
        reading = checked.reading
        change, hold = (each.find(open_findings, reading.purchase, reading.term) for each in (PriceFinding, HeldPrice))
        finding = price_finding(checked, simulated, unit)
        if checked.status == "outdated":  # says nothing about what is open
            unchanged += [open_finding for open_finding in (change, hold) if open_finding is not None]
            continue
        if hold is not None and checked.status != "held":
            resolved.append((hold, _hold_over(checked, unit)))
        if change is not None and (why := _change_over(checked, unit)):
            resolved.append((change, why))
            change = None
        if finding is None:
            continue
        before = hold if checked.status == "held" else change
        if before is None:
            new.append(finding)
        elif (before.title, before.severity) == (finding.title, finding.severity):
            unchanged.append(before)
        else:
            continued.append(replace(finding, finding_id=before.finding_id, since=before.since, state=before.state))
    return Reconciliation(tuple(new), tuple(continued), tuple(resolved), tuple(unchanged))


def _changed_finding(checked: PriceVerdict, simulated: bool, unit: str) -> Finding:
    reading, accepted, effect = checked.reading, checked.accepted, checked.effect
    assert accepted is not None and effect is not None  # of a changed price
    spot = reading.purchase == "spot"
    severity: Severity = "warn" if effect > 0 or (not spot and effect <= -LARGE_FALL) else "info"
    move = format_money_change(accepted, checked.price, f"USD per {unit}")
    proof = "median of three readings" if spot else _format_sightings(checked)
    consequence = (
        "spot prices are compared with the new level from now on" if spot else "costs use the accepted price until you accept the new one"
    )
    return _finding(
        checked,
        PriceFinding,
        severity,
        title=f"{format_price_name(reading.purchase, reading.term)} price {move}",
        evidence=f"{proof} ({format_price_source(reading)})",
        consequence=consequence,
        simulated=simulated,
    )


def _held_finding(checked: PriceVerdict, simulated: bool, unit: str) -> Finding:
    reading = checked.reading
    severity: Severity = "warn" if checked.sightings > 1 else "info"
    if checked.accepted is None:
        consequence = "no price is accepted yet; costs use this one once you accept it or a second source confirms it"
    else:
        consequence = f"costs use the accepted {format_money(checked.accepted, f'USD per {unit}')} until you accept this price or a second source confirms it"
    return _finding(
        checked,
        HeldPrice,
        severity,
        title=f"{format_price_name(reading.purchase, reading.term)} price of {format_money(checked.price, f'USD per {unit}')} is held",
        evidence=f"{_format_sightings(checked)} ({format_price_source(reading)}): {verdict_reason(checked)}",
        consequence=consequence,
        simulated=simulated,
    )


def _finding(
    checked: PriceVerdict, of: type[PriceFinding], severity: Severity, *, title: str, evidence: str, consequence: str, simulated: bool
) -> Finding:
    reading = checked.reading
    gpus, accepted = reading.gpus, checked.accepted
    # Time and price, not only the day: a price can return on the day on which a finding about it was settled.
    began = f"{checked.since.isoformat()} {checked.price:.6g}"
    return provider_finding(
        reading.provider,
        "price",
        of.of(reading.purchase, reading.term),
        began=began,
        since=str(checked.since.date()),
        severity=severity,
        title=title,
        evidence=f"{title}, {evidence}",
        explanation=f"{consequence}{_steps(checked.steps)}",
        consequence=consequence,
        simulated=simulated,
        effect=checked.effect,
        prices=() if accepted is None else (PriceMove(reading.provider, accepted * gpus, checked.price * gpus),),
        members=(Member(f"price.{reading.purchase}{f'.{reading.term}' if reading.term else ''}", title, checked.effect),),
    )


def _hold_over(checked: PriceVerdict, unit: str) -> str:
    price = format_money(checked.price, f"USD per {unit}")
    if checked.status == "first":
        return f"resolved: {price} is the first price, {verdict_reason(checked)}"
    if checked.status == "changed" and checked.confirmed_by:
        return f"resolved: {checked.confirmed_by} confirms {price}"
    if checked.status == "unchanged":
        return f"resolved: {format_price_source(checked.reading)} reports the accepted {price}"
    return f"resolved: {format_price_source(checked.reading)} reports a plausible price again, {price}"


def _change_over(checked: PriceVerdict, unit: str) -> str | None:
    """Why an open change resolves; None if it does not."""
    accepted = format_money(checked.accepted, f"USD per {unit}")
    if checked.reading.purchase == "spot" and checked.status in ("unchanged", "changed"):
        return f"resolved: spot prices are now compared with {accepted}"
    if checked.status == "unchanged" and checked.sightings > 1:
        return f"resolved: {format_price_source(checked.reading)} reported the accepted {accepted} twice"
    return None


def _format_sightings(checked: PriceVerdict) -> str:
    if checked.confirmed_by is not None:
        return f"confirmed by {checked.confirmed_by}"
    return {1: "seen once", 2: "seen twice"}.get(checked.sightings, f"seen {checked.sightings} times")


def format_price_source(reading: Reading) -> str:
    """Source and version, such as `gpuhunt 20261121-1`."""
    named = reading.source_version.startswith(reading.source)
    return reading.source_version if named else f"{reading.source} {reading.source_version}"


def _steps(steps: Sequence[Reading]) -> str:
    if not steps:
        return ""
    return "; earlier readings: " + ", ".join(f"{format_amount(s.usd_per_gpu_hour)} on {s.observed_at.date()}" for s in steps[-3:])
