"""A team's first choice that changed, as people are told of it: what to do, where to look, and no cost of its own."""

from __future__ import annotations

from datetime import date

from tests.golden import Golden
from tests.unit.findings.test_decision_change import CHEAPER, COREWEAVE, NEBIUS, choice, opened

from plumbline.alerts import AlertContext, render
from plumbline.alerts.digest import Digest, render_digest
from plumbline.alerts.message import finding_links
from plumbline.answers.costed_findings import CostedFinding
from plumbline.declarations import Alerts
from plumbline.findings.decision_change import reconcile_decision
from plumbline.findings.monthly_cost import MonthlyCost, monthly_cost
from plumbline.findings.types import type_of

FINDING = opened()


def test_what_to_do_is_to_look_at_the_decision_and_to_go_along_or_to_stay(golden: Golden) -> None:
    message = render(FINDING, AlertContext())
    golden("alerts.first_choice", message.text, id=FINDING.finding_id)
    steps = type_of(FINDING).steps(FINDING)
    assert [next(verb for verb in ("decide", "accept", "resolve") if verb in command) for command, _ in steps] == [
        "decide",
        "accept",
        "resolve",
    ]
    accepted = FINDING.with_state("accepted")
    assert type_of(accepted).steps(accepted) == steps[:1]
    assert render(accepted, AlertContext()).title != message.title


def test_it_leads_to_the_decision_and_asks_nobody_about_a_baseline() -> None:
    addresses = [address for address, _ in finding_links(FINDING, "https://airflow.example.com/")]
    assert addresses[1] == "https://airflow.example.com/plumbline/decisions/platform/training?workload=gpt-1b"
    assert not any("required_actions" in address for address in addresses)


def test_it_costs_nothing_by_itself_and_the_digest_does_not_call_that_unknown(golden: Golden) -> None:
    day = date(2026, 11, 21)
    assert monthly_cost(FINDING, Alerts(), None, day) == MonthlyCost(None, "")
    text = render_digest(Digest("2026-11", day, (CostedFinding(FINDING, MonthlyCost(None, ""), day, None, ("platform",)),))).text
    golden("alerts.digest_of_first_choices", text, id=FINDING.finding_id)
    assert "unknown" not in text


def test_a_finding_that_went_on_has_the_same_text_again() -> None:
    (went_on,) = reconcile_decision(
        CHEAPER, choice((NEBIUS, 0.91), (COREWEAVE, 0.09), costs="c2", trials="t2", nebius=2.29), [FINDING], date(2026, 12, 2), "d3"
    ).continued
    assert render(went_on).digest == render(FINDING).digest
    less_sure = choice((NEBIUS, 0.7), (COREWEAVE, 0.3), costs="c2", trials="t2", nebius=2.29)
    (changed,) = reconcile_decision(CHEAPER, less_sure, [FINDING], date(2026, 12, 2), "d3").continued
    assert render(changed).digest != render(FINDING).digest
