"""The month in one message."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

from tests.fakes.slack_blocks import checked

from plumbline.alerts.digest import Digest, Entry, render_digest
from plumbline.alerts.monthly_cost import MonthlyCost
from plumbline.alerts.slack.mrkdwn import TRUNCATION_MARK
from plumbline.results.finding import Finding

TODAY = date(2026, 12, 2)


def entry(
    name: str,
    usd: float | None = None,
    *,
    opened: date = date(2026, 11, 5),
    settled: date | None = None,
    teams: tuple[str, ...] = (),
    **changes: Any,
) -> Entry:
    made = Finding(
        finding_id=name,
        series_key="training/gpt@1/h1/torch/h100/here/host",
        campaign_id="2026-11",
        kind="performance",
        severity="warn",
        headline=f"WARN  h100 · training gpt · {name}",
        explanation="",
        provider="h100",
        workload_kind="training",
        workload="gpt",
        subject="performance",
        title=f"{name} is slower",
    )
    return Entry(replace(made, **changes), MonthlyCost(usd, ""), opened, settled, teams)


def said(*entries: Entry) -> str:
    message = render_digest(Digest("2026-11", TODAY, entries))
    checked({"text": message.text, "blocks": list(message.blocks)})
    return message.text


def test_the_dearest_comes_first_and_the_unknown_after_the_known() -> None:
    text = said(
        entry("cheap", 12.0),
        entry("unknown", severity="info"),
        entry("grave", severity="page"),
        entry("dear", 4310.0, opened=date(2026, 9, 1), state="acknowledged"),
        entry("saving", -900.0),
    )
    lines = text.splitlines()
    assert lines[0] == "Plumbline in 2026-11: 5 findings open"
    assert lines[1] == (
        "What is open costs 4,322 USD a month at the declared volumes, and saves 900 USD. The cost of 2 findings is not known."
    )
    assert [line.split("  plumbline findings show ")[1] for line in lines if "findings show" in line] == [
        "dear",
        "saving",
        "cheap",
        "grave",
        "unknown",
    ]
    assert "1. 4,310 USD a month  WARN  h100 · training gpt · dear is slower (acknowledged), since campaign 2026-11, open 92 days" in text
    assert "2. saves 900 USD a month" in text and "4. cost unknown  PAGE" in text


def test_it_sums_by_provider_and_by_team() -> None:
    text = said(
        entry("a", 100.0, teams=("platform", "product")),
        entry("b", 50.0, provider="a100", teams=("product",)),
        entry("c", provider="a100"),
        entry("d", provider="tpu"),
    )
    assert "By provider\nh100: 100 USD a month (1 finding)\na100: 50.00 USD a month".replace("50.00", "50") in text
    assert "a100: 50 USD a month (2 findings, 1 of unknown cost)" in text and "tpu: cost unknown (1 finding)" in text
    assert "By team\nproduct: 150 USD a month (2 findings)\nplatform: 100 USD a month (1 finding)" in text


def test_what_changed_in_the_month_and_what_did_not() -> None:
    text = said(
        entry("old", opened=date(2026, 10, 30)),
        entry("new"),
        entry("normal", 70.0, settled=date(2026, 11, 20), state="accepted"),
        entry("over", settled=date(2026, 11, 21), state="resolved", opened=date(2026, 8, 1)),
        entry("later", settled=date(2026, 12, 1), state="resolved", opened=date(2026, 8, 1)),
    )
    assert "What changed in 2026-11: 2 began, 1 accepted as the new normal, 1 resolved" in text
    assert "• accepted: h100 · normal is slower, 70 USD a month from now on" in text and "• resolved: h100 · over is slower" in text
    assert "later" not in text


def test_simulated_findings_are_no_money() -> None:
    text = said(
        entry("real", 10.0),
        entry("sim", 5000.0, simulated=True),
        entry("over", settled=date(2026, 11, 3), state="resolved", simulated=True),
    )
    assert "5,000" not in text and "1 finding of simulated providers not counted" in text and "0 resolved" in text
    assert "not counted" not in said(entry("real", 10.0))


def test_nothing_is_open() -> None:
    text = said()
    assert "0 findings open" in text and "Nothing is open" in text and "0 began, 0 accepted as the new normal, 0 resolved" in text
    assert "no volume is declared for 1 finding " in said(entry("a"))


def test_a_bad_month_is_still_taken_by_slack() -> None:
    many = [
        entry(f"{i:012d}", float(i), title="<x> & " * 200, teams=tuple(f"team-{t}" for t in range(60)), provider=f"p-{i}")
        for i in range(60)
    ]
    over = [entry(f"s{i}", settled=date(2026, 11, 9), state="resolved", title="y" * 999) for i in range(60)]
    assert said(*many, *over).endswith(TRUNCATION_MARK)
    blocks = render_digest(Digest("2026-11", TODAY, (*many, *over))).blocks
    assert any("… and 50 more: `plumbline findings`" in str(block) for block in blocks)
