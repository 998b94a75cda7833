"""Reserved hours in words: when they end, and the price below which renewing them pays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plumbline.metrics.formatting import format_count, format_money, format_monthly, format_percent

if TYPE_CHECKING:  # it loads numpy, which a list of findings does not need
    from plumbline.analysis.cost.commitments import Commitment, OtherPrice


def end_text(c: Commitment) -> str:
    """Such as `2027-01-01, in 34 days`."""
    if c.renewed:
        return f"{c.until}, renewed until {c.renewed}"
    left = f"in {format_count((c.until - c.on).days, 'day')}" if c.running else "expired" if c.on >= c.until else "not begun"
    return f"{c.until}, {left}"


def renewal_text(c: Commitment) -> str:
    """The price below which renewing pays, and against what; an en dash without another price."""
    if not c.used_declared:
        return "not known without committed.used"
    return "–" if c.renew_below is None else f"{format_money(c.renew_below, 'USD/h')}: {_other_text(c.against)}"


def renewal_verdict(c: Commitment) -> str:
    """What is paid now, how much of it is used, and whether to renew at that price; without the cheapest other price, why that is not known."""
    paid = format_money(c.usd_per_hour, "USD/h")
    if c.accelerators:
        paid = f"{format_money(c.usd_per_hour / c.accelerators, 'USD per GPU-hour')}"
    if c.used_share is None:
        return f"pays {paid}; whether renewing pays is not known without committed.used"
    known = f"pays {paid}, {format_percent(c.used_share)} used"
    usd = c.renewing_usd
    if usd is None:
        return f"{known}; no other price of as many of the same accelerator is known"
    if usd >= 0:
        return f"{known}: renew, it saves {_monthly(usd)} against {_other_text(c.against)}"
    return f"{known}: do not renew at this price, it costs {_monthly(usd)} more than {_other_text(c.against)}"


def _monthly(usd: float) -> str:
    return format_monthly(abs(usd))


def commitment_data(c: Commitment) -> dict[str, Any]:
    """The fields of a commitment for JSON, the other price in words."""
    return {**vars(c), "against": _other_text(c.against), "renewing_usd_a_month": c.renewing_usd, "verdict": renewal_verdict(c)}


def _other_text(other: OtherPrice | None) -> str:
    if other is None:
        return ""
    share = "" if other.used is None else f" for the {format_percent(other.used)} of hours that were used"
    return f"{other.provider}, {format_money(other.usd_per_hour, 'USD/h')} {other.purchase.replace('_', ' ')}{share}"
