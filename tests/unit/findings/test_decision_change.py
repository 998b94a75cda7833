"""When a team's first choice changes, and what becomes of the finding that says so."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from tests.golden import Golden
from tests.unit.findings.conftest import written

from plumbline.analysis.decisions.decision import Column, Ranked
from plumbline.analysis.decisions.decision_record import DecisionDocument, Inputs, PriceAtDecision
from plumbline.findings.decision_change import join_stories, reconcile_decision
from plumbline.findings.headline import cause_of, headline
from plumbline.findings.types.first_choice import FirstChoice
from plumbline.results.finding import Finding, PriceMove

DAY = date(2026, 11, 21)
COREWEAVE, NEBIUS, LAMBDA = "coreweave-us-h100", "nebius-eu-h100", "lambda-us-h100"


def ranking(*eligible: tuple[str, float | None]) -> tuple[Ranked, ...]:
    return tuple(Ranked(name, True, probability_first=chance) for name, chance in eligible)


def price(usd: float, since: date | None) -> PriceAtDecision:
    return PriceAtDecision(usd_per_unit=usd, since=since)


def choice(
    *eligible: tuple[str, float | None], trials: str = "t1", costs: str = "c1", nebius: float = 2.95, **changed: object
) -> DecisionDocument:
    """A ranking of three providers; `nebius` is that one's price per GPU-hour."""
    return replace(
        DecisionDocument(
            team="platform", kind="training", workloads=("gpt-1b",), ranking=ranking(*eligible), inputs=Inputs("q1", trials, costs),
            prices={
                COREWEAVE: price(2.79, date(2026, 1, 1)),
                NEBIUS: price(nebius, date(2026, 11, 20) if nebius != 2.95 else date(2026, 1, 1)),
            },
            campaigns={COREWEAVE: ("2026-11",), NEBIUS: ("2026-11",)},
        ),
        **changed,  # type: ignore[arg-type]
    )  # fmt: skip


BEFORE = choice((COREWEAVE, 0.88), (NEBIUS, 0.12))
CHEAPER = choice((NEBIUS, 0.91), (COREWEAVE, 0.09), costs="c2", nebius=2.29)


def opened(before: DecisionDocument = BEFORE, now: DecisionDocument = CHEAPER) -> Finding:
    return reconcile_decision(before, now, (), DAY, "d2").opened[0]


def test_a_price_that_fell_changes_the_first_choice(golden: Golden) -> None:
    finding = opened()
    golden("findings.first_choice_changed", written(finding))
    assert (finding.kind, finding.severity, finding.provider, finding.instead_of) == ("price", "warn", NEBIUS, COREWEAVE)
    assert FirstChoice.has(finding) and FirstChoice.choice(finding) == ("platform", "training", ("gpt-1b",))
    assert finding.began == "2026-11-21" and finding.concerns == "training gpt-1b" and finding.attributed_to[0].startswith("its price")
    assert Finding.of(finding.to_dict()) == finding


def test_nothing_is_said_to_be_certain() -> None:
    sure = opened(now=choice((NEBIUS, 1.0), (COREWEAVE, 0.0), costs="c2", nebius=2.29))
    assert f"{NEBIUS} (> 99 % sure)" in sure.evidence
    assert [m.text for m in sure.members] == [f"1. {NEBIUS} (> 99 %)", f"2. {COREWEAVE} (< 1 %)"]


def test_a_price_that_several_regions_took_names_their_cloud_and_all_prices() -> None:
    def priced(usd: float, day: date) -> dict[str, PriceAtDecision]:
        return {name: PriceAtDecision(8 * usd, usd, since=day) for name in ("harbor-eu", "harbor-us", "harbor-ap")}

    clouds = {"harbor-eu": "harbor", "harbor-us": "harbor", "harbor-ap": "elsewhere", NEBIUS: "nebius"}
    dear = date(2026, 11, 1)
    before = choice(("harbor-eu", 0.9), (NEBIUS, 0.1), prices=priced(2.0, date(2026, 1, 1)))
    now = choice((NEBIUS, 0.9), ("harbor-eu", 0.1), costs="c2", prices=priced(2.5, dear))
    platform = reconcile_decision(before, now, (), DAY, "d2", clouds).opened[0]
    assert platform.prices == (PriceMove("harbor-eu", 16.0, 20.0), PriceMove("harbor-us", 16.0, 20.0))
    other, again = (replace(one, team="product", kind="inference") for one in (before, now))
    product = reconcile_decision(other, again, (), DAY, "d2", clouds).opened[0]
    story = "harbor raised its price 25 % on 1 November 2026: product moves to nebius-eu-h100"
    assert headline(product) == story and cause_of(product) == cause_of(platform)
    joined = join_stories([platform, product.with_state("accepted")], clouds)
    assert [headline(one) for one in joined] == [story.replace("product moves", "platform and product move")]
    alone = reconcile_decision(before, now, (), DAY, "d2").opened[0]
    assert headline(alone).startswith("harbor-eu raised its price 25 %"), "without a known cloud"


def test_new_results_are_a_change_of_performance_and_a_narrow_lead_is_an_info() -> None:
    now = choice((NEBIUS, 0.6), (COREWEAVE, 0.4), trials="t2", campaigns={COREWEAVE: ("2026-11",), NEBIUS: ("2026-12",)})
    finding = opened(now=now)
    assert (finding.kind, finding.severity) == ("performance", "info")
    (campaign,) = finding.attributed_to
    assert "2026-12" in campaign and NEBIUS in campaign and finding.explanation.startswith(campaign)
    both = opened(now=replace(now, prices=CHEAPER.prices))
    assert both.kind == "performance" and both.attributed_to == (campaign, *opened().attributed_to)


def weighed(*ranked: tuple[str, float, float], **changed: object) -> DecisionDocument:
    """A ranking by time to first token and cost; `ranked`: provider, seconds, USD, the best first."""
    columns = tuple(
        Column("chat", metric, "value", "steady", unit, 0.5) for metric, unit in (("time_to_first_token", "s"), ("cost_per_run", "USD"))
    )
    best = [min(values) for values in zip(*(one[1:] for one in ranked), strict=True)]
    rows = tuple(
        Ranked(name, True, probability_first=0.95 if i == 0 else 0.05, values=(s, usd), ratios=(best[0] / s, best[1] / usd))
        for i, (name, s, usd) in enumerate(ranked)
    )
    return choice(columns=columns, ranking=rows, **changed)


def hourly(**usd: float) -> dict[str, PriceAtDecision]:
    return {name: PriceAtDecision(price, price, since=date(2026, 11, 20)) for name, price in usd.items()}


def test_the_headline_names_the_largest_part_and_no_provider_that_moves_nothing() -> None:
    """A third provider lost its results, the new first has a new campaign, and the price of the old one is what moved the choice."""
    campaigns = {"harbor": ("2026-11",), "borealis": ("2026-11",), "delta": ("2026-11",)}
    before = weighed(("harbor", 0.10, 1.0), ("borealis", 0.10, 1.1), prices=hourly(harbor=10.0, borealis=11.0), campaigns=campaigns)
    gone = {"harbor": ("2026-11",), "borealis": ("2026-12",), "delta": ()}
    after = weighed(
        ("borealis", 0.0999, 1.1), ("harbor", 0.10, 1.3), prices=hourly(harbor=13.0, borealis=11.0), campaigns=gone, trials="t2"
    )
    finding = opened(before, after)
    assert (finding.kind, finding.provider) == ("price", "harbor") and "delta" not in finding.explanation
    assert headline(finding) == "harbor raised its price 30 % on 20 November 2026: platform moves to borealis"
    assert headline(opened(before, replace(after, preference={"current": "borealis"}))).endswith(": platform stays on borealis")
    assert finding.explanation.startswith("harbor's price rose") and "borealis has results of campaign 2026-12" in finding.explanation


def test_what_noise_alone_moved_is_no_move() -> None:
    before = weighed(("harbor", 0.10, 1.0), ("borealis", 0.101, 1.0))
    after = weighed(("borealis", 0.099, 1.0), ("harbor", 0.10, 1.0), trials="t2")
    prices = hourly(harbor=10.0, borealis=10.0)
    scatter = {(name, "chat", metric): 0.05 for name in ("harbor", "borealis") for metric in ("time_to_first_token", "cost_per_run")}
    before, after = replace(before, prices=prices), replace(after, prices=prices)
    (finding,) = reconcile_decision(before, after, (), DAY, "d2", None, (scatter, scatter)).opened
    assert headline(finding) == "no part of the change exceeds the repeats' noise: borealis leads for platform"
    assert finding.severity == "info" and not finding.moves[0].clear
    exact = dict.fromkeys(scatter, 0.001)
    (faster,) = reconcile_decision(before, after, (), DAY, "d2", None, (exact, exact)).opened
    assert headline(faster).startswith("borealis's time to first token fell 2.0 % on chat: platform moves to borealis")
    unknown = opened(before, after)
    assert headline(unknown).startswith("borealis's time to first token fell 2.0 % on chat, not distinguished from noise: ")


def test_the_other_one_may_have_become_dearer() -> None:
    dearer = choice((NEBIUS, 0.9), (COREWEAVE, 0.1), costs="c2", prices={**BEFORE.prices, COREWEAVE: price(3.5, None)})
    (reason,) = opened(now=dearer).attributed_to
    assert opened(now=dearer).provider == COREWEAVE, "the rise counts on the provider that became dearer, not on the one that gained by it"
    assert reason.startswith(COREWEAVE) and "rose" in reason and "2.79 → 3.50" in reason


@pytest.mark.parametrize(("chance", "bar", "clear"), [(0.87, 0.9, False), (0.87, 0.85, True), (0.92, 0.95, False)])
def test_a_first_choice_below_the_teams_bar_leads_and_moves_nobody(chance: float, bar: float, clear: bool) -> None:
    finding = opened(now=replace(CHEAPER, ranking=ranking((NEBIUS, chance), (COREWEAVE, 1 - chance)), bar=bar))
    assert (finding.severity, finding.moves[0].clear) == (("warn", True) if clear else ("info", False))
    assert (f"platform moves to {NEBIUS}" if clear else f"{NEBIUS} leads for platform") in headline(finding)
    cause, consequence = headline(finding).split(": ")
    assert headline(finding, 1200.0) == f"{cause}, about 1,200 USD a month more: {consequence}", "the cause costs it, not the move"


def test_what_stays_or_is_asked_for_the_first_time_is_no_finding() -> None:
    assert reconcile_decision(None, CHEAPER, (), DAY, "d1").opened == ()
    assert reconcile_decision(BEFORE, BEFORE, (), DAY, "d2").opened == ()
    surer = choice((COREWEAVE, 0.95), (NEBIUS, 0.05), trials="t2")
    assert reconcile_decision(BEFORE, surer, (), DAY, "d2").opened == ()


def test_another_question_is_no_change_of_the_answer() -> None:
    for other in (replace(CHEAPER, inputs=Inputs("q2", "t1", "c2")), replace(CHEAPER, simulated=True)):
        course = reconcile_decision(BEFORE, other, [opened()], DAY, "d3")
        assert course.opened == () and "question" in course.resolved[0][1]


def test_a_finding_goes_on_with_new_numbers_and_keeps_its_beginning() -> None:
    finding = opened()
    surer = choice((NEBIUS, 0.7), (COREWEAVE, 0.3), trials="t2", costs="c2", nebius=2.29)
    course = reconcile_decision(CHEAPER, surer, [finding.with_state("acknowledged")], date(2026, 12, 2), "d3")
    assert course.opened == () and course.resolved == ()
    (later,) = course.continued
    assert (later.finding_id, later.state, later.since, later.explanation) == (
        finding.finding_id,
        "acknowledged",
        finding.since,
        finding.explanation,
    )
    assert later.severity == "info" and "(70 %)" in later.evidence and later.attributed_to == finding.attributed_to


def test_equal_inputs_find_and_end_nothing_but_what_was_left_standing() -> None:
    finding = opened()
    assert reconcile_decision(CHEAPER, CHEAPER, [finding], DAY, "d3") == reconcile_decision(CHEAPER, CHEAPER, (), DAY, "d3")
    ((over, why),) = reconcile_decision(BEFORE, BEFORE, [finding], DAY, "d3").resolved
    assert over == finding and f"{COREWEAVE} (88 %)" in why


def test_a_run_that_died_after_its_finding_leaves_no_second_one() -> None:
    """The finding was stored and the decision was not; the next run sees other inputs, under another id."""
    now = choice((NEBIUS, 0.85), (COREWEAVE, 0.15), costs="c4", nebius=2.29)
    course = reconcile_decision(BEFORE, now, [opened()], DAY, "d3")
    assert course.opened == () and course.resolved == () and [f.finding_id for f in course.continued] == [opened().finding_id]


def test_back_to_the_former_one_ends_it_with_the_reason(golden: Golden) -> None:
    back = reconcile_decision(CHEAPER, choice((COREWEAVE, 0.88), (NEBIUS, 0.12), costs="c3"), [opened()], DAY, "d3")
    assert back.opened == () and back.continued == ()
    golden("findings.first_choice_back", back.resolved[0][1])
    # Once somebody has accepted the change, to turn back is another one.
    again = reconcile_decision(CHEAPER, choice((COREWEAVE, 0.88), (NEBIUS, 0.12), costs="c3"), (), DAY, "d3").opened[0]
    assert again.provider == NEBIUS and again.finding_id != opened().finding_id


def test_a_third_one_ends_it_and_opens_another() -> None:
    third = choice((LAMBDA, 0.85), (NEBIUS, 0.15), trials="t2", campaigns={**BEFORE.campaigns, LAMBDA: ("2026-12",)})
    course = reconcile_decision(CHEAPER, third, [opened()], DAY, "d3")
    ((over, why),) = course.resolved
    assert over == opened() and f"{LAMBDA} (85 %)" in why and course.opened[0].instead_of == NEBIUS
    reason = course.opened[0].attributed_to[0]
    assert LAMBDA in why and LAMBDA in reason and "first results" in reason


def test_nobody_left_and_one_left_are_warnings(golden: Golden) -> None:
    nobody = opened(now=choice(trials="t2", campaigns={COREWEAVE: ("2026-12",)}))
    assert nobody.severity == "warn" and nobody.provider == COREWEAVE
    golden("findings.no_first_choice", headline(nobody))
    one = opened(now=choice((NEBIUS, None), trials="t2"))
    assert one.severity == "warn" and f"{NEBIUS} (only eligible provider)" in one.evidence
    back = reconcile_decision(choice(trials="t2"), choice((COREWEAVE, 0.88), (NEBIUS, 0.12), trials="t3"), [nobody], DAY, "d4")
    assert back.opened == () and [f for f, _ in back.resolved] == [nobody] and f"again {COREWEAVE}" in back.resolved[0][1]
