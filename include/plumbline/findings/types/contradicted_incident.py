"""An incident that the operations log has and checks of the uptime contradict: no promise is judged by it until a person decides."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from plumbline.declarations.promises.judging.witnesses import ContradictedIncident
from plumbline.findings import Reconciliation, provider_finding
from plumbline.findings.phrases import titled
from plumbline.findings.types.base import FindingType, Step, register
from plumbline.metrics.formatting import common_scale
from plumbline.results.finding import OPEN_STATES, Finding


@register
class ContradictedIncidentFinding(FindingType):
    id = "contradicted_incident"
    kinds = ("reliability",)
    subject = "contradiction/"
    order = 31
    noun = "contradicted incident"
    accepting = "log"
    accept_label = "Accept the operations log"
    accepted_as = "NOTED"
    advice = "Decide what happened at"
    resolved_if = "the checks are right: nothing is claimed with it"

    @classmethod
    def of(cls, one: ContradictedIncident) -> str:
        """The subject: a correction of the entry is another question."""
        return f"{cls.subject}{one.entry.entry_id}/{one.entry.revision}"

    @classmethod
    def entry_of(cls, finding: Finding) -> tuple[str, int]:
        """Id and revision of the log's entry that it is about."""
        entry, _, revision = cls.rest(finding).partition("/")
        return entry, int(revision)

    def cause(self, finding: Finding) -> str:
        return ""

    def consequence(self, finding: Finding, caused: bool) -> str:
        return titled(finding, caused, dated=True)

    def looks(self, finding: Finding) -> list[Step]:
        return [(f"plumbline availability {finding.provider}", "what the checks saw, by month, and every outage")]

    def accept_purpose(self, finding: Finding) -> str:
        return "the operations log is right: promises count the incident"

    def answers(self, finding: Finding) -> list[Step]:
        if finding.state not in OPEN_STATES:
            return []
        accept, *others = super().answers(finding)
        correct = f"plumbline log incident {finding.provider} --id {self.entry_of(finding)[0]} --solved … --whose …"
        return [accept, (correct, "correct the entry: its end, or whose it was"), *others]


def confirmed_entries(findings: Sequence[Finding], revisions: Collection[tuple[str, int]]) -> frozenset[str]:
    """Ids of the log's entries that a person holds to be right. `revisions`: id and newest revision of each entry."""
    accepted = (ContradictedIncidentFinding.entry_of(f) for f in findings if ContradictedIncidentFinding.has(f) and f.state == "accepted")
    return frozenset(entry for entry, revision in accepted if (entry, revision) in revisions)


def reconcile_contradictions(
    provider: str, found: Sequence[ContradictedIncident], open_findings: Sequence[Finding], simulated: bool
) -> Reconciliation:
    """A finding for each revision of an entry that checks contradict, where a promise depends on it."""
    known = {f.subject: f for f in open_findings if ContradictedIncidentFinding.has(f)}
    now = {ContradictedIncidentFinding.of(one): _finding(provider, one, simulated) for one in found}
    over = "resolved: the entry was corrected, or no promise depends on it any more"
    return Reconciliation(
        tuple(finding for subject, finding in now.items() if subject not in known),
        tuple(f.with_state(known[s].state) for s, f in now.items() if s in known and known[s].evidence != f.evidence),
        tuple((finding, over) for subject, finding in known.items() if subject not in now),
    )


def _finding(provider: str, one: ContradictedIncident, simulated: bool) -> Finding:
    scale = common_scale("s", [one.logged_s, one.up_s])
    logged, up = scale.text(one.logged_s), scale.text(one.up_s)
    return provider_finding(
        provider,
        "reliability",
        ContradictedIncidentFinding.of(one),
        began=str(one.entry.revision),
        since=f"{one.entry.opened:%Y-%m-%d}",
        severity="warn",
        title=f"the operations log says {logged} down from {one.entry.opened:%Y-%m-%d %H:%M} UTC, checks were answered in {up} of it",
        explanation=f"log entry {one.entry.entry_id} and checks of the uptime contradict each other: the promises that it bears on are not shown, "
        "and nothing is claimed, until a person accepts the log or corrects the entry",
        simulated=simulated,
    )
