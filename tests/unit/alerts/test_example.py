"""The example, and its picture in the documents."""

from __future__ import annotations

import json
from pathlib import Path

from tests.fakes.slack_blocks import checked

from plumbline.alerts import render
from plumbline.alerts.example import CONTEXT, FINDING, HISTORY

IMAGES = Path(__file__).resolve().parents[3] / "docs" / "images" / "slack"


def test_slack_takes_it_and_it_agrees_with_itself() -> None:
    message = render(FINDING, context=CONTEXT)
    checked({"text": message.text, "blocks": list(message.blocks)})
    assert FINDING.ci_low is not None and FINDING.ci_high is not None and FINDING.effect is not None and HISTORY.level is not None
    before, after = HISTORY.level, HISTORY.points[HISTORY.since].middle
    assert FINDING.ci_low < after / before - 1 < FINDING.ci_high
    hours, price = 730, 98.32
    for fraction in (FINDING.effect, FINDING.ci_low, FINDING.ci_high):
        assert f"{hours * price * fraction:,.0f}" in CONTEXT.cost


def test_the_documents_show_it_as_it_is() -> None:
    """If this fails: `plumbline alerts preview --example --save docs/images/slack && python tests/browser/message_photos.py docs/images/slack`."""
    message = render(FINDING, context=CONTEXT)
    shown = json.loads((IMAGES / f"{FINDING.finding_id}.json").read_text())
    assert shown == {"text": message.text, "blocks": list(message.blocks)}
    for name in ("-light.png", "-dark.png"):
        assert (IMAGES / f"{FINDING.finding_id}{name}").read_bytes().startswith(b"\x89PNG")
