"""The accepted price of a provider: the newest of accepted and declared prices; accept a new one."""

from __future__ import annotations

import math
from datetime import date, datetime, timezone
from typing import get_args

from plumbline.analysis.prices.check import SOURCE_PRIORITY, PriceVerdict, check_price
from plumbline.archive import Archive, PriceReadingView, PriceView
from plumbline.declarations import Declarations, Price, Provider
from plumbline.declarations.providers.rates import Purchase, Term
from plumbline.findings.price import CHANGED_SUBJECT, HELD_SUBJECT, format_price_name, format_price_source, price_subject, price_unit
from plumbline.results.finding import Finding
from plumbline.results.price_reading import Reading
from plumbline.workflows.decide import RecordedDecision, decide_all

_READINGS = 400
"""Of one price, more than a year of daily ones: since when a price is read stays the same as long as it is."""


def accepted_price(archive: Archive, provider: Provider, purchase: Purchase, term: Term | None, on: date) -> float | None:
    """The accepted price on a day, in USD per GPU-hour: what was accepted, or what is declared if that is newer; None without either."""
    held = archive.accepted_price(provider.name, purchase, term)
    listed = _declared_price(provider, purchase, term, on)
    if listed is not None and (held is None or listed.since > held.since):
        return float(listed.price) / provider.accelerator.count
    return None if held is None else held.usd_per_hour / provider.accelerator.count


def _declared_price(provider: Provider, purchase: Purchase, term: Term | None, on: date) -> Price | None:
    """The declared price that holds on a day; none is declared for a term. Not what a simulated change makes of it: that is to be noticed."""
    if term is not None:
        return None
    return next((p for p in provider.prices if p.purchase == purchase and p.since <= on and (p.until is None or on < p.until)), None)


def checked_price(archive: Archive, provider: Provider, purchase: Purchase, term: Term | None, at: datetime) -> PriceVerdict | None:
    """What the archive's readings of one price mean at a time; None if there are none, or none of a source that tells prices."""
    readings = _readings(archive, provider.name, purchase, term)
    if not any(r.source in SOURCE_PRIORITY for r in readings):
        return None
    on_demand = _on_demand(archive, provider, at) if purchase == "reserved" else None
    return check_price(readings, accepted_price(archive, provider, purchase, term, at.date()), on_demand=on_demand, now=at)


def accept_price(
    archive: Archive,
    provider: Provider,
    purchase: Purchase,
    term: Term | None,
    *,
    by: str,
    why: str,
    usd_per_gpu_hour: float | None = None,
) -> PriceView:
    """A person's decision: from now on this is the price. Without `usd_per_gpu_hour` it is the one that the newest readings tell.

    What stands of findings about this price is accepted with it. LookupError if nothing was read and no price is given; ValueError for a
    price that is not above 0 (one that is read as 0 has to be given), and without who and why.
    """
    now, unit = datetime.now(timezone.utc), price_unit(provider.accelerator.kind)
    checked = checked_price(archive, provider, purchase, term, now)
    if usd_per_gpu_hour is None:
        if checked is None:
            raise LookupError(
                f"no {format_price_name(purchase, term)} price of {provider.name} was ever read; expected one to be given, in USD per {unit} "
                f"(`{accept_command(provider, purchase, term)} --price USD`)"
            )
        usd_per_gpu_hour = checked.price
    if not (math.isfinite(usd_per_gpu_hour) and usd_per_gpu_hour > 0):
        named = f"the {format_price_name(purchase, term)} price of {provider.name}"
        raise ValueError(
            f"{named} cannot be {usd_per_gpu_hour:g}; expected one above 0 in USD per {unit} (`{accept_command(provider, purchase, term)} "
            "--price USD`)"
        )
    since, source = now.date(), f"given by {by}"
    if checked is not None and usd_per_gpu_hour == checked.price:
        since, source = checked.since.date(), format_price_source(checked.reading)
    made = store_accepted_price(archive, provider, purchase, term, usd_per_gpu_hour, since, source, on=now.date(), by=by, why=why)
    subjects = {price_subject(kind, purchase, term) for kind in (CHANGED_SUBJECT, HELD_SUBJECT)}
    for finding in archive.findings_of(provider.name, "price", unsettled=True):
        if finding.detail.get("subject") in subjects:
            archive.set_finding_state(finding.finding_id, "accepted", by=by, why=why)
    return made


def accept_price_and_decide(
    archive: Archive,
    declared: Declarations,
    provider: Provider,
    purchase: Purchase,
    term: Term | None,
    *,
    by: str,
    why: str,
    usd_per_gpu_hour: float | None = None,
) -> tuple[PriceView, list[RecordedDecision]]:
    """Accept a price, and make every team's decision again at once, with no rerun; see `accept_price` and `rank_all`."""
    today = datetime.now(timezone.utc).date()
    # What is first by the price of before is stored too, if it is not: else nobody could say what the new one changed.
    decide_all(archive, declared, today, f"a price of {provider.name} is about to change")
    made = accept_price(archive, provider, purchase, term, by=by, why=why, usd_per_gpu_hour=usd_per_gpu_hour)
    kind = f"{purchase} {term}" if term else purchase
    return made, decide_all(
        archive, declared, today, f"{by} accepted {made.usd_per_hour:.10g} USD/h as the {kind} price of {provider.name}"
    )


def accept_price_finding(archive: Archive, declared: Declarations, finding: Finding, *, by: str, why: str) -> PriceView:
    """Accept the price that a finding is about; see `accept_price`. Every team's decisions follow at once. ValueError for a finding about
    nothing that is declared or accepted."""
    provider = declared.providers.get(finding.provider)
    if provider is None:
        raise ValueError(f'finding {finding.finding_id} is about "{finding.provider}", which is not declared any more')
    terms: tuple[Term | None, ...] = (None, *get_args(Term))
    for kind in (CHANGED_SUBJECT, HELD_SUBJECT):
        for purchase in get_args(Purchase):
            for term in terms:
                if price_subject(kind, purchase, term) == finding.subject:
                    return accept_price_and_decide(archive, declared, provider, purchase, term, by=by, why=why)[0]
    raise ValueError(f'finding {finding.finding_id} is about "{finding.subject}", which is no price that can be accepted')


def accept_command(provider: Provider, purchase: Purchase, term: Term | None) -> str:
    """The command line that accepts one price of a provider."""
    of = "" if purchase == "on_demand" else f" --purchase {purchase}"
    return f"plumbline prices accept {provider.name}{of}{f' --term {term}' if term else ''} --why …"


def store_accepted_price(
    archive: Archive,
    provider: Provider,
    purchase: Purchase,
    term: Term | None,
    usd_per_gpu_hour: float,
    since: date,
    source: str,
    *,
    on: date,
    by: str,
    why: str,
) -> PriceView:
    """On the day `on`, let a price follow the one that holds, from `since` on or, if that was earlier, from when the one before began.

    The one that was accepted already changes nothing, unless another one was declared since.
    """
    usd = usd_per_gpu_hour * provider.accelerator.count
    before = archive.accepted_price(provider.name, purchase, term)
    listed = _declared_price(provider, purchase, term, on)
    if before is not None and before.usd_per_hour == usd and (listed is None or listed.since <= before.since):
        return before
    since = max([since, *([before.since] if before else []), *([listed.since] if listed else [])])
    return archive.accept_price(provider.name, purchase, term, usd, since, source, by=by, why=why)


def _on_demand(archive: Archive, provider: Provider, at: datetime) -> float | None:
    """What an hour costs on demand by the newest reading that is not held, else by what is accepted."""
    checked = checked_price(archive, provider, "on_demand", None, at)
    if checked is not None and checked.meaning != "held":
        return checked.price
    return accepted_price(archive, provider, "on_demand", None, at.date())


def _readings(archive: Archive, provider: str, purchase: Purchase, term: Term | None) -> list[Reading]:
    stored = archive.price_readings(provider, purchase, term, latest=_READINGS)
    return [_reading(view) for view in stored if view.term == term]


def _reading(view: PriceReadingView) -> Reading:
    names = Reading.__dataclass_fields__
    return Reading(**{name: getattr(view, name) for name in names})
