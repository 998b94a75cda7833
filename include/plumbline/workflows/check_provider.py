"""Compare a provider's hardware and software with its accepted facts, and update findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from plumbline.analysis.drift.environment import fact_name
from plumbline.answers.findings import readable_findings
from plumbline.archive import Archive, FindingView, SnapshotRecord, SnapshotView, open_archive
from plumbline.declarations import Declarations, Provider, load_in_force
from plumbline.declarations.dag_ids import WATCH_DAG
from plumbline.findings import Reconciliation, environment_check
from plumbline.findings.environment_check import AcceptedFacts, EnvironmentReconciliation
from plumbline.findings.types import about_facts
from plumbline.findings.types.failing_check import FailingCheck, check_failing_finding
from plumbline.launch.failures import ApiRefused, BadDeclaration, Unreachable
from plumbline.launch.launcher import DISCOVERY_PATIENCE_S, ProviderFacts
from plumbline.launch.registry import launcher_for
from plumbline.results.finding import OPEN_STATES, Finding
from plumbline.results.sample import Facts
from plumbline.workflows import pending_changes
from plumbline.workflows.findings import apply
from plumbline.workflows.plan import declared_provider

_CAMPAIGNS = 200
FROM_DECLARATION = "the declaration"
# Facts that a cluster's nodes and its trials report in the same format; a GPU's name, the operating system and memory differ.
_OF_NODES = ("os.kernel", "host.instance_type", "host.region", "host.zone", "kubernetes.version", "kubernetes.runtime")
_OF_NVIDIA = ("driver.version", "cuda.version")


def accepted_facts(
    archive: Archive, provider: Provider, findings: Sequence[FindingView], now: datetime, nodes: Sequence[Facts] = ()
) -> AcceptedFacts:
    """The facts that an environment check at `now` compares with; `findings`: all of the provider's. The region and the zone of the `nodes` must
    be the declared ones."""
    looks = archive.snapshots(provider.name)
    facts: dict[str, Sequence[Any]] = {}
    for earlier in looks:
        for name, value in earlier.facts.items():
            facts.setdefault(name, _values(value))
    origin = f"the environment check of {looks[0].taken_at:%Y-%m-%d}" if looks else ""
    campaign, trials = _measured(archive, provider.name, looks[0].taken_at if looks else now)
    shared = _shared(provider, facts, trials)
    if shared:
        facts |= shared
        origin = f"campaign {campaign}"
    places = [(fact, node[fact], *place) for node in nodes for fact, place in provider.places(node).items()]
    facts |= {fact: [found if same else place] for fact, found, place, same in sorted(places, key=lambda each: each[-1])}
    if not all(same for *_, same in places):
        origin = f"{origin} and the declaration" if origin else FROM_DECLARATION
    for finding in sorted((f for f in findings if (f.kind, f.state) == ("environment", "accepted")), key=lambda f: f.updated_at):
        about = {fact_name(m["name"]) for m in finding.detail.get("members", ())}
        rows = [*_snapshots_of(finding, looks), *_trials_of(archive, finding)]
        for name in (name for name in list(facts) if fact_name(name) in about):
            taken = [value for row in rows for key, value in row.items() if value is not None and fact_name(key) == fact_name(name)]
            if taken:
                facts[name] = list(dict.fromkeys(v for value in taken for v in _values(value)))
                origin = f"the facts accepted on {finding.updated_at:%Y-%m-%d}"
    return AcceptedFacts(facts, origin)


def _measured(archive: Archive, provider: str, before: datetime) -> tuple[str, Sequence[Facts]]:
    """The provider's last campaign planned before then, and its trials' environments."""
    keys = [s.series_key for s in archive.series(provider=provider) if s.source != "imported"]
    planned = [(at, campaign, key) for key in keys for campaign, at in archive.series_campaigns(key, _CAMPAIGNS) if at < before]
    for _, campaign, _ in sorted(planned, reverse=True)[:1]:
        samples = [archive.sample(key, campaign) for _, name, key in planned if name == campaign]
        return campaign, [facts for sample in samples for facts in sample.environments]
    return "", ()


def _snapshots_of(finding: FindingView, looks: Sequence[SnapshotView]) -> Sequence[Mapping[str, Any]]:
    """The facts of the last snapshot of each kind between the finding's beginning and its acceptance."""
    since = (
        datetime.fromisoformat(finding.detail["since"]).replace(tzinfo=timezone.utc) if finding.detail.get("since") else finding.opened_at
    )
    last = {s.kind: s.facts for s in looks if since <= s.taken_at <= finding.updated_at}
    return list(last.values())


def _trials_of(archive: Archive, finding: FindingView) -> Sequence[Facts]:
    """The environments of the last campaign that showed it."""
    parsed = Finding.of(finding.detail)
    last = parsed.campaigns[-1:]
    keys = {s.series_key for campaign in last for s in archive.series(campaign_id=campaign)} & {*parsed.series}
    return [facts for campaign in last for key in sorted(keys) for facts in archive.sample(key, campaign).environments]


def _shared(provider: Provider, checked: dict[str, Sequence[Any]], trials: Sequence[Facts]) -> dict[str, Sequence[Any]]:
    """The trials' values of facts that environment checks report in the same format; of all facts without an earlier check."""
    names = set().union(*trials) & checked.keys() if checked else set().union(*trials)
    if provider.launcher.facts_from_api:
        names &= shared_facts(provider)
    values = {name: list(dict.fromkeys(v for facts in trials if (v := facts.get(name)) is not None)) for name in names}
    return {name: own for name, own in values.items() if own}


def shared_facts(provider: Provider) -> set[str]:
    """The facts that a cluster's nodes and the trials on them report in the same format."""
    return {*_OF_NODES, *(_OF_NVIDIA if provider.accelerator.kind == "nvidia" else ())}


def _values(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


UNREACHABLE_AFTER = timedelta(hours=50)
"""Two failed daily checks in a row."""


FIRST_CHECK = "first environment check: later changes open findings"
"""A note of a check that had nothing to compare with."""


@dataclass(frozen=True)
class EnvironmentCheck:
    """One environment check. `facts`: formatted, as `2×550.90.07, 1×570.86.15` where nodes differ. `changes` from the accepted facts and `news`
    since the last check: rows {fact, old, new}. `findings`: ids of those that are open or resolved now. `notes`: what the check could not see."""

    provider: str
    at: datetime
    nodes: int
    facts: Mapping[str, str]
    changes: tuple[Mapping[str, str], ...]
    news: tuple[Mapping[str, Any], ...]
    findings: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def reason(self) -> str:
        """The news in one line; empty without any."""
        return pending_changes.change_summary(self.news) if self.news else ""


def check_environment(provider: str, at: datetime | None = None, *, patience_s: float = DISCOVERY_PATIENCE_S) -> EnvironmentCheck:
    """Check a declared provider's environment (`at`: at another time, for simulated ones), store a snapshot, and reconcile findings. Checking
    again changes nothing. `patience_s`: how long a cluster's API may not answer.

    LookupError for an unknown provider. Unreachable, BadDeclaration or ApiRefused if its cluster cannot be read; after two days a finding opens.
    """
    declared = load_in_force()
    known = declared_provider(declared, provider)
    now = at or datetime.now(timezone.utc)
    try:
        facts = launcher_for(known).discover(known, now, patience_s=patience_s)
    except (Unreachable, BadDeclaration, ApiRefused) as error:
        with open_archive() as archive:
            last = archive.latest_snapshot(provider, "cluster", now)
            if last is not None and now - last.taken_at >= UNREACHABLE_AFTER:
                failing = check_failing_finding(provider, last.taken_at.date(), str(error), known.simulated)
                apply(archive, Reconciliation((failing,)), by=pending_changes.AUTHOR, seen_in=f"{now:%Y-%m-%d}")
        raise
    with open_archive() as archive:
        return compare_with_accepted(archive, declared, known, facts, now)


def compare_with_accepted(
    archive: Archive,
    declared: Declarations,
    provider: Provider,
    provider_facts: ProviderFacts,
    now: datetime,
    *,
    probed: Mapping[str, float] | None = None,
) -> EnvironmentCheck:
    """Compare a provider's facts with the accepted ones; store the findings and the snapshot.

    `probed`: the figures, if it was a probe that saw it from inside.
    """
    nodes = [{**facts, **provider_facts.whole} for facts in provider_facts.nodes]
    findings = archive.findings_of(provider.name)
    open_findings = readable_findings(f for f in findings if f.state in OPEN_STATES)
    before = accepted_facts(archive, provider, findings, now, nodes)
    reconciliation = environment_check.reconcile_environment(
        provider.name,
        before,
        nodes,
        open_findings,
        now.date(),
        rerun=rerun_note(provider),
        simulated=provider.simulated,
        settled={f.finding_id for f in findings} - {f.finding_id for f in open_findings},
        rules=declared.thresholds.drift.environment,
    )
    failing = (s for s in open_findings if FailingCheck.has(s))
    checked_again = tuple((finding, "resolved: the environment check succeeded") for finding in failing)
    applied = replace(reconciliation, resolved=(*reconciliation.resolved, *checked_again))
    apply(archive, applied, by=pending_changes.AUTHOR, seen_in=f"{now:%Y-%m-%d}")
    changes, concerned = environment_check.change_rows(reconciliation.changes), _concerned_ids(reconciliation, open_findings)
    news = (
        pending_changes.record_changes(archive, provider.name, changes, environment_check.uniform_facts(nodes), concerned)
        if provider.watch.enabled
        else []
    )
    counts = environment_check.count_values(nodes or [provider_facts.whole])
    if counts:
        # Last: after a crash the next check compares with the same past.
        facts = environment_check.merge_facts(nodes or [provider_facts.whole])
        if probed is not None:
            archive.save_snapshot(SnapshotRecord(provider.name, "probe", now, facts, probed))
        else:
            figures = {f"{key}={value}": n for key, own in counts.items() if len(own) > 1 for value, n in own.items()}
            archive.save_snapshot(SnapshotRecord(provider.name, "cluster", now, facts, {"nodes": len(nodes), **figures}))
    first = (FIRST_CHECK,) if nodes and before.origin in ("", FROM_DECLARATION) else ()
    words = {key: environment_check.format_counts(own) for key, own in counts.items()}
    return EnvironmentCheck(
        provider.name, now, len(nodes), words, tuple(changes), tuple(news), tuple(concerned), (*provider_facts.notes, *first)
    )


def _concerned_ids(reconciliation: EnvironmentReconciliation, open_findings: Sequence[Finding]) -> list[str]:
    """The findings of what differs now, and those that this check resolved."""
    about = {fact_name(change.key) for change in reconciliation.changes}
    known = [s for s in open_findings if about_facts(s) and about & {fact_name(m.name) for m in s.members}]
    return sorted({f.finding_id for f in (*known, *reconciliation.opened, *(finding for finding, _ in reconciliation.resolved))})


def rerun_note(provider: Provider) -> str:
    """A phrase: what a change of the provider starts, or why nothing."""
    if not provider.enabled:
        return "no automatic rerun: the provider is disabled"
    if not provider.watch.enabled:
        return f"no automatic rerun: watch.enabled is false; run plumbline trigger {provider.name}"
    return f"{WATCH_DAG} starts a rerun of {provider.dag_id}"
