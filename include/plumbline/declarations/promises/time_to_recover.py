"""Incidents that end in time, as logged or as checks of the uptime found them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import ClassVar

from pydantic import Field

from plumbline.declarations.promises.judging.evidence import OUTAGE_MISSES, LoggedOperation, Outage, SharedTerms, is_logged
from plumbline.declarations.promises.judging.promise import register
from plumbline.declarations.promises.judging.response import RESPONSE_SHARE, ResponsePromise
from plumbline.declarations.promises.judging.row import format_seconds
from plumbline.declarations.promises.judging.share import interval_for
from plumbline.declarations.promises.judging.witnesses import OneIncident, merge_overlapping
from plumbline.metrics.units import Duration


@register
class TimeToRecover(ResponsePromise):
    id = "time_to_recover"
    fields: ClassVar = {
        "time_to_recover": (Duration | None, Field(None, description="from the begin of an incident to its end, such as 4h")),
        **RESPONSE_SHARE,
    }
    order = 50
    noun = "time to recover"
    checked = True
    kind = "incident"
    thing = "incident"

    def ended(self, entry: LoggedOperation) -> datetime | None:
        return entry.solved

    def is_unproven(self, entry: LoggedOperation) -> bool:
        return entry.whose == "unknown"

    def one_each(self, entries: Sequence[LoggedOperation], now: datetime) -> list[OneIncident]:
        return list(merge_overlapping([(e.entry_id, e.opened, self.ended(e)) for e in entries], now))

    def found(self, outages: Iterable[Outage], entries: Sequence[LoggedOperation], now: datetime) -> list[Outage]:
        return [o for o in outages if not is_logged(o, entries, ("provider", "unknown"), now)]

    def never_shown(self, terms: SharedTerms, every_s: Mapping[str, float]) -> str:
        promised, every = self.promised(terms), every_s.get("uptime")
        if promised is None or every is None or promised >= OUTAGE_MISSES * every:
            return ""
        shortest = format_seconds(OUTAGE_MISSES * every)
        return (
            f"{OUTAGE_MISSES} missed checks are an outage, so that each found one lasts {shortest} at least: "
            f"{interval_for(OUTAGE_MISSES, timedelta(seconds=promised))} can show it kept"
        )
