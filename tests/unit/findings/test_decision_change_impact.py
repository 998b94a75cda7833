"""What a finding's message says of the decisions that followed it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from tests.fakes.labs import CHEAP, FAST, measure, spread, team, world
from tests.golden import Golden
from tests.unit.alerts.test_message import FINDING

from plumbline.alerts import render
from plumbline.archive import Archive, open_archive
from plumbline.declarations import Declarations
from plumbline.results.finding import Finding
from plumbline.words.decisions import with_certainty
from plumbline.workflows.alert import alert_of
from plumbline.workflows.decide import decide_all
from plumbline.workflows.findings import finding_record

DAY = date(2025, 12, 2)
SLOWER = replace(
    FINDING, finding_id="f1", provider=CHEAP, campaign_id=None, since="2025-12-01", seen_in=(), series_key="", series=(), standing=()
)


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as opened:
        measure(opened, world(), {FAST: spread(0.090), CHEAP: spread(0.1)})
        yield opened


def impact(archive: Archive, declared: Declarations, finding: Finding) -> str:
    return alert_of(archive, declared, archive.finding(finding.finding_id)).context.choice


def test_the_provider_that_fell_behind_is_left_by_the_team(archive: Archive, golden: Golden) -> None:
    declared = world()
    decide_all(archive, declared, DAY, "a test")
    archive.save_findings([finding_record(SLOWER)])
    assert impact(archive, declared, SLOWER) == ""
    measure(archive, declared, {CHEAP: spread(0.2)}, campaign="2025-12")
    (ranked, *_) = decide_all(archive, declared, DAY, "a test")
    case = alert_of(archive, declared, archive.finding("f1"))
    sure = archive.decisions()[0].detail["cheapest"][0]["setups"][0]["probability_cheapest"]
    by_first, by_cost = (with_certainty(FAST, probability) for probability in (ranked.probability, sure))
    golden("findings.decision_impact", case.context.choice, first=by_first, cheapest=by_cost)
    message = render(case.finding, case.context)
    assert case.context.choice in message.text and any("*Decisions*" in str(block) for block in message.blocks)
    # The finding that says the same of itself needs no second sentence.
    (winner,) = (f for f in archive.findings() if f.detail["subject"].startswith("winner/"))
    assert alert_of(archive, declared, winner).context.choice == ""


def test_the_first_decision_that_was_stored_after_the_finding_is_what_later_ones_are_held_against(archive: Archive) -> None:
    declared = world()
    archive.save_findings([finding_record(SLOWER)])
    decide_all(archive, declared, DAY, "nothing was stored before")
    assert impact(archive, declared, SLOWER) == ""
    measure(archive, declared, {CHEAP: spread(0.2)}, campaign="2025-12")
    decide_all(archive, declared, DAY, "a test")
    assert FAST in impact(archive, declared, SLOWER).partition(";")[0]


def test_others_and_other_questions_are_not_told(archive: Archive) -> None:
    declared = world()
    decide_all(archive, declared, DAY, "a test")
    elsewhere = replace(SLOWER, finding_id="f2", provider="lab-elsewhere")
    missing = replace(SLOWER, finding_id="f3", kind="missing_data")
    archive.save_findings([finding_record(f) for f in (SLOWER, elsewhere, missing)])
    faster = world(teams=(team(training={"workloads": ["gpt-test"], "weights": {"tokens_per_second": 1.0}}),))
    decide_all(archive, faster, DAY, "the team weighs speed alone now")
    assert impact(archive, faster, SLOWER) == "", "people changed the question, the provider did not change"
    measure(archive, faster, {FAST: spread(0.3)}, campaign="2025-12")
    decide_all(archive, faster, DAY, "a test")
    assert impact(archive, faster, elsewhere) == impact(archive, faster, missing) == ""


@pytest.mark.parametrize(("verdict", "told"), [("regressed", False), ("improved", True)])
def test_who_is_chosen_is_not_chosen_because_it_got_worse(archive: Archive, verdict: str, told: bool) -> None:
    declared = world()
    decide_all(archive, declared, DAY, "a test")
    members = tuple(replace(member, verdict=verdict) for member in SLOWER.members)
    chosen = replace(SLOWER, finding_id="f4", provider=FAST, members=members)
    archive.save_findings([finding_record(chosen)])
    measure(archive, declared, {CHEAP: spread(0.2)}, campaign="2025-12")
    decide_all(archive, declared, DAY, "a test")
    assert (FAST in impact(archive, declared, chosen).partition(";")[0]) is told
