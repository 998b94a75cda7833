"""The example, and its picture in the documents."""

from __future__ import annotations

import json
from pathlib import Path

from tests.fakes.slack_blocks import checked

from plumbline.alerts import render
from plumbline.alerts.message import render_details
from plumbline.alerts.preview import EXAMPLE_CONTEXT, EXAMPLE_FINDING, EXAMPLE_HISTORY
from plumbline.metrics.formatting import format_monthly

IMAGES = Path(__file__).resolve().parents[3] / "docs" / "images" / "slack"


def test_slack_takes_it_and_it_agrees_with_itself() -> None:
    message = render(EXAMPLE_FINDING, context=EXAMPLE_CONTEXT)
    checked({"text": message.text, "blocks": list(message.blocks)})
    assert (
        EXAMPLE_FINDING.ci_low is not None
        and EXAMPLE_FINDING.ci_high is not None
        and EXAMPLE_FINDING.effect is not None
        and EXAMPLE_HISTORY.level is not None
    )
    before, after = EXAMPLE_HISTORY.level, EXAMPLE_HISTORY.points[EXAMPLE_HISTORY.since].middle
    assert EXAMPLE_FINDING.ci_low < after / before - 1 < EXAMPLE_FINDING.ci_high
    hours, price = 730, 98.32
    assert format_monthly(hours * price * EXAMPLE_FINDING.effect) in EXAMPLE_CONTEXT.cost
    for fraction in (EXAMPLE_FINDING.ci_low, EXAMPLE_FINDING.ci_high):
        assert f"{hours * price * fraction:,.0f}" in EXAMPLE_CONTEXT.cost


def test_the_documents_show_it_as_it_is() -> None:
    """If this fails: `plumbline alerts preview --example --save docs/images/slack && python tests/browser/message_photos.py docs/images/slack`."""
    message = render(EXAMPLE_FINDING, context=EXAMPLE_CONTEXT)
    shown = json.loads((IMAGES / f"{EXAMPLE_FINDING.finding_id}.json").read_text())
    details = render_details(EXAMPLE_FINDING, context=EXAMPLE_CONTEXT)
    assert shown == {"text": message.text, "blocks": list(message.blocks), "thread": list(details.blocks)}
    for name in ("-light.png", "-dark.png"):
        assert (IMAGES / f"{EXAMPLE_FINDING.finding_id}{name}").read_bytes().startswith(b"\x89PNG")
