"""What a person answers to a finding, carried out and written down. No Airflow in here: the form, the command line and tests come this way.

    accept   the change is the new normal: each series that shows it is held against its newest campaign that does; a price is the accepted
             one from then on; a team goes along with its new first choice
    keep     the baseline stays; the finding stands, acknowledged, until the provider recovers. It is not asked about again
    rerun    the baseline stays while the series are measured once more, on a fresh node where the provider has several. Nothing is
             decided yet: if the rerun shows the drift too, its review asks again

Nobody answering in time counts as keep, but acknowledges nothing: the next campaign that shows the drift asks again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from plumbline.declarations import Declarations, KubernetesLauncher
from plumbline.orchestration.accepted_prices import accept_finding

if TYPE_CHECKING:
    from plumbline.archive import Archive
    from plumbline.drift import Finding

Answer = Literal["accept", "keep", "rerun"]
ASKED_KINDS = ("performance", "environment")
NOBODY = "nobody (the question timed out)"
DECISION = "baseline_decision"
"""The DAG that asks."""


@dataclass(frozen=True)
class Rerun:
    """A run of a provider's benchmark DAG that was asked for: `conf` is what its form takes."""

    dag_id: str
    conf: dict[str, Any]


@dataclass(frozen=True)
class Decided:
    """`baselines`: series → campaign, of an accepted change. `rerun`: what is to be triggered, None for other answers. `price`: USD per hour of
    the instance, of a price that was accepted by this. `choice`: it was about who ranks first, and the team goes along."""

    finding_id: str
    answer: Answer
    baselines: dict[str, str]
    rerun: Rerun | None = None
    price: float | None = None
    choice: bool = False


def questions(findings: Sequence[Finding]) -> list[Finding]:
    """The findings that a person should decide about: confirmed changes that nobody has dealt with yet."""
    from plumbline.drift.winner import is_winner

    return [f for f in findings if f.kind in ASKED_KINDS and f.state == "open" and not is_winner(f)]


def decide(archive: Archive, declared: Declarations, finding_id: str, answer: Answer, by: str, why: str) -> Decided:
    """Carry an answer out; who gave it and why go to the audit log. The same answer again changes nothing.

    LookupError for an unknown finding; ValueError without who and why, for one that is settled otherwise, or for a rerun of what no
    enabled provider can run.
    """
    from plumbline.archive import WrongState
    from plumbline.drift import Finding
    from plumbline.drift.winner import is_winner

    for name, value in (("by", by), ("why", why)):
        if not value.strip():
            raise ValueError(f"{name} is empty; expected who decides about the finding and why")
    view = archive.finding(finding_id)
    finding = Finding.of(view.detail).with_state(view.state)
    if answer == "accept":
        if view.state == "resolved":
            raise WrongState(f"finding {finding_id} is resolved; expected one that is open or acknowledged")
        if is_winner(finding):
            archive.set_finding_state(finding_id, "accepted", by=by, why=why)  # the team goes along: nothing else follows
            return Decided(finding_id, answer, {}, choice=True)
        if finding.kind == "price":
            made = accept_finding(archive, declared, finding, by=by, why=why) if view.state != "accepted" else None
            return Decided(finding_id, answer, {}, price=made.usd_per_hour if made else None)
        if finding.kind not in ASKED_KINDS:
            raise ValueError(
                f"finding {finding_id} is of kind {finding.kind}, which no baseline can take in; expected {', '.join(ASKED_KINDS)} or price"
            )
        baselines = {key: _newest(archive, finding, key) for key in finding.standing}
        if view.state != "accepted":  # else a baseline that has moved on since would be taken back
            for key, campaign in baselines.items():
                archive.accept_baseline(key, campaign, by=by, why=why)
            archive.set_finding_state(finding_id, "accepted", by=by, why=why)
        return Decided(finding_id, answer, baselines)
    if view.state in ("accepted", "resolved"):
        if by == NOBODY:
            return Decided(finding_id, answer, {})  # somebody decided elsewhere, or it recovered, while the question waited
        raise WrongState(f"finding {finding_id} is {view.state}; expected one that is open or acknowledged")
    if answer == "rerun" and is_winner(finding):
        raise ValueError(
            f"finding {finding_id} is about who ranks first, of which nothing runs again; `plumbline trigger` measures a provider"
        )
    rerun = rerun_of(declared, finding) if answer == "rerun" else None
    if answer == "keep" and by != NOBODY:
        archive.set_finding_state(finding_id, "acknowledged", by=by, why=why)
    detail = {"answer": answer, **({"dag_id": rerun.dag_id, **rerun.conf} if rerun else {})}
    archive.add_audit(who=by, what="rerun_asked" if rerun else "baseline_kept", subject=finding_id, why=why, detail=detail)
    return Decided(finding_id, answer, {}, rerun)


def _newest(archive: Archive, finding: Finding, series_key: str) -> str:
    """The newest campaign of the series that the finding was seen in."""
    had = {campaign for campaign, _ in archive.series_campaigns(series_key, latest=200)}
    return next((c for c in reversed(finding.campaigns) if c in had), finding.campaigns[-1])


def rerun_of(declared: Declarations, finding: Finding) -> Rerun:
    """What measures a finding's series again; ValueError if no enabled provider can."""
    from plumbline.drift.sample import Series

    provider = declared.providers.get(finding.provider)
    if provider is None or provider not in declared.enabled_providers():
        raise ValueError(f"{finding.provider} is not an enabled provider; expected one that can be measured again")
    fits = {w.name: w.kind for w in declared.workloads_for(provider)}
    # What no campaign has shown yet may concern everything that runs there.
    concerned = [s.workload for s in map(Series.parse, finding.standing)] if finding.campaigns else list(fits)
    names = sorted(fits.keys() & set(concerned))
    if not names:
        raise ValueError(f"nothing of finding {finding.finding_id} still runs on {finding.provider}: its workloads are no longer declared")
    conf: dict[str, Any] = {
        "reason": f"confirm finding {finding.finding_id}: {finding.title}"[:500],
        "workloads": names,
        "kinds": sorted({fits[name] for name in names}),
    }
    if isinstance(provider.launcher, KubernetesLauncher):
        # Everywhere else there is one machine, or the provider chooses: the same place again is all that can be had.
        conf["placement"] = "fresh_node"
    return Rerun(provider.dag_id, conf)
