"""The question about a confirmed change, and its answer: accept as new baseline, keep the old one, or rerun."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from plumbline.archive import Archive, WrongState
from plumbline.declarations import Declarations
from plumbline.findings.decision_change import is_decision_change
from plumbline.results.finding import Finding
from plumbline.results.sample import Series
from plumbline.workflows.accept_price import accept_price, price_of_finding
from plumbline.workflows.plan import ACCEPT, KEEP, RERUN

Answer = Literal["accept", "keep", "rerun"]
QUESTION_KINDS = ("performance", "environment")
TIMED_OUT = "nobody (the question timed out)"


@dataclass(frozen=True)
class Rerun:
    """A run of a provider's benchmark DAG that was asked for: `conf` is what its form takes."""

    dag_id: str
    conf: dict[str, Any]


@dataclass(frozen=True)
class AppliedAnswer:
    """`baselines`: series → campaign, of an accepted change. `rerun`: what is to be triggered, None for other answers. `price`: USD per hour of
    the instance, of a price that was accepted by this. `choice`: it was about who ranks first, and the team goes along."""

    finding_id: str
    answer: Answer
    baselines: dict[str, str]
    rerun: Rerun | None = None
    price: float | None = None
    choice: bool = False


def undecided_findings(findings: Sequence[Finding]) -> list[Finding]:
    """The findings that a person should decide about: confirmed changes that nobody has dealt with yet."""
    return [f for f in findings if f.kind in QUESTION_KINDS and f.state == "open" and not is_decision_change(f)]


def apply_answer(archive: Archive, declared: Declarations, finding_id: str, answer: Answer, by: str, why: str) -> AppliedAnswer:
    """Carry an answer out; who gave it and why go to the audit log. The same answer again changes nothing.

    LookupError for an unknown finding; ValueError without who and why, for one that is settled otherwise, or for a rerun of what no
    enabled provider can run.
    """
    for name, value in (("by", by), ("why", why)):
        if not value.strip():
            raise ValueError(f"{name} is empty; expected who decides about the finding and why")
    view = archive.finding(finding_id)
    finding = Finding.of(view.detail).with_state(view.state)
    if answer == "accept":
        if view.state == "resolved":
            raise WrongState(f"finding {finding_id} is resolved; expected one that is open or acknowledged")
        if is_decision_change(finding):
            archive.set_finding_state(finding_id, "accepted", by=by, why=why)  # the team goes along: nothing else follows
            return AppliedAnswer(finding_id, answer, {}, choice=True)
        if finding.kind == "price":
            if view.state == "accepted":
                return AppliedAnswer(finding_id, answer, {})
            if (provider := declared.providers.get(finding.provider)) is None:
                raise ValueError(f'finding {finding_id} is about "{finding.provider}", which is not declared any more')
            made = accept_price(archive, provider, *price_of_finding(finding), by=by, why=why, declared=declared)
            return AppliedAnswer(finding_id, answer, {}, price=made.price.usd_per_hour)
        if finding.kind not in QUESTION_KINDS:
            raise ValueError(
                f"finding {finding_id} is of kind {finding.kind}, which no baseline can take in; expected {', '.join(QUESTION_KINDS)} or price"
            )
        baselines = {key: _newest(archive, finding, key) for key in finding.standing}
        if view.state != "accepted":  # else a baseline that has moved on since would be taken back
            for key, campaign in baselines.items():
                archive.accept_baseline(key, campaign, by=by, why=why)
            archive.set_finding_state(finding_id, "accepted", by=by, why=why)
        return AppliedAnswer(finding_id, answer, baselines)
    if view.state in ("accepted", "resolved"):
        if by == TIMED_OUT:
            return AppliedAnswer(finding_id, answer, {})  # somebody decided elsewhere, or it recovered, while the question waited
        raise WrongState(f"finding {finding_id} is {view.state}; expected one that is open or acknowledged")
    if answer == "rerun" and is_decision_change(finding):
        raise ValueError(
            f"finding {finding_id} is about who ranks first, of which nothing runs again; `plumbline trigger` measures a provider"
        )
    rerun = plan_rerun(declared, finding) if answer == "rerun" else None
    if answer == "keep" and by != TIMED_OUT:
        archive.set_finding_state(finding_id, "acknowledged", by=by, why=why)
    detail = {"answer": answer, **({"dag_id": rerun.dag_id, **rerun.conf} if rerun else {})}
    archive.add_audit(who=by, what="rerun_asked" if rerun else "baseline_kept", subject=finding_id, why=why, detail=detail)
    return AppliedAnswer(finding_id, answer, {}, rerun)


def _newest(archive: Archive, finding: Finding, series_key: str) -> str:
    """The newest campaign of the series that the finding was seen in."""
    had = {campaign for campaign, _ in archive.series_campaigns(series_key, latest=200)}
    return next((c for c in reversed(finding.campaigns) if c in had), finding.campaigns[-1])


def plan_rerun(declared: Declarations, finding: Finding) -> Rerun:
    """What measures a finding's series again; ValueError if no enabled provider can."""
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
    if provider.launcher.runs_pods:
        # Everywhere else there is one machine, or the provider chooses: the same place again is all that can be had.
        conf["placement"] = "fresh_node"
    return Rerun(provider.dag_id, conf)


# What a person is asked about a finding, in words. No Airflow in here.
#
# It may be read at night by somebody who has not heard of the finding: what happened and what explains it come first, then what each answer
# does to this provider, then what happens without one.


_MOST_MEMBERS = 10


@dataclass(frozen=True)
class Question:
    """`subject`: one line, severity first. `body`: Markdown."""

    subject: str
    body: str


def build_question(finding: Finding, declared: Declarations, answer_by: datetime) -> Question:
    """The question about a finding that is open; nobody answering before `answer_by` (UTC) keeps the old baseline."""
    parts = [
        _plain(f"{finding.explanation[:1].upper()}{finding.explanation[1:]}."),
        "\n".join(["**What changed**", "", *_members(finding)]),
        "\n".join(["**What each answer does**", "", *(f"- **{name}**: {_plain(does)}" for name, does in _answers(finding, declared))]),
        f"Without an answer by {answer_by:%Y-%m-%d %H:%M} UTC the old baseline is kept and the finding stays open.",
        "\n".join(["More, in a terminal:", "", *(f"- `{command}`" for command in _commands(finding))]),
    ]
    return Question(finding.headline, "\n\n".join(parts))


def _members(finding: Finding) -> list[str]:
    several = len(finding.series) > 1
    told = [f"- {_plain(m.text)}{_of(m.series_key) if several else ''}" for m in finding.members[:_MOST_MEMBERS]]
    more = len(finding.members) - _MOST_MEMBERS
    return [*told, *([f"- … and {more} more"] if more > 0 else [])]


def _of(series_key: str | None) -> str:
    if series_key is None:
        return ""
    series = Series.parse(series_key)
    return _plain(f" ({series.kind} {series.workload})")


def _answers(finding: Finding, declared: Declarations) -> list[tuple[str, str]]:

    series = "the series" if len(finding.standing) == 1 else f"each of the {len(finding.standing)} series"
    old = ", ".join(finding.baseline_campaigns) or "none was measured yet"
    try:
        rerun = plan_rerun(declared, finding)
        where = (
            "on nodes that it was not on lately" if "placement" in rerun.conf else "in the same place: this provider has no other to choose"
        )
        again = f"{rerun.dag_id} measures {', '.join(rerun.conf['workloads'])} again, {where}. If the change is still there, you are asked again"
    except ValueError as impossible:
        again = f"cannot be done: {impossible}"
    held = (
        f"From now on {series} is held against its newest campaign that shows it ({finding.campaigns[-1]})"
        if finding.standing
        else "What is seen of the provider from now on is held against it"
    )
    return [
        (ACCEPT, f"this is the new normal. {held}"),
        (
            KEEP,
            f"the baseline stays as it is ({old}). The finding stands, acknowledged, until the provider recovers; nobody is asked again",
        ),
        (RERUN, again),
    ]


def _commands(finding: Finding) -> list[str]:
    return [
        f"plumbline findings show {finding.finding_id}",
        *(
            f"plumbline compare {old} {new} --provider {finding.provider}"
            for old, new in zip(finding.baseline_campaigns[-1:], finding.campaigns[:1], strict=False)
        ),
    ]


def _plain(text: str) -> str:
    """Names and versions as they are: what Markdown would take for emphasis is escaped."""
    for mark in "\\`*_<[":
        text = text.replace(mark, f"\\{mark}")
    return text
