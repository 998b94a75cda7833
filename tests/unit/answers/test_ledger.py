"""One ledger of money: each amount is in one row, and a row is a cost or a saving."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from plumbline.analysis.decisions.savings import Savings, Switch
from plumbline.answers.costed_findings import ClaimStanding, CostedFinding
from plumbline.answers.ledger import ledger_of
from plumbline.findings.monthly_cost import MonthlyCost
from plumbline.presentation.ledger_words import counted_text
from plumbline.presentation.tiles import lost_tile, money_sentences
from plumbline.results.finding import FLEET, CauseEvidence, ChoiceMove, EndingHours, Finding, FindingKind, PromisedCredit, Severity

DAY = date(2026, 11, 5)
DRIVER = "driver.version"


def finding(name: str, kind: FindingKind, subject: str, severity: Severity = "warn", **fields: object) -> Finding:
    made = Finding(
        finding_id=name,
        series_key="",
        campaign_id="2026-11",
        kind=kind,
        severity=severity,
        evidence=name,
        explanation="",
        provider="borealis",
        workload_kind="training",
        workload="gpt",
        subject=subject,
        title=name,
    )
    return replace(made, **fields)  # type: ignore[arg-type]


def costed(made: Finding, usd: float | None, *parts: tuple[str, float], text: str = "costs money", free: bool = False) -> CostedFinding:
    return CostedFinding(made, MonthlyCost(usd, text, parts=parts, free=free), DAY, None, ("platform",))


MOVES = (ChoiceMove("product", "training", "borealis", "aurora", True),)
RISE = finding("rise", "price", "price on-demand", effect=0.3, campaign_id=None, since="2026-09-01", moves=MOVES)
SAME = ("borealis raised its price 30 % on 1 September 2026",)
CHOICE = replace(RISE, finding_id="choice", subject="winner/product/training/gpt", causes=SAME)
PRICE = ("borealis price on_demand", 15_943.0)


def test_a_price_and_the_first_choice_that_it_moved_are_one_row() -> None:
    slow = costed(finding("slow", "performance", "performance"), 2_761.0, ("borealis gpt", 2_761.0))
    for grave in ("warn", "page"):  # whichever leads
        found = ledger_of([costed(RISE, PRICE[1], PRICE), costed(replace(CHOICE, severity=grave), PRICE[1], PRICE, text=""), slow])
        lead = "choice" if grave == "page" else "rise"
        assert [(row.row_id, row.usd) for row in found.rows] == [(lead, PRICE[1]), ("slow", 2_761.0)]
        assert found.row_of == {"rise": lead, "choice": lead, "slow": "slow"} and len(found.rows[0].counts) == 1
        assert found.total().lost == sum(row.usd or 0.0 for row in found.rows)


def test_a_choice_whose_price_was_accepted_keeps_the_amount_until_its_team_decides() -> None:
    accepted = replace(RISE, state="accepted")
    (row,) = ledger_of([costed(accepted, PRICE[1], PRICE), costed(CHOICE, PRICE[1], PRICE, text="")]).rows
    assert (row.row_id, row.usd, row.ends, row.counts) == ("choice", PRICE[1], "first_choice", ())


@pytest.mark.parametrize("severity", ["warn", "page"])
def test_a_pooled_cause_has_what_its_members_cost(severity: Severity) -> None:
    cause = finding(
        "cause", "performance", "cause/driver", provider=FLEET, series=("a", "b"), attributed_to=(DRIVER,),
        cause=CauseEvidence((DRIVER,), ("driver 570",), "regressed", ("borealis", "cirrus"), (), 2, 2, 2, 3, 0.01),
    )  # fmt: skip
    member = finding("member", "performance", "performance", severity, attributed_to=(DRIVER,), series=("a",))
    other = finding("other", "performance", "performance", workload="bert", attributed_to=("image",), series=("c",))
    found = ledger_of(
        [
            costed(member, 700.0, ("borealis gpt", 700.0)),
            costed(cause, 1_000.0, ("borealis gpt", 600.0), ("cirrus gpt", 400.0)),
            costed(other, 50.0, ("borealis bert", 50.0)),
        ]
    )
    assert [(row.row_id, row.usd) for row in found.rows] == [("cause", 1_000.0), ("other", 50.0)]
    assert found.row_of["member"] == "cause" and found.change_of("member") is None


def test_what_has_no_price_is_counted_beside_the_sum_and_what_costs_nothing_is_not() -> None:
    latency = costed(finding("latency", "performance", "performance"), None, text="no direct cost", free=True)
    found = ledger_of([costed(finding("unknown", "performance", "performance", workload="bert"), None), latency])
    assert [row.row_id for row in found.rows] == ["unknown"] and found.total().unknown == 1
    assert lost_tile(found.total()).value == "unknown", "no price is not zero"
    more = ledger_of([*(costed(finding(n, "performance", "performance"), None) for n in "ab"), costed(RISE, 10.0)])
    assert money_sentences(more.total()) == ("10.00 USD lost a month by 1 finding and 2 without a price",)


def test_costs_and_savings_share_no_row_and_no_sentence() -> None:
    fast = costed(finding("fast", "performance", "performance"), -900.0, ("borealis gpt", -900.0))
    savings = Savings((Switch("gpt", ("platform",), "borealis", "aurora", 19_454.0, 0.4, 0.9),), 1, 1)
    found = ledger_of([costed(RISE, 2_000.0), fast], savings)
    assert [(row.sort, row.usd) for row in found.rows] == [("move", 19_454.0), ("cost", 2_000.0), ("gain", 900.0)]
    assert (found.total().lost, found.total().saved) == (2_000.0, 900.0), "a move is no amount of a finding"
    sentences = lost_tile(found.total()).note.split(". ")
    assert len(sentences) == 2 and "900" in sentences[1] and "saved" not in sentences[0]


def test_what_is_simulated_adds_to_no_sum_of_what_is_measured() -> None:
    made_up = costed(replace(RISE, finding_id="sim", simulated=True), 5_000.0, ("sim price on_demand", 5_000.0))
    both = ledger_of([made_up, costed(finding("slow", "performance", "performance"), 10.0, ("borealis gpt", 10.0))])
    assert (both.total().lost, both.total().apart) == (10.0, 5_000.0) and "5,000" in lost_tile(both.total()).note
    alone = ledger_of([made_up])
    assert (alone.total().lost, alone.total().apart) == (5_000.0, 0.0), "a rehearsal has a sum of its own"


def claim(name: str, usd: float | None, standing: ClaimStanding = "to_claim", **credit: object) -> CostedFinding:
    promised = replace(PromisedCredit(0.1, "2026-09", "2026-10-30"), **credit)  # type: ignore[arg-type]
    made = finding(name, "reliability", f"promise/{name}", credit=promised)
    return replace(costed(made, None, text=""), cost=MonthlyCost(None, "", credit=usd), claim=standing)


def test_a_claim_is_a_row_and_in_no_sum_a_month() -> None:
    slow = costed(finding("slow", "performance", "performance"), 10.0, ("borealis gpt", 10.0))
    found = ledger_of([claim("down", 17_082.0), claim("sent", 50.0, "claimed"), claim("old", 5.0, "too_late"), slow])
    assert [(row.row_id, row.sort, row.usd, row.until) for row in found.rows[:2]] == [
        ("slow", "cost", 10.0, None),
        ("down", "claim", 17_082.0, date(2026, 10, 30)),
    ]
    month = found.total()
    assert (month.lost, month.to_claim, month.claims) == (10.0, 17_082.0, 1), "what was claimed, or lapsed, is not to claim"
    assert money_sentences(month)[-1] == "to claim once: 17,082 USD in 1 claim, until 2026-10-30"
    assert found.change_of("down") is None and "17,082" in lost_tile(month).note
    assert "claimed already" in counted_text(found, "sent") and "too late" in counted_text(found, "old")


def test_promises_of_a_month_that_share_a_credit_are_one_row() -> None:
    found = ledger_of([claim("recover", 100.0, shared=True), claim("support", 100.0, shared=True), claim("own", 30.0)])
    assert [(row.usd, len(row.counts)) for row in found.rows] == [(100.0, 1), (30.0, 0)] and found.total().to_claim == 130.0
    assert found.row_of["support"] == "recover" and counted_text(found, "support").startswith("counted in finding recover: a credit of 100")


def test_a_credit_that_cannot_be_priced_is_counted_beside_the_sum() -> None:
    month = ledger_of([claim("down", None), claim("other", 5.0)]).total()
    assert (month.to_claim, month.claims_unknown) == (5.0, 1) and "5.00 USD and 1 credit of unknown amount" in money_sentences(month)[-1]


@pytest.mark.parametrize(("worth", "says"), [(1_200.0, "saves 1,200"), (-350.0, "costs 350"), (None, "not known")])
def test_a_reservation_that_ends_says_what_is_paid_and_what_renewing_is_worth(worth: float | None, says: str) -> None:
    made = finding("ends", "price", "commitment c until 2026-12-31", ending=EndingHours("2026-12-31", 1_752.0, worth))
    found = ledger_of([costed(made, None, text="")])
    (row,) = found.rows
    assert (row.sort, row.paid, row.usd, row.until, row.ends) == ("ending", 1_752.0, worth, date(2026, 12, 31), "renewal")
    assert (found.total().lost, found.total().saved, found.total().reserved) == (0.0, 0.0, 1_752.0)
    assert "1,752 USD a month is paid" in money_sentences(found.total())[-1] and says in counted_text(found, "ends")


def test_a_page_says_which_row_has_its_amount_and_what_sum_that_is_part_of() -> None:
    cause = finding(
        "cause", "performance", "cause/driver", provider=FLEET, series=("a", "b"), attributed_to=(DRIVER,),
        cause=CauseEvidence((DRIVER,), ("driver 570",), "regressed", ("borealis", "cirrus"), (), 2, 2, 2, 3, 0.01),
    )  # fmt: skip
    member = finding("member", "performance", "performance", attributed_to=(DRIVER,), series=("a",))
    found = ledger_of(
        [costed(member, 700.0, ("borealis gpt", 700.0)), costed(cause, 400.0, ("borealis gpt", 300.0), ("cirrus gpt", 100.0))]
    )
    (row,) = found.rows
    assert row.parts == (("borealis", 300.0), ("cirrus", 100.0)) and row.providers == ("borealis", "cirrus")
    assert counted_text(found, "member") == "counted with this in finding cause, which costs 400.00 USD a month; no other finding costs"
    assert "with 1 other finding of its cause" in counted_text(found, "cause") and not counted_text(found, "unknown")
    assert found.headline_usd("cause", 1.0) == 400.0 and found.headline_usd("member", 700.0) == 700.0
