"""Check the uptime or the capacity of a provider between campaigns: store the check, and open or resolve the finding of an outage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from plumbline.analysis.availability import find_outages
from plumbline.answers.availability_histories import CHECK_KINDS
from plumbline.answers.findings import readable_findings
from plumbline.answers.provider_use import CAPACITY_HELD_S, over_budget
from plumbline.archive import Archive, open_archive
from plumbline.declarations import Declarations, Provider, load_in_force
from plumbline.declarations.promises.judging.evidence import maintenance
from plumbline.declarations.providers.launcher_base import WatchKind
from plumbline.findings.types.outage import OutageFinding, reconcile_outages
from plumbline.launch.failures import ApiRefused, InMaintenance, TrialFailure
from plumbline.launch.registry import launcher_for
from plumbline.results.availability_check import MAINTENANCE, AvailabilityCheck
from plumbline.results.finding import OPEN_STATES
from plumbline.workflows.findings import apply
from plumbline.workflows.plan import declared_provider

AUTHOR = "availability_watch"
_LOOK_BACK = {"uptime": timedelta(days=2), "capacity": timedelta(days=31)}
_REFUSALS = {401: "bad_declaration", 403: "quota_exceeded", 404: "bad_declaration"}
_DETAIL = 500
_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True)
class CheckResult:
    """One check. `put_off`: why there was none; ids of `findings` that opened, changed or resolved."""

    provider: str
    kind: WatchKind
    observation: AvailabilityCheck | None
    put_off: str | None = None
    findings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The check in one line."""
        one = self.observation
        if one is None:
            return f"{self.kind}: {self.put_off}"
        took = f" after {one.seconds:.3g} s" if one.seconds is not None else ""
        return f"{self.kind}: {'answered' if one.cause is None else f'{one.cause}: {one.detail}'}{took}"


def watched(declared: Declarations) -> list[str]:
    """Enabled providers with `watch.uptime` or `watch.capacity`."""
    return [p.name for p in declared.enabled_providers() if any(p.watch.of(kind) for kind in CHECK_KINDS)]


def next_check(archive: Archive, provider: Provider, kind: WatchKind, now: datetime) -> datetime | None:
    """When the next check of a kind is due, after the last one until `now`; None if it is not declared."""
    watch = provider.watch.of(kind)
    if watch is None:
        return None
    last = archive.latest_availability_check(provider.name, kind, provider.simulated, now)
    return datetime.min.replace(tzinfo=timezone.utc) if last is None else last.at + timedelta(seconds=watch.every)


def check_due(name: str, now: datetime) -> tuple[tuple[CheckResult, ...], datetime | None]:
    """Check what is due of a provider; when the next check is, None if none is declared any more."""
    provider = declared_provider(load_in_force(), name)
    with open_archive() as archive:
        due = {kind: at for kind in CHECK_KINDS if (at := next_check(archive, provider, kind, now)) is not None}
    done = tuple(check(name, kind, now) for kind, at in due.items() if at <= now)
    following = (now + timedelta(seconds=w.every) if at <= now else at for kind, at in due.items() if (w := provider.watch.of(kind)))
    return done, min(following, default=None)


def check(name: str, kind: WatchKind, at: datetime | None = None) -> CheckResult:
    """Check a declared provider now (`at`: the time that it counts for, which may be another one of a simulated provider). LookupError for an unknown provider, or one without this watch."""
    declared, now = load_in_force(), at or datetime.now(timezone.utc)
    provider = declared_provider(declared, name)
    capacity = provider.watch.capacity
    if provider.watch.of(kind) is None:
        raise LookupError(f"{name} declares no watch.{kind}")
    holds = kind == "capacity" and capacity is not None and not capacity.dry_run
    if holds and (why := declared.why_no_trial_starts(datetime.now(timezone.utc))) is not None:
        return CheckResult(name, kind, None, why)
    with open_archive() as archive:
        if holds and (spent := over_budget(archive, provider, now, CAPACITY_HELD_S, "capacity check")) is not None:
            return CheckResult(name, kind, None, spent)
        observation = _observe(declared, provider, kind, now)
        archive.save_availability_checks([observation])
        return CheckResult(name, kind, observation, findings=_update_findings(archive, provider, kind, now))


def _observe(declared: Declarations, provider: Provider, kind: WatchKind, now: datetime) -> AvailabilityCheck:
    launcher, capacity = launcher_for(provider), provider.watch.capacity
    gpus = 0 if kind == "uptime" or capacity is None else capacity.gpus or provider.accelerator.count
    seconds: float | None = None
    cause: str | None = None
    detail = ""
    try:
        seconds = (launcher.check_uptime if kind == "uptime" else launcher.ask_capacity)(declared, provider, now)
    except TrialFailure as failure:
        cause, detail = failure.failure_class, str(failure)
    except InMaintenance as closed:
        cause, detail = MAINTENANCE, str(closed)
    except ApiRefused as refusal:
        cause, detail = _REFUSALS.get(refusal.status, "unreachable"), str(refusal)
    except OSError as error:  # a full disk or our own files: no network error of a provider arrives here
        cause, detail = "harness_error", str(error)
    return AvailabilityCheck(provider.name, kind, now, cause, detail[:_DETAIL], seconds, gpus, provider.simulated)


def _update_findings(archive: Archive, provider: Provider, kind: WatchKind, now: datetime) -> tuple[str, ...]:
    recent = archive.availability_checks(provider.name, kind, provider.simulated, (now - _LOOK_BACK[kind], now + _INSTANT))
    views = archive.findings_of(provider.name, "reliability", unsettled=True)
    open_findings = [f for f in readable_findings(views) if f.state in OPEN_STATES and OutageFinding.saw(f, kind)]
    excluded = maintenance(archive.operations(provider.name), provider.sla, now)
    watch = provider.watch.of(kind)
    outages = find_outages(recent, watch.every, excluded) if watch is not None else ()
    change = reconcile_outages(provider.name, kind, outages, recent[-1] if recent else None, open_findings, provider.simulated)
    apply(archive, change, by=AUTHOR, seen_in=f"{now:%Y-%m-%d}")
    return tuple(f.finding_id for f in (*change.opened, *change.continued, *(f for f, _ in change.resolved)))


def simulate_checks(archive: Archive, declared: Declarations, provider: Provider, since: datetime, until: datetime) -> int:
    """Every check of a simulated provider from `since` to `until` (exclusive), in its declared intervals; how many."""
    count = 0
    for kind in CHECK_KINDS:
        watch = provider.watch.of(kind)
        if watch is None:
            continue
        every = timedelta(seconds=watch.every)
        checks: Sequence[AvailabilityCheck] = [
            _observe(declared, provider, kind, since + n * every) for n in range(-(-(until - since) // every))
        ]
        archive.save_availability_checks(checks)
        _update_findings(archive, provider, kind, until)
        count += len(checks)
    return count
