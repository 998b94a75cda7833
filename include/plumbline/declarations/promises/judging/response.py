"""Promises of a time in which the provider ends what the operations log has, or answers it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal

from pydantic import Field

from plumbline.declarations.promises.judging.evidence import LoggedOperation, Outage, PromiseEvidence, SharedTerms, maintenance
from plumbline.declarations.promises.judging.promise import JudgedPromise, Promise
from plumbline.declarations.promises.judging.row import PromiseRow, format_seconds
from plumbline.declarations.promises.judging.share import PromisedShare, judge_share
from plumbline.metrics.formatting import format_count, format_percent
from plumbline.metrics.proportions import wilson_interval
from plumbline.metrics.time_spans import total_s, without
from plumbline.metrics.units import Share

RESPONSE_SHARE = {
    "response_share": (
        Share,
        Field(0.95, description="of incidents, tickets and quota requests, for which these three times are promised"),
    ),
}
"""A field that all of these promises have."""


class ResponsePromise(Promise[float]):
    """`kind`: of entries of the operations log. `thing`: one of them in words."""

    unit = "s"
    kind: ClassVar[Literal["incident", "ticket", "quota"]]
    thing: ClassVar[str]

    def judge(self, terms: SharedTerms, seen: PromiseEvidence) -> Iterator[JudgedPromise]:
        yield JudgedPromise(self, self.row(self.times(seen.log, terms, seen.now, seen.outages)), "log", terms.credit)

    def ended(self, entry: LoggedOperation) -> datetime | None:
        """When the provider had done what it promises."""
        return entry.answered or entry.solved

    def is_unproven(self, entry: LoggedOperation) -> bool:
        """Whether it is not known to be the provider's."""
        return False

    def found(self, outages: Iterable[Outage], entries: Sequence[LoggedOperation], now: datetime) -> list[Outage]:
        """Those of the provider's outages that checks found which count beside the log."""
        return []

    def times(self, entries: Sequence[LoggedOperation], terms: SharedTerms, now: datetime, measured: Iterable[Outage] = ()) -> ResponseTime:
        """The times of the log's entries against the promised one. `measured`: the provider's outages that checks found. Pure."""
        excluded, promised = maintenance(entries, terms, now), self.promised(terms)
        listed = [e for e in entries if e.kind == self.kind and e.whose != "us"]
        unknown = [e for e in listed if self.is_unproven(e)]
        tries = [(e.entry_id, e.opened, self.ended(e)) for e in listed if e not in unknown]
        checked = [("", o.began, o.ended or now, o.recovery_s is not None) for o in self.found(measured, entries, now)]
        kept, late = 0, []
        for entry_id, begin, until, ended in (*((name, at, end or now, end is not None) for name, at, end in tries), *checked):
            if promised is not None and total_s(without([(begin, until)], excluded)) > promised:
                late.append((begin, entry_id))
            else:
                kept += ended
        share: float | None = None if promised is None else self.term(terms, "response_share")
        judged = judge_share(wilson_interval(kept, kept + len(late)), share, len(unknown))
        ids, last = tuple(entry_id for _, entry_id in late if entry_id), max((begin for begin, _ in late), default=None)
        return ResponseTime(promised, judged, ids, last, len(checked))

    def row(self, response: ResponseTime) -> PromiseRow:
        """Entries that ended in time."""
        kept, promised, measured = response.kept, "", f"no {self.thing} is logged"
        if response.promised_s is not None:
            promised = f"{format_seconds(response.promised_s)} for {format_percent(kept.promised)} of {self.thing}s"
        if kept.share.n:
            measured = f"{kept.share.successes} of {format_count(kept.share.n, self.thing)} within it"
            measured += f", {response.checked} by checks of its uptime" if response.checked else ""
        if kept.unproven:
            measured += f"; {kept.unproven} more not known to be the provider's"
        more = {"evidence": response.late, "last": response.last}
        return PromiseRow.of_tries(self.noun, promised, measured, kept, self.thing, "late one", **more)


@dataclass(frozen=True)
class ResponseTime:
    """How many entries of a kind the provider ended within `promised_s`, maintenance not counted. Open ones count once they are late; `late`: ids of
    those that took longer, `last`: when the last of them began. Incidents that are not known to be the provider's are unproven. `checked`: incidents
    that checks of its uptime found and the log does not have."""

    promised_s: float | None
    kept: PromisedShare
    late: tuple[str, ...]
    last: datetime | None = None
    checked: int = 0
