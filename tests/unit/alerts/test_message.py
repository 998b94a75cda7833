from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone

import pytest
from tests.fakes.slack_blocks import checked
from tests.golden import Golden

from plumbline.alerts import AlertContext, render
from plumbline.alerts.message import FIELD_LIMIT, HEADER_LIMIT, SECTION_LIMIT, TEXT_LIMIT, render_details
from plumbline.alerts.preview import lines
from plumbline.alerts.slack.mrkdwn import TRUNCATION_MARK
from plumbline.findings.headline import headline
from plumbline.findings.types import type_of
from plumbline.results.finding import Finding, Member

FINDING = Finding(
    finding_id="a1b2c3d4e5f6",
    series_key="training/gpt@1/h1/torch/local-2core/here/host-2core",
    campaign_id="2026-11",
    kind="performance",
    severity="page",
    evidence="step_time +91 % (95 %: +80 … +104), 5 of 5 repeats",
    explanation="explained by: usable cores 2 → 1 (5 of 5 trials); matmul −48 % agrees, disk unchanged",
    provider="local-2core",
    workload_kind="training",
    workload="gpt",
    subject="performance",
    title="step_time +91 %",
    metric="step_time",
    members=(Member("step_time", "step_time +91 %"), Member("tokens_per_second", "tokens_per_second −48 %")),
    attributed_to=("cpu.usable",),
    baseline_campaigns=("2026-10",),
)


def test_the_log_says_what_why_and_what_to_do(golden: Golden) -> None:
    text = render(FINDING).text
    assert [line.strip() for line in text.splitlines()[:3]] == [f"PAGE: {headline(FINDING)}", FINDING.evidence, FINDING.explanation]
    golden("alerts.finding", text)


def test_slack_shows_it_in_the_order_in_which_one_asks(golden: Golden) -> None:
    message = render(FINDING, AlertContext(links=(("https://findings/1", "finding"),)))
    blocks = message.blocks
    assert [block["type"] for block in blocks] == ["header", "section", "section", "context"]
    golden("alerts.title", message.title)
    assert blocks[0]["text"]["text"] == message.title
    assert blocks[1]["text"]["text"] == f"*Because*  {FINDING.explanation.removeprefix('explained by: ')}"
    assert blocks[2]["text"]["text"] == "<https://findings/1|finding>"
    assert "a1b2c3d4e5f6" in blocks[3]["elements"][0]["text"]


def test_the_chart_is_in_the_message_of_five_blocks_and_the_rest_in_the_thread() -> None:
    chart = ("F0123", "step time since 2026-03")
    context = AlertContext(usd=5670.0, links=(("https://airflow/1", "finding"),), chart=chart)
    message = render(FINDING, context=context)
    assert [block["type"] for block in message.blocks] == ["header", "section", "image", "section", "context"]
    assert (message.blocks[2]["slack_file"]["id"], message.blocks[2]["alt_text"]) == chart
    assert "5,700 USD" in message.title
    checked({"text": message.text, "blocks": list(message.blocks)})
    details = render_details(FINDING, context=context)
    checked({"text": details.text, "blocks": list(details.blocks)})
    shown = json.dumps(details.blocks, ensure_ascii=False)
    assert len(details.blocks) <= 5 and FINDING.evidence in shown
    for part in (*(member.text for member in FINDING.members), *(command for command, _ in type_of(FINDING).steps(FINDING))):
        assert part in shown and part not in json.dumps(message.blocks[1:], ensure_ascii=False)


def test_the_same_finding_gives_the_same_message_and_a_new_state_another() -> None:
    assert render(FINDING).digest == render(FINDING).digest
    resolved = render(FINDING.with_state("resolved"))
    assert resolved.digest != render(FINDING).digest
    assert resolved.blocks[0]["text"]["text"].startswith("RESOLVED") and "findings accept" not in resolved.text


def test_simulated_says_so_in_head_and_foot() -> None:
    blocks = render(replace(FINDING, simulated=True)).blocks
    assert blocks[0]["text"]["text"].startswith("SIMULATED PAGE") and "SIMULATED" in blocks[-1]["elements"][0]["text"]
    assert "SIMULATED" not in json.dumps(render(FINDING).blocks)


def test_over_long_parts_are_cut_to_what_slack_takes_and_say_so() -> None:
    long = "driver 550.90.07 → 570.86.15 & <more>; " * 300
    members = tuple(Member(f"m{i}", f"metric {i} {'x' * 400}") for i in range(40))
    monster = replace(
        FINDING,
        evidence=long,
        explanation=long,
        title=long,
        members=members,
        attributed_to=("key",) * 900,
        baseline_campaigns=("c" * 60,) * 90,
    )
    message = render(monster, AlertContext(links=(("https://findings/" + "r" * 4000, "finding"),)))
    checked({"text": message.text, "blocks": list(message.blocks)})
    assert len(message.text) <= TEXT_LIMIT and message.text.endswith(TRUNCATION_MARK)
    assert HEADER_LIMIT < len(message.blocks[0]["text"]["text"]) <= FIELD_LIMIT
    assert message.blocks[1]["text"]["text"].endswith(TRUNCATION_MARK)
    details = render_details(monster)
    checked({"text": details.text, "blocks": list(details.blocks)})
    assert all(len(field["text"]) <= FIELD_LIMIT for field in details.blocks[1]["fields"])
    for blocks in (message.blocks, details.blocks):
        assert all(len(b["text"]["text"]) <= SECTION_LIMIT for b in blocks if b["type"] == "section" and "text" in b)


def test_more_members_than_fit_are_counted() -> None:
    members = tuple(Member(f"m{i}", f"metric {i} +9 %") for i in range(14))
    assert "and 4 more" in render_details(replace(FINDING, members=members)).blocks[2]["text"]["text"]


def test_a_version_string_cannot_mention_everybody() -> None:
    text = json.dumps(render(replace(FINDING, explanation="driver <!channel> & co")).blocks)
    assert "<!channel>" not in text and "&lt;!channel&gt; &amp; co" in text


@pytest.mark.parametrize("kind", ["environment", "reliability", "missing_data", "price"])
def test_other_kinds_render_too(kind: str) -> None:
    bare = replace(FINDING, kind=kind, members=(), attributed_to=(), baseline_campaigns=(), explanation="", title="")  # type: ignore[arg-type]
    message = render(bare)
    checked({"text": message.text, "blocks": list(message.blocks)})
    assert "plumbline compare" not in message.text


def test_a_price_is_accepted_as_what_it_is() -> None:
    price = replace(FINDING, kind="price", subject="price on-demand")
    (why,), (baseline,) = ([why for command, why in type_of(f).steps(f) if "findings accept" in command] for f in (price, FINDING))
    assert "price" in why and "price" not in baseline
    assert render(price.with_state("accepted")).title != render(FINDING.with_state("accepted")).title


def test_beside_the_finding_stand_owner_money_where_to_look_and_what_became_of_it_before(golden: Golden) -> None:
    context = AlertContext(
        owner="S0123456789",
        cost="costs 146 USD a month at the declared volume",
        links=(("https://airflow/plumbline/findings", "the findings' page"), ("https://airflow/required_actions", "decide in Airflow")),
        snoozed_until=datetime(2026, 12, 1, 9, tzinfo=timezone.utc),
        came_back="resolved on 2026-11-02, was finding b",
    )
    message = render(FINDING, context=context)
    checked({"text": message.text, "blocks": list(message.blocks)})
    shown = json.dumps(message.blocks, ensure_ascii=False)
    golden("alerts.finding_with_context", "\n".join("".join(s.text for s in line.spans) for line in lines(message)))
    assert message.blocks[1]["text"]["text"].startswith("<!subteam^S0123456789> *Because*  ")
    assert "<https://airflow/required_actions|decide in Airflow>" in shown
    for line in (context.came_back, context.cost, "https://airflow/required_actions"):
        assert f"{line}\n" in f"{message.text}\n"
    assert (
        "S0123456789" not in message.text and AlertContext(owner="U0123456789").mention == "<@U0123456789>" and AlertContext().mention == ""
    )
    assert message.digest != render(FINDING).digest


@pytest.mark.parametrize("kind", ["reliability", "missing_data"])
def test_nobody_is_told_to_accept_what_no_baseline_can_take_in(kind: str) -> None:
    text = render(replace(FINDING, kind=kind)).text  # type: ignore[arg-type]
    assert "findings accept" not in text and f"findings resolve {FINDING.finding_id}" in text
    assert "findings accept" in render(FINDING).text


def test_what_is_missing_was_compared_with_nothing_and_did_not_move() -> None:
    silent = replace(FINDING, kind="missing_data", members=(FINDING.members[0], FINDING.members[0]))
    moved = json.dumps(render_details(replace(silent, kind="performance")).blocks)
    shown = json.dumps(render_details(silent).blocks)
    assert "*Missing*" in shown and "missing: " in render(silent).text
    assert "Last in campaign" in shown and "Since campaign" in moved
    for part in ("Compared with", "Moved together"):
        assert part not in shown and part in moved
