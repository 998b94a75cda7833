"""The question about a confirmed change, and its answer: accept as new baseline, keep the old one, or rerun."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from plumbline.archive import Archive, FindingView, WrongState
from plumbline.archive.audit import TIMED_OUT
from plumbline.declarations import Declarations
from plumbline.findings.headline import headline
from plumbline.findings.types import type_of
from plumbline.findings.types.first_choice import FirstChoice
from plumbline.metrics.formatting import capitalize_first, first_lines
from plumbline.metrics.units import Amount
from plumbline.results.finding import Finding
from plumbline.results.sample import Series
from plumbline.workflows.accept_price import accept_price, price_of_finding
from plumbline.workflows.causes import unsettled_witnesses
from plumbline.workflows.operations_log import report_breaches
from plumbline.workflows.plan import ACCEPT, KEEP, RERUN

Answer = Literal["accept", "keep", "rerun"]


@dataclass(frozen=True)
class Rerun:
    """A run of a provider's benchmark DAG; `conf`: the values of its form. `run_id`: the same for the same state of the finding, so that however
    often it is asked for, it runs and costs once."""

    dag_id: str
    conf: dict[str, Any]
    run_id: str = ""


@dataclass(frozen=True)
class AppliedAnswer:
    """`baselines`: series → campaign, of an accepted change. `rerun`: the run to trigger, None for other answers. `price`: the accepted price, in
    USD per hour of the instance. `choice`: the finding is about a first choice, which the team accepts. `log`: promises are
    judged by the operations log. `repeated`: the finding was accepted before;
    nothing was changed, and the reason is not in the audit log."""

    finding_id: str
    answer: Answer
    baselines: dict[str, str]
    rerun: Rerun | None = None
    price: Amount | None = None
    choice: bool = False
    log: bool = False
    repeated: bool = False


def undecided_findings(findings: Sequence[Finding]) -> list[Finding]:
    """The findings that need a person's decision: open changes of performance or environment."""
    return [f for f in findings if type_of(f).accepting == "baseline" and f.state == "open"]


def apply_answer(archive: Archive, declared: Declarations, finding_id: str, answer: Answer, by: str, why: str) -> AppliedAnswer:
    """Apply an answer and record its author and reason in the audit log. The same answer again changes nothing.

    LookupError for an unknown finding; ValueError for an empty author or reason, a settled finding, or a rerun that no enabled provider can run.
    """
    for name, value in (("by", by), ("why", why)):
        if not value.strip():
            raise ValueError(f"{name} is empty; expected the author and the reason of the decision")
    view = archive.finding(finding_id)
    finding = Finding.of(view.detail).with_state(view.state)
    of = type_of(finding)
    if answer == "accept":
        if view.state == "resolved":
            raise WrongState(f"finding {finding_id} is resolved; expected one that is open or acknowledged")
        baselines = {key: _newest(archive, finding, key) for key in finding.standing} if of.accepting == "baseline" else {}
        if view.state == "accepted":  # a baseline that moved on since must not move back
            return AppliedAnswer(finding_id, answer, baselines, repeated=True)
        witnesses = [name for name, cause in unsettled_witnesses(archive).items() if cause == finding_id]
        choices = [name for name in witnesses if FirstChoice.has(Finding.of(archive.finding(name).detail))]
        if of.accepting == "first_choice":
            for one in (finding_id, *choices):  # the first choices that one price moved
                archive.set_finding_state(one, "accepted", by=by, why=why)
            return AppliedAnswer(finding_id, answer, {}, choice=True)
        if of.accepting == "price":
            if (provider := declared.providers.get(finding.provider)) is None:
                raise ValueError(f'finding {finding_id}: provider "{finding.provider}" is not declared; expected a declared provider')
            regions = {archive.finding(name).provider for name in set(witnesses) - set(choices)}
            along = [p for p in declared.providers.values() if p.name in regions]
            accepted = accept_price(archive, provider, *price_of_finding(finding), by=by, why=why, declared=declared, along=along)
            return AppliedAnswer(finding_id, answer, {}, price=accepted.price.usd_per_hour)
        if of.accepting == "log":
            archive.set_finding_state(finding_id, "accepted", by=by, why=why)
            if finding.provider in declared.providers:
                report_breaches(archive, declared, finding.provider, by)
            return AppliedAnswer(finding_id, answer, {}, log=True)
        if of.accepting is None:
            raise ValueError(f"finding {finding_id} is a {of.noun}, which nothing accepts; `plumbline findings resolve` settles it")
        for key, campaign in baselines.items():
            archive.accept_baseline(key, campaign, by=by, why=why)
        for witness in witnesses:
            archive.set_finding_state(witness, "accepted", by=by, why=why)
        archive.set_finding_state(finding_id, "accepted", by=by, why=why)
        return AppliedAnswer(finding_id, answer, baselines)
    if view.state in ("accepted", "resolved"):
        if by == TIMED_OUT:
            return AppliedAnswer(finding_id, answer, {})  # decided elsewhere or recovered while the question waited
        raise WrongState(f"finding {finding_id} is {view.state}; expected one that is open or acknowledged")
    if answer == "keep" and not of.reject_label:
        raise ValueError(f"finding {finding_id} is a {of.noun}, which nothing rejects; `plumbline findings resolve` settles it")
    if answer == "rerun" and not of.reruns:
        raise ValueError(f"finding {finding_id} is a {of.noun}, which has no rerun; `plumbline trigger` measures a provider")
    rerun = replace(plan_rerun(declared, finding), run_id=action_key(view, answer)) if answer == "rerun" else None
    if answer == "keep" and by != TIMED_OUT:
        archive.set_finding_state(finding_id, "acknowledged", by=by, why=why)
    detail = {"answer": answer, **({"dag_id": rerun.dag_id, **rerun.conf} if rerun else {})}
    what, once = ("rerun_asked", f"rerun_asked/{rerun.run_id}/{by}") if rerun else ("baseline_kept", None)
    archive.add_audit(who=by, what=what, subject=finding_id, why=why, detail=detail, once=once)
    return AppliedAnswer(finding_id, answer, {}, rerun)


def can_reopen(finding: Finding) -> bool:
    """Whether the finding was accepted as a baseline, which can be taken back."""
    return finding.state == "accepted" and type_of(finding).accepting == "baseline"


def reopen(archive: Archive, finding_id: str, by: str, why: str) -> dict[str, tuple[str, ...]]:
    """Open an accepted finding again and restore the baseline that it replaced; series → the campaigns that are its baseline again. A series
    whose baseline moved on since keeps it. On an open finding nothing changes.

    LookupError for an unknown finding; ValueError for an empty author or reason, or a finding that accepted no baseline.
    """
    view = archive.finding(finding_id)
    finding = Finding.of(view.detail).with_state(view.state)
    if view.state != "open" and not can_reopen(finding):
        raise WrongState(f"finding {finding_id} is {view.state}, kind {finding.kind}; expected one that was accepted as a new baseline")
    archive.set_finding_state(finding_id, "open", by=by, why=why)
    if view.state == "open":
        return {}
    restored = {key: archive.restore_baseline(key, _newest(archive, finding, key), by=by, why=why) for key in finding.standing}
    return {key: campaigns for key, campaigns in restored.items() if campaigns}


def _newest(archive: Archive, finding: Finding, series_key: str) -> str:
    """The series' newest campaign that shows the finding."""
    had = {campaign for campaign, _ in archive.series_campaigns(series_key, latest=200)}
    return next((c for c in reversed(finding.campaigns) if c in had), finding.campaigns[-1])


def action_key(view: FindingView, action: str) -> str:
    """The start of the ids of runs that apply this action to this state of the finding. Any change of the finding changes it."""
    return f"{view.finding_id}_{view.updated_at:%Y%m%dT%H%M%S%f}_{action}"


def plan_rerun(declared: Declarations, finding: Finding) -> Rerun:
    """The run that measures a finding's series again; ValueError if no enabled provider can run it."""
    provider = declared.providers.get(finding.provider)
    if provider is None or provider not in declared.enabled_providers():
        raise ValueError(f"{finding.provider} is not an enabled provider; expected an enabled one")
    fits = {w.name: w.kind for w in declared.workloads_for(provider)}
    # A finding without a campaign may concern every workload.
    concerned = [s.workload for s in map(Series.parse, finding.standing)] if finding.campaigns else list(fits)
    names = sorted(fits.keys() & set(concerned))
    if not names:
        raise ValueError(f"finding {finding.finding_id}: none of its workloads is declared for {finding.provider} any more")
    conf: dict[str, Any] = {
        "reason": f"confirm finding {finding.finding_id}: {finding.title}"[:500],
        "workloads": names,
        "kinds": sorted({fits[name] for name in names}),
    }
    if provider.launcher.chooses_nodes:
        # Elsewhere there is one machine, or the provider chooses the node.
        conf["placement"] = "fresh_node"
    return Rerun(provider.dag_id, conf)


_MOST_MEMBERS = 10


@dataclass(frozen=True)
class BaselineQuestion:
    """`subject`: one line, severity first. `body`: Markdown."""

    subject: str
    body: str


def build_question(finding: Finding, declared: Declarations, answer_by: datetime) -> BaselineQuestion:
    """The question about an open finding; without an answer by `answer_by` (UTC) the baseline stays."""
    commands = [
        f"plumbline findings show {finding.finding_id}",
        *([f"plumbline compare --finding {finding.finding_id}"] if finding.baseline_campaigns and finding.campaigns else []),
    ]
    parts = [
        *([_escape_markdown(f"{capitalize_first(finding.explanation)}.")] if finding.explanation else []),
        "\n".join(["**What changed**", "", *_members(finding)]),
        "\n".join(
            ["**What each answer does**", "", *(f"- **{name}**: {_escape_markdown(does)}" for name, does in _answers(finding, declared))]
        ),
        f"Without an answer by {answer_by:%Y-%m-%d %H:%M} UTC the baseline stays and the finding remains open.",
        "\n".join(["In a terminal:", "", *(f"- `{command}`" for command in commands)]),
    ]
    return BaselineQuestion(f"{finding.severity.upper()}  {headline(finding)}", "\n\n".join(parts))


def _members(finding: Finding) -> list[str]:
    several = len(finding.series) > 1
    named = ((m, Series.parse(m.series_key) if several and m.series_key is not None else None) for m in finding.members)
    lines = [f"- {_escape_markdown(m.text + (f' ({of.kind} {of.workload})' if of else ''))}" for m, of in named]
    return first_lines(lines, _MOST_MEMBERS, "- … and {} more")


def _answers(finding: Finding, declared: Declarations) -> list[tuple[str, str]]:
    series = "the series" if len(finding.standing) == 1 else f"each of the {len(finding.standing)} series"
    old = ", ".join(finding.baseline_campaigns) or "none yet"
    try:
        rerun = plan_rerun(declared, finding)
        where = (
            "on nodes that it did not use recently" if "placement" in rerun.conf else "in the same place: this provider has no other nodes"
        )
        again = (
            f"{rerun.dag_id} measures {', '.join(rerun.conf['workloads'])} again, {where}. If the change persists, the question comes again"
        )
    except ValueError as impossible:
        again = f"not possible: {impossible}"
    if finding.standing:
        accepted = f"from now on {series} is compared with its newest campaign that shows the change ({finding.campaigns[-1]})"
    else:
        accepted = "from now on the provider is compared with its values after the change"
    return [
        (ACCEPT, accepted),
        (
            KEEP,
            f"the baseline stays ({old}). The finding is acknowledged until the provider recovers, and the question does not come again",
        ),
        (RERUN, again),
    ]


def _escape_markdown(text: str) -> str:
    """Escapes what Markdown reads as emphasis, code or a tag."""
    for mark in "\\`*_<[":
        text = text.replace(mark, f"\\{mark}")
    return text
