"""Checks of uptime or capacity that were missed in a row, between campaigns: opened with the third miss, resolved by the first answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast, get_args

from plumbline.declarations.promises.judging.evidence import Outage
from plumbline.declarations.providers.launcher_base import WatchKind
from plumbline.findings import Reconciliation, provider_finding
from plumbline.findings.types.base import Step, register
from plumbline.findings.types.failed_launches import FailedLaunches
from plumbline.metrics.formatting import common_scale, format_name
from plumbline.results.availability_check import AvailabilityCheck
from plumbline.results.finding import Finding, Member

_WHAT: dict[WatchKind, str] = {"uptime": "down", "capacity": "no capacity"}


@register
class OutageFinding(FailedLaunches):
    id = "outage"
    subject = "outage/"
    order = 28
    usual = False
    noun = "outage"
    advice = "Claim from, or ask,"

    def cause(self, finding: Finding) -> str:
        # The refusal itself is no cause of it.
        same = any(finding.title.startswith(member.text) for member in finding.members)
        return "" if same else super().cause(finding)

    def looks(self, finding: Finding) -> list[Step]:
        return [(f"plumbline availability {finding.provider}", "its checks by month, and every outage")]

    @classmethod
    def of(cls, watch: WatchKind) -> str:
        """The subject of an outage that this watch saw."""
        return f"{cls.subject}{watch}"

    @classmethod
    def saw(cls, finding: Finding, watch: WatchKind) -> bool:
        """Whether the finding is an outage that this watch saw."""
        return finding.subject == cls.of(watch)

    @classmethod
    def watch_of(cls, finding: Finding) -> WatchKind:
        """ValueError for one of another watch."""
        name = cls.rest(finding)
        if name not in get_args(WatchKind):
            raise ValueError(f"finding {finding.finding_id} is about {name}; expected {' or '.join(get_args(WatchKind))}")
        return cast(WatchKind, name)

    @staticmethod
    def what(watch: WatchKind) -> str:
        return _WHAT[watch]


def reconcile_outages(
    provider: str,
    kind: WatchKind,
    outages: Sequence[Outage],
    newest: AvailabilityCheck | None,
    open_findings: Sequence[Finding],
    simulated: bool,
) -> Reconciliation:
    """`outages`: oldest first, of the last checks; `newest`: the last one. An outage that ended before it was seen opens none."""
    known = [f for f in open_findings if OutageFinding.saw(f, kind)]
    lasting = outages[-1] if outages and outages[-1].ended is None else None
    if lasting is None:
        answered = newest is not None and newest.cause is None
        return Reconciliation(resolved=tuple((f, _over(outages, newest)) for f in known) if answered else ())
    now = _finding(provider, kind, lasting, simulated)
    if not known:
        return Reconciliation((now,))
    if known[0].severity == now.severity:
        return Reconciliation(unchanged=(known[0],))
    return Reconciliation(continued=(replace(now, finding_id=known[0].finding_id, since=known[0].since, state=known[0].state),))


def _over(outages: Sequence[Outage], newest: AvailabilityCheck | None) -> str:
    at = outages[-1].ended if outages else newest.at if newest else None
    took = outages[-1].recovery_s if outages else None
    after = f" after {common_scale('s', [took]).text(took)}" if took is not None else ""
    return f"resolved: answered at {at:%Y-%m-%d %H:%M} UTC{after}"


def _finding(provider: str, kind: WatchKind, outage: Outage, simulated: bool) -> Finding:
    own = outage.whose == "provider"
    title = f"{OutageFinding.what(kind)} since {outage.began:%Y-%m-%d %H:%M} UTC"
    return provider_finding(
        provider,
        "reliability",
        OutageFinding.of(kind),
        began=outage.began.isoformat(),
        since=outage.began.date().isoformat(),
        severity="page" if own and kind == "uptime" else "warn",
        title=title,
        evidence=f"{title}: {outage.misses} checks in a row; {outage.detail}",
        explanation=""
        if own
        else "the cause may be this installation's network as well as the provider's: its time is unknown, neither up nor down",
        simulated=simulated,
        members=(Member(OutageFinding.of(kind), format_name(outage.cause)),),
    )
