"""Every team's decisions from the archive: stored once for the same inputs, and a first choice that changed is a finding. On both databases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import pytest
from tests.fakes.labs import CHEAP, FAST, measure, serve, spread, team, world

from plumbline.answers.costed_findings import costed_findings
from plumbline.answers.ledger import ledger_of
from plumbline.answers.monthly_costs import headlines
from plumbline.archive import Archive, open_archive
from plumbline.declarations import Declarations
from plumbline.declarations.alerts import RentedVolume
from plumbline.declarations.providers.provider import CsvSource, MonitoringConfig
from plumbline.findings.headline import headline
from plumbline.findings.monthly_cost import MonthlyCost
from plumbline.metrics.formatting import format_day
from plumbline.presentation.findings_inbox import group_findings
from plumbline.results.availability_check import AvailabilityCheck
from plumbline.results.finding import Finding
from plumbline.words.decisions import with_certainty
from plumbline.workflows.accept_price import accept_price
from plumbline.workflows.baseline_decision import apply_answer, undecided_findings
from plumbline.workflows.causes import unsettled_witnesses
from plumbline.workflows.decide import RecordedDecision, decide_all, last_stored
from plumbline.workflows.read_prices import read_and_store_prices

DAY = date(2025, 12, 2)


@pytest.fixture
def archive(archive_url: str) -> Iterator[Archive]:
    with open_archive(archive_url) as opened:
        yield opened


@pytest.fixture
def declared() -> Declarations:
    return world()


@pytest.fixture
def measured(archive: Archive, declared: Declarations) -> Archive:
    """The fast lab is a tenth faster; at twice the price that is not worth it."""
    measure(archive, declared, {FAST: spread(0.090), CHEAP: spread(0.1)})
    serve(archive, declared, {FAST: spread(0.04), CHEAP: spread(0.05)})
    return archive


def ranked(archive: Archive, declared: Declarations, on: date = DAY) -> dict[str, RecordedDecision]:
    return {one.kind: one for one in decide_all(archive, declared, on, "a test")}


def winners(archive: Archive) -> list[tuple[str, str, str | None, str]]:
    """(kind, first, instead of whom, state) of what was found, oldest first."""
    found = [(f, Finding.of(f.detail)) for f in reversed(archive.findings()) if str(f.detail["subject"]).startswith("winner/")]
    return [(f.kind, told.provider, told.instead_of, f.state) for f, told in found]


def test_every_choice_is_stored_with_all_that_it_rests_on(measured: Archive, declared: Declarations) -> None:
    found = ranked(measured, declared)
    assert (found["training"].first, found["inference"].first) == (CHEAP, FAST)
    assert all(one.new and one.before is None and one.findings == () for one in found.values())
    stored = last_stored(measured, "platform", "training", ("gpt-test",))
    assert stored is not None and stored.winner == CHEAP and stored.probability == found["training"].probability
    detail = stored.detail
    assert detail["why"] == "a test" and detail["day"] == "2025-12-02" and detail["simulated"] is False
    assert [r["provider"] for r in detail["ranking"]] == [CHEAP, FAST] and len(detail["ranking"][0]["trials"]) == 3
    assert detail["prices"][CHEAP]["usd_per_hour"] == 1.0 and detail["prices"][CHEAP]["source"] == "a price list"
    assert detail["campaigns"] == {CHEAP: ["2025-11"], FAST: ["2025-11"]}
    assert {s["metric"] for s in detail["weight_swings"]} == {"tokens_per_second", "cost_per_1m_trained_tokens"}
    assert {s["provider"] for s in detail["price_swings"]} == {CHEAP, FAST} and detail["cheapest"][0]["setups"][0]["provider"] == CHEAP
    gates = last_stored(measured, "platform", "inference", ("chat-test",)).detail["ranking"][0]["gates"]  # type: ignore[union-attr]
    assert gates[0]["passed"] is True


def test_the_same_inputs_store_and_find_nothing(measured: Archive, declared: Declarations) -> None:
    first = ranked(measured, declared)
    again = ranked(measured, declared, date(2026, 1, 2))
    assert [one.decision_id for one in again.values()] == [one.decision_id for one in first.values()]
    assert not any(one.new for one in again.values()) and len(measured.decisions()) == 2 and measured.findings() == []


def test_a_price_change_re_ranks_at_once_without_a_rerun(measured: Archive, declared: Declarations) -> None:
    ranked(measured, declared)
    trials = len(measured.trials())
    accept_price(measured, declared.providers[FAST], "on_demand", None, by="ada", why="a new contract", usd_per_gpu_hour=0.5)
    found = ranked(measured, declared, datetime.now(timezone.utc).date())
    assert found["training"].first == FAST and found["training"].before == CHEAP and found["training"].new
    assert not found["inference"].new or found["inference"].first == FAST
    assert len(measured.trials()) == trials
    assert winners(measured) == [("price", FAST, CHEAP, "open")]
    (finding,) = (f for f in measured.findings() if f.kind == "price")
    today = datetime.now(timezone.utc).date()
    (reason,) = finding.detail["attributed_to"]
    assert "fell" in reason and "1.00 → 0.50" in reason and str(today) in reason
    assert with_certainty(FAST, found["training"].probability) in finding.detail["evidence"]
    # Again: nothing more.
    assert not any(one.new for one in ranked(measured, declared, today).values()) and len(winners(measured)) == 1


def test_back_to_the_former_one_resolves_it_also_where_the_inputs_were_seen_before(measured: Archive, declared: Declarations) -> None:
    ranked(measured, declared)
    today = datetime.now(timezone.utc).date()
    for usd in (0.5, 1.0, 0.5):
        accept_price(measured, declared.providers[FAST], "on_demand", None, by="ada", why="it moves", usd_per_gpu_hour=usd)
        ranked(measured, declared, today)
    assert winners(measured) == [("price", FAST, CHEAP, "resolved"), ("price", FAST, CHEAP, "open")]
    resolved = next(f for f in measured.findings("resolved"))
    (entry,) = (entry for entry in measured.audit(resolved.finding_id) if entry.what == "finding_resolved")
    assert entry.who == "ranking" and f"again {CHEAP}" in entry.why and FAST in entry.why and "0.50 → 1.00" in entry.why


def test_other_weights_are_another_question(measured: Archive, declared: Declarations) -> None:
    ranked(measured, declared)
    faster = team(training={"workloads": ["gpt-test"], "weights": {"tokens_per_second": 1.0}})
    assert ranked(measured, world(teams=(faster,)))["training"].first == FAST
    assert winners(measured) == []


def test_what_nobody_ran_is_no_decision(archive: Archive, declared: Declarations) -> None:
    assert decide_all(archive, declared, DAY, "a test") == [] and archive.decisions() == []


def test_the_watch_and_the_answer_to_its_finding_rank_too(measured: Archive, tmp_path: Path) -> None:
    """A price that a source tells: nothing moves until somebody accepts the finding, then the decisions follow in the same breath."""
    file = tmp_path / "history.csv"
    file.write_text("date,provider,region,instance_type,gpu,gpus,purchase,usd_per_gpu_hour\n")
    declared = world()
    source = CsvSource(kind="csv", file=str(file))
    declared.providers[FAST] = declared.providers[FAST].model_copy(update={"price_sources": (source,)})
    today = datetime.now(timezone.utc)
    for days_ago in (2, 1):
        at = today - timedelta(days=days_ago)
        with file.open("a") as lines:
            lines.write(f"{at.date()},local,here,host-2core,none,2,on-demand,0.5\n")
        seen = read_and_store_prices(measured, declared, declared.providers[FAST], at)
    assert len(measured.decisions()) == 2 and winners(measured) == []
    assert FAST in measured.decisions()[0].detail["why"]
    (price,) = (f for f in measured.findings() if f.finding_id in seen.opened)
    apply_answer(measured, declared, price.finding_id, "accept", "ada", "a new contract")
    assert winners(measured) == [("price", FAST, CHEAP, "open")]
    newest = last_stored(measured, "platform", "training", ("gpt-test",))
    assert newest is not None and newest.winner == FAST
    assert newest.detail["instead_of"] == newest.detail["before"]["first"] == CHEAP
    assert all(part in newest.detail["why"] for part in ("ada", "1.00 USD/h", "on_demand", FAST))
    accepted = Finding.of(measured.finding(price.finding_id).detail)
    story = f"{FAST} cut its price 50 % on {format_day(str((today - timedelta(days=2)).date()))}: platform moves to {FAST}"
    assert measured.finding(price.finding_id).state == accepted.state == "accepted"
    assert [headline(accepted), *(f.headline for f in measured.findings("open"))] == [story, story]
    read_and_store_prices(measured, declared, declared.providers[FAST], today)
    assert measured.finding(price.finding_id).headline == story, "a later check takes nothing away"


def test_one_price_in_two_regions_of_a_cloud_is_one_story_accepted_once(measured: Archive, tmp_path: Path) -> None:
    file = tmp_path / "history.csv"
    file.write_text("date,provider,region,instance_type,gpu,gpus,purchase,usd_per_gpu_hour\n")
    declared, today = world({CHEAP: 2.0}), datetime.now(timezone.utc)
    volume = RentedVolume.model_construct(provider="*", workload=None, time_per_month=3600.0 * 730, purchase="on_demand")
    declared = replace(declared, alerts=declared.alerts.model_copy(update={"volumes": (volume,)}))
    for name, lab in declared.providers.items():
        declared.providers[name] = lab.model_copy(update={"price_sources": (CsvSource(kind="csv", file=str(file)),)})
    for days_ago in (2, 1):
        at = today - timedelta(days=days_ago)
        with file.open("a") as lines:
            lines.write(f"{at.date()},local,here,host-2core,none,2,on-demand,1.3\n")
        for lab in declared.providers.values():
            read_and_store_prices(measured, declared, lab, at)
    day = format_day(str((today - timedelta(days=2)).date()))
    views = measured.findings("open")
    lines = headlines(measured, declared, views)
    told = f"local raised its price 30 % on {day}: costs use the accepted price until you accept the new one, about 880 USD a month more"
    assert len(views) == 2 and set(lines.values()) == {told}, "0.6 USD/h more in 730 h on each of two"
    assert ledger_of(costed_findings(measured, declared, views).values()).total().lost == pytest.approx(2 * 730 * 0.6)
    ((witness, lead),) = unsettled_witnesses(measured).items()
    (group,) = group_findings(views, {view.finding_id: MonthlyCost(876.0, "") for view in views})
    assert {witness, lead} == lines.keys() and len(group.siblings) == 1
    apply_answer(measured, declared, lead, "accept", "ada", "they are all dearer")
    assert {measured.finding(one).state for one in lines} == {"accepted"}
    settled = headlines(measured, declared, [measured.finding(one) for one in lines])
    assert set(settled.values()) == {f"local raised its price 30 % on {day}: costs use the new price, about 880 USD a month more"}
    assert [p.usd_per_hour for p in measured.prices([FAST, CHEAP])] == pytest.approx([2.6, 2.6])


def test_a_declared_price_whose_day_has_come_is_a_price_change(measured: Archive, declared: Declarations) -> None:
    ranked(measured, declared)
    old = declared.providers[FAST].prices[0].model_copy(update={"until": date(2026, 1, 1)})
    new = old.model_copy(update={"price": 1.0, "since": date(2026, 1, 1), "until": None})
    declared.providers[FAST] = declared.providers[FAST].model_copy(update={"prices": (old, new)})
    assert not ranked(measured, declared, date(2025, 12, 31))["training"].new
    assert ranked(measured, declared, date(2026, 1, 1))["training"].first == FAST
    (reason,) = measured.findings()[0].detail["attributed_to"]
    assert "1.00 → 0.50" in reason and "2026-01-01" in reason


def test_a_team_goes_along_or_stays(measured: Archive, declared: Declarations) -> None:
    ranked(measured, declared)
    cheaper = world({FAST: 1.0})
    ranked(measured, cheaper)
    (finding,) = measured.findings()
    assert undecided_findings([Finding.of(finding.detail)]) == [], "nobody is asked about a baseline"
    with pytest.raises(ValueError, match="first choice"):
        apply_answer(measured, cheaper, finding.finding_id, "rerun", "ada", "sure?")
    done = apply_answer(measured, cheaper, finding.finding_id, "accept", "ada", "we move")
    assert done.choice and done.baselines == {} and measured.finding(finding.finding_id).state == "accepted"
    # To turn back later is a change of its own.
    ranked(measured, declared)
    assert winners(measured) == [("price", FAST, CHEAP, "accepted"), ("price", FAST, FAST, "open")], "the rise of FAST turned it back"


def test_nothing_is_decided_about_what_a_busy_machine_spoilt(measured: Archive, declared: Declarations) -> None:
    training = [one.workloads for one in decide_all(measured, declared, DAY, "a test", {"chat-test"})]
    assert training and all("chat-test" not in workloads for workloads in training)
    assert len(decide_all(measured, declared, DAY, "a test")) > len(training)


def test_availability_of_the_last_months_decides_and_a_newer_one_is_another_input(measured: Archive, declared: Declarations) -> None:
    assert ranked(measured, declared)["inference"].first == FAST
    wanted = {"workloads": ["chat-test"], "weights": {"time_to_first_token": 0.5, "availability": 0.5}}
    weighs = team(inference={**wanted, "values": {"availability": {"worst": "90%", "best": "100%"}}})
    watch = MonitoringConfig.model_validate_json('{"uptime": {"every": "1h"}}')
    places = {name: place.model_copy(update={"watch": watch}) for name, place in declared.providers.items()}
    declared = replace(declared, teams={weighs.name: weighs}, providers=places)
    assert ranked(measured, declared)["inference"].first is None, "nothing was observed"
    begin = datetime(2025, 11, 1, tzinfo=timezone.utc)
    for name, missed in ((FAST, 180), (CHEAP, 1)):
        causes = {n: "timeout" if 0 <= n < missed else None for n in range(-62 * 24, 92 * 24)}
        measured.save_availability_checks(
            [AvailabilityCheck(name, "uptime", begin + timedelta(hours=n), cause) for n, cause in causes.items()]
        )
    found = ranked(measured, declared)["inference"]
    assert (found.first, found.new) == (CHEAP, True)
    assert not ranked(measured, declared)["inference"].new
    detail = last_stored(measured, "platform", "inference", ("chat-test",)).detail  # type: ignore[union-attr]
    better, worse = (row["values"][1] for row in detail["ranking"])
    assert better > worse, "of time that is seen as up"
    measured.save_availability_checks(
        [AvailabilityCheck(name, "uptime", begin + timedelta(days=20, minutes=30), "timeout") for name in (FAST, CHEAP)]
    )
    assert ranked(measured, declared)["inference"].new
