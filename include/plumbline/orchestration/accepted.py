"""What a provider was accepted as: the facts that a look at it is held against. No Airflow in here.

Fact by fact it is what a person accepted last; else what the last campaign before the first look was measured on; else what the first
look that could see the fact showed. None of these moves by itself, so a change stands until somebody accepts it or it is undone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from plumbline.declarations import KubernetesLauncher, Provider

if TYPE_CHECKING:
    from plumbline.archive import Archive, FindingView, SnapshotView
    from plumbline.drift.sample import Facts
    from plumbline.drift.watch import Accepted

_CAMPAIGNS = 200
# What a cluster's nodes and the trials on them tell in the same words; a GPU's name, the operating system and memory they do not.
_OF_NODES = ("os.kernel", "host.instance_type", "host.region", "host.zone", "kubernetes.version", "kubernetes.runtime")
_OF_NVIDIA = ("driver.version", "cuda.version")


def accepted(archive: Archive, provider: Provider, findings: Sequence[FindingView], now: datetime) -> Accepted:
    """What a look at `now` is held against; `findings`: all of the provider's."""
    from plumbline.drift.environment import fact
    from plumbline.drift.watch import Accepted

    looks = archive.snapshots(provider.name)
    facts: dict[str, Sequence[Any]] = {}
    for earlier in looks:
        for name, value in earlier.facts.items():
            facts.setdefault(name, _values(value))
    told = f"the look of {looks[0].taken_at:%Y-%m-%d}" if looks else ""
    campaign, trials = _measured(archive, provider.name, looks[0].taken_at if looks else now)
    shared = _shared(provider, facts, trials)
    if shared:
        facts |= shared
        told = f"what campaign {campaign} was measured on"
    for finding in sorted((f for f in findings if (f.kind, f.state) == ("environment", "accepted")), key=lambda f: f.updated_at):
        about = {fact(m["name"]) for m in finding.detail.get("members", ())}
        rows = [*_looks_of(finding, looks), *_trials_of(archive, finding)]
        for name in (name for name in list(facts) if fact(name) in about):
            taken = [value for row in rows for key, value in row.items() if value is not None and fact(key) == fact(name)]
            if taken:
                facts[name] = list(dict.fromkeys(v for value in taken for v in _values(value)))
                told = f"what was accepted on {finding.updated_at:%Y-%m-%d}"
    return Accepted(facts, told)


def _measured(archive: Archive, provider: str, before: datetime) -> tuple[str, Sequence[Facts]]:
    """The provider's last campaign that was planned before then, and the environments of its trials; none if there is none."""
    keys = [s.series_key for s in archive.series(provider=provider) if s.source != "imported"]
    planned = [(at, campaign, key) for key in keys for campaign, at in archive.series_campaigns(key, _CAMPAIGNS) if at < before]
    for _, campaign, _ in sorted(planned, reverse=True)[:1]:
        samples = [archive.sample(key, campaign) for _, name, key in planned if name == campaign]
        return campaign, [facts for sample in samples for facts in sample.environments]
    return "", ()


def _looks_of(finding: FindingView, looks: Sequence[SnapshotView]) -> Sequence[Mapping[str, Any]]:
    """The facts of the last look of each kind before it was accepted; none if nobody looked while it stood."""
    since = (
        datetime.fromisoformat(finding.detail["since"]).replace(tzinfo=timezone.utc) if finding.detail.get("since") else finding.opened_at
    )
    last = {s.kind: s.facts for s in looks if since <= s.taken_at <= finding.updated_at}
    return list(last.values())


def _trials_of(archive: Archive, finding: FindingView) -> Sequence[Facts]:
    """The environments of the last campaign that showed it."""
    from plumbline.drift import Finding

    told = Finding.of(finding.detail)
    last = told.campaigns[-1:]
    keys = {s.series_key for campaign in last for s in archive.series(campaign_id=campaign)} & {*told.series}
    return [facts for campaign in last for key in sorted(keys) for facts in archive.sample(key, campaign).environments]


def _shared(provider: Provider, looked: dict[str, Sequence[Any]], trials: Sequence[Facts]) -> dict[str, Sequence[Any]]:
    """What the trials say of facts that a look shows in the same words; of everything, where no look was before."""
    names = set().union(*trials) & looked.keys() if looked else set().union(*trials)
    if isinstance(provider.launcher, KubernetesLauncher):
        names &= said_alike(provider)
    found = {name: list(dict.fromkeys(v for facts in trials if (v := facts.get(name)) is not None)) for name in names}
    return {name: own for name, own in found.items() if own}


def said_alike(provider: Provider) -> set[str]:
    """The facts that a cluster's nodes and what runs on them tell in the same words."""
    return {*_OF_NODES, *(_OF_NVIDIA if provider.accelerator.kind == "nvidia" else ())}


def _values(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]
