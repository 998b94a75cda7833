"""What a thread says after its first message."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.slack_blocks import checked
from tests.unit.alerts.test_message import FINDING

from plumbline.alerts import AlertContext
from plumbline.alerts.message import ESCALATED, REOPENED, reply

CONTEXT = AlertContext(owner="U0123456789", cost="costs 146 USD a month", came_back="resolved on 2026-11-02, was finding b")


def test_each_says_why_it_speaks_whom_it_is_for_and_what_it_is_about() -> None:
    for what, first in (
        (ESCALATED, "Now a page: it became graver than what was told first"),
        (REOPENED, "It came back (resolved on 2026-11-02, was finding b)"),
        ("reminder 3", "Still open since campaign 2026-11: nobody has dealt with it (reminder 3)"),
    ):
        message = reply(what, FINDING, CONTEXT)
        checked({"text": message.text, "blocks": list(message.blocks)})
        assert message.blocks[0]["text"]["text"] == f"<@U0123456789> *{first}*"
        assert FINDING.headline in message.text and "costs 146 USD a month" in message.blocks[1]["text"]["text"]


def test_a_reminder_says_how_to_end_it() -> None:
    said = reply("reminder 1", FINDING, AlertContext()).text
    assert "plumbline findings acknowledge a1b2c3d4e5f6" in said and "plumbline findings snooze a1b2c3d4e5f6 --until 14d" in said
    assert "findings snooze" not in reply(ESCALATED, FINDING, AlertContext()).text


def test_simulated_says_so_and_long_parts_are_cut() -> None:
    long = reply(REOPENED, replace(FINDING, simulated=True, headline="x <!channel> " * 900), CONTEXT)
    checked({"text": long.text, "blocks": list(long.blocks)})
    assert long.text.startswith("SIMULATED: It came back") and "<!channel>" not in long.blocks[1]["text"]["text"]
