"""The month in one message."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, datetime, timezone
from typing import Any

from tests.fakes.slack_blocks import checked
from tests.golden import Golden

from plumbline.alerts.digest import Digest, render_digest
from plumbline.alerts.slack.mrkdwn import TRUNCATION_MARK
from plumbline.answers.costed_findings import CostedFinding
from plumbline.findings.monthly_cost import MonthlyCost
from plumbline.presentation.events.event import Looked, StreamEvent
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
) -> CostedFinding:
    made = Finding(
        finding_id=name,
        series_key="training/gpt@1/h1/torch/h100/here/host",
        campaign_id="2026-11",
        kind="performance",
        severity="warn",
        evidence=f"WARN  h100 · training gpt · {name}",
        explanation="",
        provider="h100",
        workload_kind="training",
        workload="gpt",
        subject="performance",
        title=f"{name} is slower",
    )
    return CostedFinding(replace(made, **changes), MonthlyCost(usd, "costs money"), opened, settled, teams)


def said(*entries: CostedFinding) -> str:
    message = render_digest(Digest("2026-11", TODAY, entries))
    checked({"text": message.text, "blocks": list(message.blocks)})
    return message.text


def test_the_dearest_comes_first_and_the_unknown_after_the_known(golden: Golden) -> None:
    text = said(
        entry("cheap", 12.0),
        entry("unknown", severity="info"),
        entry("grave", severity="page"),
        entry("dear", 4310.0, opened=date(2026, 9, 1), state="acknowledged"),
        entry("saving", -900.0),
    )
    golden("alerts.digest", text)
    assert [line.rsplit("  ", 1)[1] for line in text.splitlines() if line[:1].isdigit()] == [
        "dear",
        "saving",
        "cheap",
        "grave",
        "unknown",
    ]


def test_it_sums_by_provider_and_by_team() -> None:
    text = said(
        entry("a", 100.0, teams=("platform", "product")),
        entry("b", 50.0, provider="a100", teams=("product",)),
        entry("c", provider="a100"),
        entry("d", provider="tpu"),
    )
    sums = [line.split(":") for line in text.splitlines() if line.startswith(("h100:", "a100:", "tpu:", "product:", "platform:"))]
    assert [(name, re.findall(r"\d+", amounts)) for name, amounts in sums] == [
        ("h100", ["100", "1"]),
        ("a100", ["50", "2", "1"]),
        ("tpu", ["1"]),
        ("product", ["150", "2"]),
        ("platform", ["100", "1"]),
    ]


def event(what: str, kind: str = "finding", **changes: Any) -> StreamEvent:
    return StreamEvent(f"{kind}/{what}", datetime(2026, 11, 20, tzinfo=timezone.utc), kind, what, f"gpt {what} <here>", **changes)


def happened(*events: StreamEvent, **changes: Any) -> str:
    message = render_digest(Digest("2026-11", TODAY, (), events=events, **changes))
    checked({"text": message.text, "blocks": list(message.blocks)})
    return message.text


def test_what_happened_in_the_month(golden: Golden) -> None:
    text = happened(
        event("accepted", "action", usd=70.0, who="ada"),
        event("resolved"),
        event("opened", usd=10.0),
        event("ended", "outage"),
        event("began", "campaign"),
        event("ended", "campaign"),
        event("resolved", simulated=True, usd=5000.0),
    )
    golden("alerts.digest_changes", text)
    assert "1 finding resolved" in text and "gpt opened" not in text and "gpt began" not in text, "counted, and in the list above"


def test_simulated_findings_are_no_money() -> None:
    text = said(entry("real", 10.0), entry("sim", 5000.0, simulated=True))
    assert "5,000" not in text
    footer, without = text.splitlines()[-1], said(entry("real", 10.0)).splitlines()[-1]
    assert footer.startswith(without) and re.findall(r"\d+", footer.removeprefix(without)) == ["1"]
    assert "gpt ended" in happened(event("ended", "outage", simulated=True), simulated=True)
    assert "gpt ended" not in happened(event("ended", "outage", simulated=True))


def test_nothing_is_open(golden: Golden) -> None:
    golden("alerts.digest_of_nothing", said())
    never = happened(looked=(Looked("deliveries", None, "none"), Looked("campaigns", datetime(2026, 11, 1, tzinfo=timezone.utc))))
    assert "nothing; never looked at: deliveries\n" in never
    assert "volumes" in said(entry("a")).splitlines()[1]


def test_a_bad_month_is_still_taken_by_slack() -> None:
    many = [
        entry(f"{i:012d}", float(i), title="<x> & " * 200, teams=tuple(f"team-{t}" for t in range(60)), provider=f"p-{i}")
        for i in range(60)
    ]
    over = tuple(replace(event("resolved"), event_id=f"e{i}", text="y" * 999) for i in range(60))
    message = render_digest(Digest("2026-11", TODAY, tuple(many), events=over))
    checked({"text": message.text, "blocks": list(message.blocks)})
    assert message.text.endswith(TRUNCATION_MARK)
    blocks = message.blocks
    assert len(blocks) <= 5 and any("and 52 more" in str(block) for block in blocks)


def test_a_rehearsal_has_simulated_findings_alone_and_says_so() -> None:
    entries = (entry("genuine", 10.0), entry("sim", 5000.0, simulated=True))
    message = render_digest(Digest("2026-11", TODAY, entries, simulated=True))
    checked({"text": message.text, "blocks": list(message.blocks)})
    assert message.title.startswith("SIMULATED ") and message.text.splitlines()[-1].startswith("SIMULATED")
    assert "5,000" in message.text and "genuine" not in message.text
