"""Outages: misses in a row of checks between campaigns, and what the operations log says of incidents and maintenance."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

from plumbline.analysis.availability import find_outages, join_answered, microseconds
from plumbline.answers.availability_histories import CHECK_KINDS
from plumbline.declarations import Provider
from plumbline.declarations.promises.judging.evidence import Outage, maintenance
from plumbline.declarations.providers.launcher_base import WatchKind
from plumbline.metrics.formatting import common_scale, format_name
from plumbline.presentation.events.event import EventKind, EventWindow, Looked, StreamEvent, register
from plumbline.results.operations import LogEntryView

_BEFORE = timedelta(days=2)
"""So long before the window an outage that lasts into it may have begun."""
_FAILED = {"uptime": "did not answer", "capacity": "had no free node"}
_FAILS = {"uptime": "does not answer", "capacity": "has no free node"}


@register
class OutageEvent(EventKind):
    id = "outage"
    order = 30
    one = "outage"

    def events(self, window: EventWindow) -> list[StreamEvent]:
        checked = [event for one in window.providers for kind in CHECK_KINDS for event in self._checked(window, one, kind)]
        logged = [event for e in window.operations if e.kind in ("incident", "maintenance") for event in self._logged(window, e)]
        return [*checked, *logged]

    def _checked(self, window: EventWindow, provider: Provider, kind: WatchKind) -> Iterator[StreamEvent]:
        watch = provider.watch.of(kind)
        if watch is None:
            return
        name, span = (provider.name, kind, provider.simulated), (window.begin - _BEFORE, window.end)
        missed = window.archive.missed_checks(*name, span)
        if not missed:
            return
        answered = [microseconds(at) for at in window.archive.answered_checks(*name, span)]
        excluded = maintenance([e for e in window.operations if e.provider == provider.name], provider.sla, window.end)
        for outage in find_outages(tuple(join_answered(answered, missed, watch.every)), watch.every, excluded):
            if window.holds(outage.began) or window.holds(outage.ended):
                yield self._seen(window, provider.name, kind, outage)

    def _seen(self, window: EventWindow, provider: str, kind: WatchKind, outage: Outage) -> StreamEvent:
        why = f"{format_name(outage.cause)}{'' if outage.whose == 'provider' else ', not proven whose fault'}"
        if outage.ended is None:
            text = f"{provider} {_FAILS[kind]} since {_time(outage.began)}: {why}"
        else:
            least = "" if outage.answered else "at least "
            text = f"{provider} {_FAILED[kind]} for {least}{_length(outage.began, outage.ended)}: {why}"
        return self._made(window, f"{kind}/{provider}", provider, text, outage.began, outage.ended, f"/providers/{provider}#{kind}")

    def _logged(self, window: EventWindow, entry: LogEntryView) -> Iterator[StreamEvent]:
        if not (window.holds(entry.opened) or window.holds(entry.solved)):
            return
        lasted = f", {_length(entry.opened, entry.solved)}" if entry.solved is not None else ", not over"
        text = f"{entry.kind.capitalize()} of {entry.provider}: {entry.what}{lasted}"
        name, link = f"log/{entry.entry_id}", f"/providers/{entry.provider}/promises#log-{entry.entry_id}"
        yield self._made(window, name, entry.provider, text, entry.opened, entry.solved, link, entry.recorded_by)

    def _made(
        self, window: EventWindow, name: str, provider: str, text: str, began: datetime, ended: datetime | None, link: str, who: str = ""
    ) -> StreamEvent:
        # One that began before the window is in it by its end.
        at = began if window.holds(began) or ended is None else ended
        what = "lasts" if ended is None else "ended"
        return StreamEvent(
            f"{self.id}/{name}/{began.isoformat()}", at, self.id, what, text, link, (provider,), who=who,
            simulated=window.is_simulated(provider), updated=ended,
        )  # fmt: skip

    def looked(self, window: EventWindow) -> Looked:
        watched = [one.name for one in window.providers if any(one.watch.of(kind) is not None for kind in CHECK_KINDS)]
        newest = [at for times in window.archive.newest_checks(watched, datetime.now(timezone.utc)).values() for at in times]
        if not watched:
            return Looked("checks between campaigns", None, "no provider declares `watch:`; the operations log was read")
        note = f"{len(watched)} of {len(window.providers)} providers are watched" if len(watched) < len(window.providers) else ""
        return Looked("checks between campaigns and the operations log", max(newest, default=None), note)


def _length(began: datetime, ended: datetime) -> str:
    seconds = (ended - began).total_seconds()
    return common_scale("s", [seconds]).text(seconds)


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
