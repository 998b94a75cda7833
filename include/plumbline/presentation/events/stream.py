"""The stream of events of a span of time, newest first, with what was watched for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import cache

from plumbline.answers.costed_findings import costed_findings
from plumbline.answers.ledger import ledger_of
from plumbline.archive import Archive, FindingView
from plumbline.declarations import Declarations
from plumbline.findings.types.first_choice import FirstChoice
from plumbline.metrics.formatting import format_count, format_monthly_change, format_name, join_words
from plumbline.metrics.units import SECONDS, parse
from plumbline.presentation.events.event import EventWindow, Looked, StreamEvent
from plumbline.presentation.events.kinds import all_kinds
from plumbline.presentation.findings_inbox import unsettled_findings
from plumbline.results.finding import OPEN_STATES

MOST = 500
"""Events that are shown at once, the newest."""


@dataclass(frozen=True)
class EventList:
    """`events`: newest first. `more`: whether older ones of the span are left out. `looked`: what was watched, kind by kind. `provider`: of this one
    alone; empty of all."""

    since: datetime
    until: datetime
    provider: str
    events: tuple[StreamEvent, ...]
    more: bool
    looked: tuple[Looked, ...]

    @property
    def days(self) -> list[tuple[str, list[StreamEvent]]]:
        """The events by day (UTC), the newest day first."""
        by_day: dict[str, list[StreamEvent]] = {}
        for event in self.events:
            by_day.setdefault(f"{event.at.astimezone(timezone.utc):%Y-%m-%d}", []).append(event)
        return list(by_day.items())

    @property
    def rehearsal(self) -> bool:
        """Whether all that happened is simulated."""
        return bool(self.events) and all(event.simulated for event in self.events)


def read_stream(
    archive: Archive, declared: Declarations, since: datetime, until: datetime, *, provider: str = "", money: bool = True, most: int = MOST
) -> EventList:
    """What happened from `since` to `until` (exclusive), and what was watched. `money`: False for a reader without access to costs."""
    window = EventWindow(archive, declared, since, until, provider, most + 1, money, _amounts(archive, declared) if money else _no_amount)
    kinds = [kind for kind in all_kinds() if money or not kind.money]
    events = sorted_events(kind.events(window) for kind in kinds)
    return EventList(since, until, provider, tuple(events[:most]), len(events) > most, tuple(kind.looked(window) for kind in kinds))


def charted_events(window: EventWindow) -> list[StreamEvent]:
    """Those that a trend shows, newest first."""
    window = replace(window, on_charts=True)
    kinds = [kind for kind in all_kinds() if kind.on_charts is None or kind.on_charts]
    shown = {kind.id: kind.on_charts for kind in kinds}
    events = sorted_events(kind.events(window) for kind in kinds if window.money or not kind.money)
    return [event for event in events if (what := shown[event.kind]) is None or event.what in what]


def sorted_events(found: Iterable[Iterable[StreamEvent]]) -> list[StreamEvent]:
    """Newest first; what happened at once in the order of the kinds."""
    order = {kind.id: kind.order for kind in all_kinds()}
    return sorted((event for some in found for event in some), key=lambda e: (-e.at.timestamp(), order[e.kind], e.event_id))


def count_events(events: Sequence[StreamEvent]) -> str:
    """How many of each kind, such as `3 findings opened, 1 price accepted and 2 outages`; empty without any."""
    count = Counter((event.kind, event.what if _counted_apart(event.kind) else "") for event in events)
    kinds = {kind.id: kind for kind in all_kinds()}
    order = sorted(count, key=lambda of: (kinds[of[0]].order, -count[of], of))
    return join_words([f"{format_count(count[of], kinds[of[0]].one, kinds[of[0]].several)} {format_name(of[1])}".strip() for of in order])


def _counted_apart(kind: str) -> bool:
    return next(one.counted_apart for one in all_kinds() if one.id == kind)


def event_note(event: StreamEvent) -> str:
    """Beside the sentence: the amount, and by whom and why; empty without any."""
    usd = format_monthly_change(event.usd) if event.usd else ""
    by = f"by {event.who}: {event.why}" if event.who and event.why else f"by {event.who}" if event.who else event.why
    return "; ".join(filter(None, (usd, by)))


def _no_amount(view: FindingView) -> float | None:
    return None


def _amounts(archive: Archive, declared: Declarations) -> Callable[[FindingView], float | None]:
    """By finding: of an open one what its row of the ledger says, of an accepted one what it costs from now on; read when first asked for."""

    @cache
    def ledger() -> Callable[[str], float | None]:
        return ledger_of(costed_findings(archive, declared, unsettled_findings(archive)).values()).change_of

    def usd_of(view: FindingView) -> float | None:
        if view.state in OPEN_STATES:
            return ledger()(view.finding_id)
        # Accepting a first choice moves the team away from what costs more.
        if view.state != "accepted" or FirstChoice.owns(view.kind, str(view.detail.get("subject", ""))):
            return None
        entry = costed_findings(archive, declared, [view]).get(view.finding_id)
        return entry.cost.usd if entry is not None else None

    return usd_of


def since_moment(text: str, now: datetime) -> datetime:
    """The begin of a span from a day (its first minute, UTC), an instant, a time back from now (7d), or `monday`, which an empty text is too.

    ValueError for other text and for the future.
    """
    if text.strip().lower() in ("", "monday"):
        today = now.astimezone(timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0)
        return today - timedelta(days=today.weekday())
    try:
        since = datetime.fromisoformat(text)
    except ValueError:
        try:
            since = now - timedelta(seconds=parse(text, SECONDS, "a time back from now", "7d"))
        except (ValueError, OverflowError):
            raise ValueError(f'since is "{text}"; expected a day such as 2026-11-02, a time back from now such as 7d, or monday') from None
    since = since if since.tzinfo else since.replace(tzinfo=timezone.utc)
    if since > now:
        raise ValueError(f"since is {text}, which is still to come; expected a time before now")
    return since
