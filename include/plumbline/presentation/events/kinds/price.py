"""Prices: a source that reports another one, one that a person accepted, and one that is declared from a day on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, time, timezone
from itertools import pairwise

from plumbline.archive.prices import PRICE_SUBJECT, priced_by
from plumbline.archive.records import AuditView
from plumbline.declarations import Provider
from plumbline.declarations.providers.rates import ListedPurchase
from plumbline.findings.types.price_change import format_price_name
from plumbline.metrics.formatting import format_money, format_money_change
from plumbline.presentation.events.event import EventKind, EventWindow, Looked, StreamEvent, person, register

_UNIT = "USD/h"
_STEPPED: tuple[ListedPurchase, ...] = ("on_demand", "reserved")
"""Spot prices move with each reading; a lasting change of one opens a finding."""


@register
class PriceEvent(EventKind):
    id = "price"
    order = 20
    one = "price"
    counted_apart = True
    money = True
    on_charts = ("accepted", "declared")

    def events(self, window: EventWindow) -> list[StreamEvent]:
        seen = () if window.on_charts else self._seen(window)
        return [*seen, *self._accepted(window), *(e for one in window.providers for e in self._declared(window, one))]

    def _seen(self, window: EventWindow) -> Iterator[StreamEvent]:
        names = [one.name for one in window.providers]
        for step in window.archive.price_steps(names, _STEPPED, window.span)[-window.limit :]:
            name = format_price_name(step.purchase, step.term)
            text = f"Source {step.source}: {name} price of {step.provider} {format_money_change(step.before, step.after, _UNIT)}"
            yield self._made(window, f"seen/{step.reading_id}", step.at, "seen", text, step.provider)

    def _accepted(self, window: EventWindow) -> Iterator[StreamEvent]:
        subjects = None
        if window.provider:
            subjects = [f"{PRICE_SUBJECT}{window.provider}/{purchase}" for purchase in (*_STEPPED, "spot")]
        for entry in window.archive.audit_between(("price_accepted",), window.span, window.limit, subjects):
            provider, purchase = priced_by(entry.subject) or ("", "")
            name = format_price_name(purchase, entry.detail.get("term"))
            text = f"Accepted {name} price of {provider}: {_change(entry)}, in force since {entry.detail['since']}"
            made = f"accepted/{entry.subject}/{entry.at.isoformat()}"
            yield self._made(window, made, entry.at, "accepted", text, provider, entry)

    def _declared(self, window: EventWindow, provider: Provider) -> Iterator[StreamEvent]:
        for purchase in dict.fromkeys(price.purchase for price in provider.price_list):
            prices = sorted((p for p in provider.price_list if p.purchase == purchase), key=lambda p: p.since)
            for old, new in pairwise(prices):
                at = datetime.combine(new.since, time(), timezone.utc)
                if old.price != new.price and window.holds(at):
                    name = format_price_name(purchase, None)
                    text = f"Declared {name} price of {provider.name}: {format_money_change(old.price, new.price, _UNIT)}"
                    yield self._made(window, f"declared/{provider.name}/{name}/{new.since}", at, "declared", text, provider.name)

    def _made(
        self, window: EventWindow, name: str, at: datetime, what: str, text: str, provider: str, entry: AuditView | None = None
    ) -> StreamEvent:
        who, why = (person(entry.who), entry.why) if entry is not None else ("", "")
        since = datetime.fromisoformat(entry.detail["since"]).replace(tzinfo=timezone.utc) if entry is not None else None
        return StreamEvent(
            f"{self.id}/{name}", at, self.id, what, text, f"/prices/{provider}", (provider,), who=who, why=why,
            simulated=window.is_simulated(provider), effective=since,
        )  # fmt: skip

    def looked(self, window: EventWindow) -> Looked:
        names = [one.name for one in window.providers]
        last = window.archive.newest_price_reading(names) if names else None
        return Looked("readings of price sources", last, "" if last else "no source was read: `plumbline prices check`")


def _change(entry: AuditView) -> str:
    before, now = entry.detail.get("before"), entry.detail["usd_per_hour"]
    return format_money(now, _UNIT) if before is None else format_money_change(before, now, _UNIT)
