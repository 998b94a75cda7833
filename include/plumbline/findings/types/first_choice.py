"""A team's first choice that changed."""

from __future__ import annotations

from collections.abc import Sequence

from plumbline.findings.phrases import titled
from plumbline.findings.types.base import FindingType, Step, register
from plumbline.findings.types.price_change import PriceFinding
from plumbline.metrics.formatting import join_words
from plumbline.results.finding import DECISION_CHANGE_PREFIX, OPEN_STATES, Finding


@register
class FirstChoice(FindingType):
    """`kinds`: price if only prices differ, else that of what moved it."""

    id = "first_choice"
    kinds = ("performance", "environment", "price", "reliability", "missing_data")
    subject = DECISION_CHANGE_PREFIX
    order = 60
    noun = "changed first choice"
    accepting = "first_choice"
    accept_label = "Accept the first choice"
    resolved_if = "the team stays"
    reject_label = "Reject: the team stays for now"
    accepted_as = "FIRST CHOICE"
    members_title = "eligible, best first"
    advice = "Decide whether to move away from"

    @classmethod
    def of(cls, team: str, kind: str, workloads: Sequence[str]) -> str:
        """The subject, such as `winner/platform/training/gpt-1b`."""
        return f"{cls.subject}{team}/{kind}/{'+'.join(workloads)}"

    @classmethod
    def is_of(cls, finding: Finding, team: str, kind: str, workloads: Sequence[str]) -> bool:
        """Whether the finding is about this choice."""
        return finding.subject == cls.of(team, kind, workloads)

    @classmethod
    def choice(cls, finding: Finding) -> tuple[str, str, tuple[str, ...]]:
        """Team, kind and workloads."""
        team, kind, workloads = cls.rest(finding).split("/", 2)
        return team, kind, tuple(workloads.split("+"))

    # One that a price moved is the story of that price.
    def word(self, direction: str, effect: float | None) -> str:
        return self.noun if effect is None else PriceFinding().word(direction, effect)

    def is_good_news(self, direction: str, effect: float | None) -> bool:
        return effect is not None and PriceFinding().is_good_news(direction, effect)

    def advise(self, direction: str, effect: float | None) -> str:
        return self.advice if effect is None else PriceFinding.advice

    def cause(self, finding: Finding) -> str:
        return join_words(finding.causes or finding.attributed_to)

    def consequence(self, finding: Finding, caused: bool) -> str:
        return finding.consequence if finding.kind in ("environment", "price") and caused else titled(finding, caused)

    def together(self, finding: Finding) -> frozenset[str]:
        return frozenset(finding.causes)

    def steps(self, finding: Finding) -> list[Step]:
        team, kind, workloads = self.choice(finding)
        one = f" --workload {workloads[0]}" if len(workloads) == 1 else ""
        steps = [(f"plumbline decide --team {team} --kind {kind}{one}", "ranking and what would change it")]
        if finding.state in OPEN_STATES:
            steps.append((f"plumbline findings accept {finding.finding_id} --why …", "the team switches"))
            steps.append((f"plumbline findings resolve {finding.finding_id} --why …", "the team stays"))
        return steps
