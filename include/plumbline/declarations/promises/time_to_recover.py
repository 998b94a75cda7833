"""Incidents that end in time, as logged or as checks of the uptime found them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import ClassVar

from pydantic import Field

from plumbline.declarations.promises.judging.evidence import LoggedOperation, Outage, is_logged
from plumbline.declarations.promises.judging.promise import register
from plumbline.declarations.promises.judging.response import RESPONSE_SHARE, ResponsePromise
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

    def found(self, outages: Iterable[Outage], entries: Sequence[LoggedOperation], now: datetime) -> list[Outage]:
        return [o for o in outages if not is_logged(o, entries, ("provider", "unknown"), now)]
