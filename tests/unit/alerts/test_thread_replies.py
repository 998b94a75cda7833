"""What a thread says after its first message."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.slack_blocks import checked
from tests.golden import Golden
from tests.unit.alerts.test_message import FINDING

from plumbline.alerts import AlertContext
from plumbline.alerts.message import ESCALATED, REOPENED, reply
from plumbline.findings.headline import headline

CONTEXT = AlertContext(owner="U0123456789", cost="costs 146 USD a month", came_back="resolved on 2026-11-02, was finding b")


@pytest.mark.parametrize("what", [ESCALATED, REOPENED, "reminder 3"])
def test_each_says_why_it_speaks_whom_it_is_for_and_what_it_is_about(what: str, golden: Golden) -> None:
    message = reply(what, FINDING, CONTEXT)
    checked({"text": message.text, "blocks": list(message.blocks)})
    golden(f"alerts.reply_{what.split()[0]}", message.text)
    assert message.blocks[0]["text"]["text"] == f"<@U0123456789> *{message.title}*"
    assert headline(FINDING, CONTEXT.usd) in message.text and CONTEXT.cost in message.blocks[1]["text"]["text"]


def test_a_reminder_says_how_to_end_it() -> None:
    text = reply("reminder 1", FINDING, AlertContext()).text
    assert all(f"findings {verb} {FINDING.finding_id}" in text for verb in ("acknowledge", "snooze"))
    assert "findings snooze" not in reply(ESCALATED, FINDING, AlertContext()).text


def test_simulated_says_so_and_long_parts_are_cut() -> None:
    long = reply(REOPENED, replace(FINDING, simulated=True, title="x <!channel> " * 900), CONTEXT)
    checked({"text": long.text, "blocks": list(long.blocks)})
    assert long.title.startswith("SIMULATED: ") and "<!channel>" not in long.blocks[1]["text"]["text"]
