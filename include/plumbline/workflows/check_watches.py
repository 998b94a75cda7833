"""Whether watches are kept: a declared watch without a check for three intervals, and checks that are dated ahead of now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from plumbline.answers.availability_histories import CHECK_KINDS
from plumbline.answers.provider_use import CAPACITY_HELD_S, over_budget
from plumbline.archive import Archive
from plumbline.declarations import Declarations, Provider
from plumbline.declarations.providers.launcher_base import WatchKind
from plumbline.findings.types.installation import FailureCode, InstallationFailure
from plumbline.metrics.formatting import format_count

CODES: tuple[FailureCode, ...] = ("watch_silent", "check_ahead")
SILENT_INTERVALS = 3
_START = timedelta(hours=2)
"""The DAG of the watches starts hourly: so long after its declaration, at most, a watch has its first check."""


@dataclass(frozen=True)
class SilentWatch:
    """A watch whose last check was more than SILENT_INTERVALS ago; `last` None if it never had one."""

    provider: str
    kind: WatchKind
    last: datetime | None
    since: datetime


def silent_watches(archive: Archive, declared: Declarations, now: datetime) -> Iterator[SilentWatch]:
    """Declared watches of enabled providers without a check until `now`, unless the budget or broken declarations put it off."""
    for provider in declared.enabled_providers():
        for kind in CHECK_KINDS:
            watch = provider.watch.of(kind)
            if watch is None or _put_off(archive, declared, provider, kind, now):
                continue
            last = archive.latest_availability_check(provider.name, kind, provider.simulated, now)
            since = (archive.declarations_kept_at() or now) + _START if last is None else last.at
            if now - since > timedelta(seconds=SILENT_INTERVALS * watch.every):
                yield SilentWatch(provider.name, kind, None if last is None else last.at, since)


def _put_off(archive: Archive, declared: Declarations, provider: Provider, kind: WatchKind, now: datetime) -> bool:
    capacity = provider.watch.capacity
    if kind != "capacity" or capacity is None or capacity.dry_run:
        return False
    spent = over_budget(archive, provider, now, CAPACITY_HELD_S, "capacity check")
    return spent is not None or declared.why_no_trial_starts(now) is not None


def watch_failures(archive: Archive, declared: Declarations, now: datetime) -> Iterator[InstallationFailure]:
    """Both kinds of failure as findings about the installation: it is what checks, and what has the clock."""
    for silent in silent_watches(archive, declared, now):
        what = f"{silent.provider} {silent.kind}"
        yield InstallationFailure(
            code="watch_silent",
            what=what,
            occurrence="never" if silent.last is None else silent.last.isoformat(timespec="seconds"),
            since=silent.since,
            severity="warn",
            title=f"the {silent.kind} of {silent.provider} is not checked",
            cause=f"{_last(silent.last)}; it declares an interval, of which {SILENT_INTERVALS} passed. What happened since is unknown",
            remedy="`plumbline doctor`; `plumbline airflow dags unpause availability_watch`, or start the triggerer",
        )
    for ahead in archive.checks_ahead(now):
        yield InstallationFailure(
            code="check_ahead",
            what=f"{ahead.provider} {ahead.kind}",
            occurrence=ahead.first.isoformat(timespec="seconds"),
            since=now,
            severity="warn",
            title=f"the {ahead.kind} of {ahead.provider} has checks that are dated ahead of now",
            cause=f"{format_count(ahead.count, 'check')}, up to {_minute(ahead.last)}: a wrong clock wrote them. They do not count",
            remedy="set the clocks of all machines by time synchronisation (chrony or systemd-timesyncd); `plumbline doctor` compares them",
        )


def _last(at: datetime | None) -> str:
    return "it was never checked" if at is None else f"the last check was at {_minute(at)}"


def _minute(at: datetime) -> str:
    return f"{at.astimezone(timezone.utc):%Y-%m-%d %H:%M} UTC"
