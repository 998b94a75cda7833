"""Promises of a time in which the provider ends what the operations log has, or answers it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, Literal

from pydantic import Field

from plumbline.declarations.promises.judging.evidence import LoggedOperation, Outage, PromiseEvidence, SharedTerms, maintenance
from plumbline.declarations.promises.judging.promise import JudgedPromise, Promise
from plumbline.declarations.promises.judging.row import PromiseRow, format_seconds
from plumbline.declarations.promises.judging.share import PromisedShare, judge_share
from plumbline.declarations.promises.judging.witnesses import OneIncident, contradicted_incidents
from plumbline.metrics.formatting import format_count, format_percent
from plumbline.metrics.proportions import wilson_interval
from plumbline.metrics.time_spans import TimeSpan, total_s, without
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
        doubted = contradicted_incidents(seen.log, seen.months.values(), seen.now, seen.confirmed)
        names, every = frozenset(one.entry.entry_id for one in doubted), max((m.every_s for m in seen.months.values()), default=0.0)
        yield JudgedPromise(self, self.row(self.times(seen.log, terms, seen.now, seen.outages, names, every)), "log", terms.credit)

    def ended(self, entry: LoggedOperation) -> datetime | None:
        """When the provider had done what it promises."""
        return entry.answered or entry.solved

    def is_unproven(self, entry: LoggedOperation) -> bool:
        """Whether it is not known to be the provider's."""
        return False

    def one_each(self, entries: Sequence[LoggedOperation], now: datetime) -> list[OneIncident]:
        """The entries, those of one request as one: the same reference of the provider's."""
        of: dict[str, list[LoggedOperation]] = {}
        for entry in sorted(entries, key=lambda e: (e.opened, e.entry_id)):
            of.setdefault(entry.reference or entry.entry_id, []).append(entry)
        ends = {key: [end for e in same if (end := self.ended(e)) is not None] for key, same in of.items()}
        return [OneIncident(tuple(e.entry_id for e in same), same[0].opened, min(ends[key], default=None)) for key, same in of.items()]

    def found(self, outages: Iterable[Outage], entries: Sequence[LoggedOperation], now: datetime) -> list[Outage]:
        """Those of the provider's outages that checks found which count beside the log."""
        return []

    def times(
        self,
        entries: Sequence[LoggedOperation],
        terms: SharedTerms,
        now: datetime,
        measured: Iterable[Outage] = (),
        doubted: Collection[str] = (),
        every_s: float = 0.0,
    ) -> ResponseTime:
        """The times of the log's entries against the promised one. `measured`: the provider's outages that checks found, exact to their interval
        `every_s`; `doubted`: ids of incidents that checks contradict. An incident that ended in time by the log and late by checks is not proven
        either. Pure."""
        excluded, promised, measured = maintenance(entries, terms, now), self.promised(terms), tuple(measured)
        listed = [e for e in entries if e.kind == self.kind and e.whose != "us"]
        believed = [e for e in entries if e.entry_id not in doubted]

        def is_late(span: TimeSpan) -> bool:
            return promised is not None and total_s(without([span], excluded)) > promised

        unknown = [e for e in listed if self.is_unproven(e) or e.entry_id in doubted]
        checked = [(o.began, o.ended or now, o.recovery_s is not None) for o in self.found(measured, believed, now)]
        counted = {began for began, *_ in checked}
        longer = [(o.began, (o.ended or now) - timedelta(seconds=every_s)) for o in measured if o.began not in counted]
        longer = [span for span in longer if is_late(span)]
        late: list[tuple[datetime, tuple[str, ...]]] = []
        kept = disputed = 0
        for one in self.one_each([e for e in listed if e not in unknown], now):
            span = (one.began, one.ended or now)
            if is_late(span):
                late.append((one.began, one.entry_ids))
            elif self.kind == "incident" and any(first < span[1] and span[0] < last for first, last in longer):
                disputed += 1
            else:
                kept += one.ended is not None
        for began, until, ended in checked:
            if is_late((began, until)):
                late.append((began, ()))
            else:
                kept += ended
        share: float | None = None if promised is None else self.term(terms, "response_share")
        judged = judge_share(wilson_interval(kept, kept + len(late)), share, len(unknown) + disputed)
        ids, last = tuple(name for _, names in late for name in names), max((begin for begin, _ in late), default=None)
        disputed += sum(e.entry_id in doubted for e in unknown)
        return ResponseTime(promised, judged, ids, last, len(checked), disputed)

    def row(self, response: ResponseTime) -> PromiseRow:
        """Entries that ended in time."""
        kept, promised, measured = response.kept, "", f"no {self.thing} is logged"
        if response.promised_s is not None:
            promised = f"{format_seconds(response.promised_s)} for {format_percent(kept.promised)} of {self.thing}s"
        if kept.share.n:
            measured = f"{kept.share.successes} of {format_count(kept.share.n, self.thing)} within it"
            measured += f", {response.checked} by checks of its uptime" if response.checked else ""
        if kept.unproven > response.disputed:
            measured += f"; {kept.unproven - response.disputed} more not known to be the provider's"
        if response.disputed:
            measured += f"; {response.disputed} more of which the operations log and checks contradict each other"
        more = {"evidence": response.late, "last": response.last}
        return PromiseRow.of_tries(self.noun, promised, measured, kept, self.thing, "late one", **more)


@dataclass(frozen=True)
class ResponseTime:
    """How many entries of a kind the provider ended within `promised_s`, maintenance not counted. Open ones count once they are late; `late`: ids of
    those that took longer, `last`: when the last of them began. Incidents that are not known to be the provider's are unproven. `checked`: incidents
    that checks of its uptime found and the log does not have. `disputed`: of the unproven ones those of which log and checks contradict each other."""

    promised_s: float | None
    kept: PromisedShare
    late: tuple[str, ...]
    last: datetime | None = None
    checked: int = 0
    disputed: int = 0
