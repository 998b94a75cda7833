"""A team's first choice that changed, as people are told of it: what to do, where to look, and no cost of its own."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from tests.unit.findings.test_decision_change import CHEAPER, COREWEAVE, NEBIUS, opened

from plumbline.alerts import AlertContext, render
from plumbline.alerts.digest import Digest, Entry, render_digest
from plumbline.alerts.message import finding_links, next_steps
from plumbline.alerts.monthly_cost import MonthlyCost, monthly_cost
from plumbline.declarations import Alerts
from plumbline.findings.decision_change import reconcile_decision

FINDING = opened()


def test_what_to_do_is_to_look_at_the_decision_and_to_go_along_or_to_stay() -> None:
    steps = dict(next_steps(FINDING))
    assert steps == {
        "plumbline decide --team platform --kind training --workload gpt-1b": "the ranking, and what would change it",
        f"plumbline findings accept {FINDING.finding_id} --why …": "the team goes along",
        f"plumbline findings resolve {FINDING.finding_id} --why …": "the team stays where it is",
    }
    assert list(dict(next_steps(FINDING.with_state("accepted")))) == list(steps)[:1]
    text = render(FINDING, None, AlertContext()).text
    assert "can be chosen, best first: 1. nebius-eu-h100 (P = 0.91); 2. coreweave-us-h100 (P = 0.09)" in text
    title = render(FINDING.with_state("accepted"), None, AlertContext()).blocks[0]["text"]["text"]
    assert title.startswith(f"ACCEPTED AS FIRST CHOICE: {NEBIUS} training")


def test_it_leads_to_the_decision_and_asks_nobody_about_a_baseline() -> None:
    found = {words: address for address, words in finding_links(FINDING, "https://airflow.example.com/")}
    assert found["the decision"] == "https://airflow.example.com/plumbline/decisions/platform/training?workload=gpt-1b"
    assert "decide in Airflow" not in found


def test_it_costs_nothing_by_itself_and_the_digest_does_not_call_that_unknown() -> None:
    day = date(2026, 11, 21)
    assert monthly_cost(FINDING, Alerts(), None, day) == MonthlyCost(None, "")
    text = render_digest(Digest("2026-11", day, (Entry(FINDING, MonthlyCost(None, ""), day, None, ("platform",)),))).text
    assert "1. a choice  WARN  nebius-eu-h100 · training gpt-1b · first choice of team platform for training: nebius-eu-h100" in text
    assert "What is open is about teams' first choices" in text and "unknown" not in text and "not known" not in text


def test_a_finding_that_went_on_has_the_same_text_again() -> None:
    (went_on,) = reconcile_decision(CHEAPER, replace(CHEAPER, trials="t2"), [FINDING], date(2026, 12, 2), "d3").continued
    assert render(went_on).digest == render(FINDING).digest
    less_sure = replace(CHEAPER, trials="t2", eligible=((NEBIUS, 0.7), (COREWEAVE, 0.3)))
    (changed,) = reconcile_decision(CHEAPER, less_sure, [FINDING], date(2026, 12, 2), "d3").continued
    assert render(changed).digest != render(FINDING).digest
